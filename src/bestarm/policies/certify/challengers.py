"""The best arm, without constraints: the kernels of `certify` that need no union over which arm is the better one.

Each arm j is tested against "j is the best", by evidence that its *challengers* perform better. The challenger of an
arm is the leader. That of the leader is the runner-up, the best of the other open arms. It is chosen at the beginning
of a round, and may change from round to round. If j is the best arm, no challenger is better. Only for the best arm is
the hypothesis true, so each arm has all of delta: Theorem P.8 in `docs/certificates/pairs.md`.

Results from before there was a challenger, such as those of an import, count in the evidence about pairs alone. That
has a small share.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from bestarm.evidence.claims import suffices
from bestarm.evidence.pairs import pair_evidence
from bestarm.evidence.reaching import pair_may_reach
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Batch, Floats, Setting, Streams, add_test, conclude, signed
from bestarm.kernel.tournament import NO_ARM, best, enter, key_of
from bestarm.noises.dispatch import scatter
from bestarm.noises.streams import Stream, stream_of
from bestarm.policies.certify.best_arm import settled_best
from bestarm.policies.certify.choosing import reject
from bestarm.policies.certify.goal import Goal, answer_of, kernels_of
from bestarm.policies.certify.memory import Memory, new_memory_of_challengers
from bestarm.policies.confidence import PresentAnswer, compiled_if_large, lesser
from bestarm.policies.findings import Findings
from bestarm.policies.leads import overhead
from bestarm.policies.open_certificates import MOST_SHOWN, OpenCertificate, left_to_go, longest, share_of, tests_in_all

PAIRS = 0.02
"""The share of the evidence about pairs of arms in the evidence that an arm is not the best."""
FORGOTTEN = 100
"""An arm that was rejected is tested again when the leader has this many times as many tests."""
_LOG_REST, _LOG_PAIRS = math.log1p(-PAIRS), math.log(PAIRS)

# ------------------------------------------------------------------------------------------- results of challengers


@kernel
def _copy(results: Streams, row: int, source: Streams, arm: int) -> None:
    results.counts[row, 0] = source.counts[arm, 0]
    results.sums[row, 0] = source.sums[arm, 0]
    for k in range(source.kept.shape[2]):
        results.kept[row, 0, k] = source.kept[arm, 0, k]


@kernel
def _add_since(results: Streams, row: int, streams: Streams, arm: int, start: int, weight: float) -> None:
    """Add to a row the results of an arm that came since its statistics were those in the row `start`."""
    n, total = streams.counts[arm, 0] - results.counts[start, 0], streams.sums[arm, 0] - results.sums[start, 0]
    results.counts[row, 0] += n
    results.sums[row, 0] += total
    if _is_weighted(results, streams):
        results.kept[row, 0, 0] += weight * n
        results.kept[row, 0, 1] += weight * weight * n
        results.kept[row, 0, 2] += weight * total
    else:
        for k in range(streams.kept.shape[2]):
            results.kept[row, 0, k] += streams.kept[arm, 0, k] - results.kept[start, 0, k]


@kernel
def _is_weighted(results: Streams, streams: Streams) -> bool:
    """Whether results are kept by weights, which takes sums that single arms do not keep."""
    return bool(results.kept.shape[2] > streams.kept.shape[2])


@kernel
def challengers_of(setting: Setting, streams: Streams, memory: Memory, arm: int) -> Stream:
    """The results of the arm's challengers, each from when it was the challenger, as one stream. While the arm is
    rejected, nothing is added."""
    results, present, weights = memory.challengers.results, memory.challengers.present, memory.challengers.weights
    arms = streams.counts.shape[0]
    _copy(results, arms, results, arm)
    turn = 1 if present[0] == arm else 0
    if present[turn] != NO_ARM and memory.rejected[arm] == 0:
        _add_since(results, arms, streams, present[turn], arms + 1 + turn, weights[turn])
    return stream_of(setting.pooled, results, arms, 0)


@kernel
def _keep_results(streams: Streams, memory: Memory) -> None:
    """Keep what the present challengers have measured, and begin again."""
    results, present, weights = memory.challengers.results, memory.challengers.present, memory.challengers.weights
    arms = streams.counts.shape[0]
    for arm in range(arms):
        turn = 1 if present[0] == arm else 0
        if present[turn] != NO_ARM and memory.rejected[arm] == 0:
            _add_since(results, arm, streams, present[turn], arms + 1 + turn, weights[turn])
    for turn in range(2):
        if present[turn] != NO_ARM:
            _copy(results, arms + 1 + turn, streams, present[turn])


@kernel
def _appoint(streams: Streams, memory: Memory, leader: int, runner_up: int, tests: float) -> None:
    """From now on these are the challengers, and there are so many tests of the leader for one of another arm."""
    results, present, weights = memory.challengers.results, memory.challengers.present, memory.challengers.weights
    if present[0] == leader and present[1] == runner_up and weights[1] == tests:
        return
    _keep_results(streams, memory)
    present[0], present[1] = leader, runner_up
    weights[0], weights[1] = 1.0 / tests, tests
    for turn in range(2):
        _copy(results, streams.counts.shape[0] + 1 + turn, streams, present[turn])


# ------------------------------------------------------------------------------------------- deciding and choosing


@kernel
def not_best_evidence(setting: Setting, streams: Streams, memory: Memory, leader: int, arm: int) -> float:
    """log W_j: evidence that another arm is better."""
    own, ahead = stream_of(setting, streams, arm, 0), challengers_of(setting, streams, memory, arm)
    found = -math.inf if ahead.n == 0 else _LOG_REST + pair_evidence(ahead, own, 0.0)
    if arm == leader:
        return found
    # The log of the leader's share among all pairs.
    share = -(setting.level[leader] + math.log(setting.delta))
    by_pair = _LOG_PAIRS + share + pair_evidence(stream_of(setting, streams, leader, 0), own, 0.0)
    return by_pair if not found > by_pair else found


@kernel
def _is_not_best(setting: Setting, streams: Streams, memory: Memory, leader: int, arm: int) -> bool:
    """Whether that suffices, computed only as far as it takes to tell."""
    own, ahead = stream_of(setting, streams, arm, 0), challengers_of(setting, streams, memory, arm)
    level, pair_level = -math.log(setting.delta), setting.level[leader] - _LOG_PAIRS
    if not (
        pair_may_reach(ahead, own, 0.0, level - _LOG_REST)
        or pair_may_reach(stream_of(setting, streams, leader, 0), own, 0.0, pair_level)
    ):
        return False
    return suffices(not_best_evidence(setting, streams, memory, leader, arm), level)


@kernel
def _close(setting: Setting, streams: Streams, memory: Memory, leader: int) -> int:
    """Reject the arms that are not the best. Returns the runner-up."""
    kept = 0
    runner_up = NO_ARM
    for index in range(memory.open_count[0]):
        arm = signed(memory.open_arms[index])
        if arm != leader and _is_not_best(setting, streams, memory, leader, arm):
            # What its challengers have measured until now is in the row for scratch.
            _copy(memory.challengers.results, arm, memory.challengers.results, streams.counts.shape[0])
            memory.challengers.judged[arm] = streams.counts[arm, 0]
            reject(memory, arm)
        else:
            memory.open_arms[kept] = arm
            kept += 1
            if arm != leader and (runner_up == NO_ARM or streams.means[arm, 0] > streams.means[runner_up, 0]):
                runner_up = arm
    memory.open_count[0] = kept
    return runner_up


@kernel
def _reopen(setting: Setting, streams: Streams, memory: Memory) -> None:
    """Judge rejected arms again that were tested again."""
    judged = memory.challengers.judged
    for arm in range(streams.counts.shape[0]):
        if memory.rejected[arm] != 0 and streams.counts[arm, 0] > judged[arm]:
            judged[arm] = streams.counts[arm, 0]
            if not _is_not_best(setting, streams, memory, best(memory.candidates), arm):
                _keep_results(streams, memory)
                memory.rejected[arm] = 0
                enter(memory.candidates, arm, key_of(streams.means[arm, 0]))
                memory.open_arms[memory.open_count[0]] = arm
                memory.open_count[0] += 1


@kernel
def _add_forgotten(streams: Streams, memory: Memory, leader: int, batch: Batch, size: int) -> int:
    """Add tests of arms that were rejected long ago. In one study of a thousand the best arm is rejected by early luck,
    as delta allows. To tell the next two apart could take a thousand times as long."""
    for arm in range(streams.counts.shape[0]):
        if memory.rejected[arm] != 0 and FORGOTTEN * streams.counts[arm, 0] < streams.counts[leader, 0]:
            size = add_test(batch, size, arm, 0)
    return size


@kernel
def _worth(setting: Setting, memory: Memory, leader: int) -> float:
    """How many times as much as one test of the leader one of each other open arm costs."""
    total = 0.0
    for index in range(memory.open_count[0]):
        arm = signed(memory.open_arms[index])
        if arm != leader:
            total += setting.inverse_cost[leader, 0] / setting.inverse_cost[arm, 0]
    return total


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    """One test of each open arm and, where results can be weighted, several of the leader, or one in several rounds: to
    tell it from others, each with n tests, costs least if it has n times the root of what one of each costs, in units
    of its own tests."""
    _reopen(setting, streams, memory)
    leader = best(memory.candidates)
    runner_up = _close(setting, streams, memory, leader)
    if runner_up == NO_ARM:
        return conclude(leader)
    of_leader = 1
    rounds = 1
    if _is_weighted(memory.challengers.results, streams):
        root = math.sqrt(_worth(setting, memory, leader))
        # A batch has room for as many of one arm as there are arms.
        of_leader = min(max(int(root + 0.5), 1), streams.counts.shape[0])
        rounds = max(int(1.0 / root + 0.5), 1)
    _appoint(streams, memory, leader, runner_up, of_leader / rounds)
    size = 0
    for index in range(memory.open_count[0]):
        arm = signed(memory.open_arms[index])
        if arm != leader or rounds == 1 or rounds * streams.counts[leader, 0] <= streams.counts[runner_up, 0]:
            size = add_test(batch, size, arm, 0)
    for _ in range(1, of_leader):
        size = add_test(batch, size, leader, 0)
    return _add_forgotten(streams, memory, leader, batch, size)


# ------------------------------------------------------------------------------------------------------ for showing it


@kernel
def _weigh(setting: Setting, streams: Streams, memory: Memory, leader: int, evidence: Floats, tests: Floats) -> None:
    """By arm: the evidence that it is not the best, and about how many more tests it takes until that suffices."""
    level = -math.log(setting.delta)
    for arm in range(streams.counts.shape[0]):
        evidence[arm] = not_best_evidence(setting, streams, memory, leader, arm)
        if arm != leader:
            mean = streams.means[arm, 0]
            one = scatter(setting, streams, leader, 0, streams.means[leader, 0])
            other = scatter(setting, streams, arm, 0, mean)
            needed = tests_in_all(level, streams.means[leader, 0] - mean, one * one + other * other)
            seen, made = challengers_of(setting, streams, memory, arm).n, streams.counts[arm, 0]
            tests[arm] = max(max(needed - seen, 0.0) + max(needed - made, 0.0), 1.0)


def _weighed(setting: Setting, streams: Streams, memory: Memory) -> tuple[int, Floats, Floats]:
    leader = int(best(memory.candidates))
    evidence, tests = np.zeros((2, len(streams.counts)))
    compiled_if_large(_weigh, setting, streams)(setting, streams, memory, leader, evidence, tests)
    return leader, evidence, tests


def _likeliest(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    leader, evidence, _ = _weighed(setting, streams, memory)
    is_open = memory.rejected == 0
    is_open[leader] = False
    return answer_of(setting, leader, functools.reduce(lesser, evidence[is_open].tolist(), math.inf))


def _open_against(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    _, evidence, tests = _weighed(setting, streams, memory)
    arms, level = np.flatnonzero(memory.rejected == 0), -math.log(setting.delta)
    arms = arms[arms != leader]
    certificates = []
    for arm in arms[longest(tests[arms], MOST_SHOWN)].tolist():
        seen, made = challengers_of(setting, streams, memory, arm).n, int(streams.counts[arm, 0])
        share = share_of(evidence[arm], level, overhead(seen) + overhead(made))
        more = left_to_go(tests[arm], share, seen + made)
        certificates.append(OpenCertificate("rival", arm, None, leader, float(share), float(more)))
    return certificates


def evidence_against(setting: Setting, streams: Streams, memory: Memory) -> Floats:
    """By arm: the log-evidence that another arm is better."""
    return _weighed(setting, streams, memory)[1]


KERNELS = kernels_of(_tests)


@functools.cache
def goal_keeping(kept: int) -> Goal:
    """The goal, where challengers' streams keep so many further statistics."""
    kernels = KERNELS._replace(new_memory=functools.partial(new_memory_of_challengers, kept=kept))
    return Goal(kernels, _likeliest, _open_against, settled_best)
