"""The best feasible arm among many arms or with many constraints: the leader is searched in depth before other arms.

With many constraints, hardly any arm has all its means on the right side at first, and the best arms have it least of
all. An arm may lead as long as nothing but noise speaks against it. While it does not look feasible, it is searched for
a violated constraint before tests are spent on arms that look worse.
"""

from __future__ import annotations

import math

from bestarm.evidence.claims import constraint_ceiling, excess_of, looks_fine
from bestarm.kernel.compile import kernel
from bestarm.kernel.random import normal
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude, signed
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.noises.streams import ABOVE
from bestarm.policies.certify.best_arm import close_certificates, likeliest, open_against, settled_best
from bestarm.policies.certify.choosing import (
    LEADER,
    against_performance,
    drawn_performance,
    searching,
    suspicion,
    testing_leader,
)
from bestarm.policies.certify.goal import Goal, kernels_of
from bestarm.policies.certify.leading import drawn_lead
from bestarm.policies.certify.memory import Memory, seed_choices
from bestarm.policies.certify.updating import updating

SUSPECT = 1.5
"""The log-evidence, times the constraint's weight, from which on a violation is no longer put down to noise."""
DEPTH = 64
"""After this many tests of a constraint, a mean on the wrong side is enough: the violation may be tiny."""
IMAGINARY = 20
"""How many imaginary tests at the threshold a constraint's mean is averaged with in the search for a violated one."""
SPREAD = 0.25
"""How much chance there is in this search, in standard deviations."""
FARTHEST = 4
"""The leader's performance is tested at most this many times as often as that of an arm that it is compared with."""


@kernel
def _is_suspicious(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    if looks_fine(setting, streams, arm, metric):
        return False
    violated = setting.log_weight[metric] + constraint_ceiling(setting, streams, arm, metric, ABOVE)
    return bool(violated > SUSPECT or streams.counts[arm, metric] > DEPTH)


@kernel
def _looks_feasible(setting: Setting, streams: Streams, memory: Memory, arm: int) -> bool:
    for metric in range(1, streams.counts.shape[1]):
        if memory.certified[arm, metric] == 0 and not looks_fine(setting, streams, arm, metric):
            return False
    return True


@kernel
def _index(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> float:
    """How far a constraint's mean lies over its limit, shrunk toward it, and with a little chance: the search stays
    with a constraint until it is clear that it holds."""
    n = streams.counts[arm, metric]
    chance = SPREAD * normal(memory.generator, memory.ziggurat) / math.sqrt(n + IMAGINARY)
    excess = excess_of(setting, streams, arm, metric) * n / (n + IMAGINARY) + chance
    return suspicion(setting, excess, arm, metric)


_most_suspect = searching(_index)
_tests_of_leader = testing_leader(_index)


@kernel
def _squares(streams: Streams, memory: Memory) -> float:
    """The sum, over the open arms, of the squared number of tests of their performance."""
    total = 0.0
    for index in range(memory.open_count[0]):
        n = streams.counts[signed(memory.open_arms[index]), 0]
        total += n * n
    return total


@kernel
def _tests_beside_sound(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, batch: Batch
) -> int:
    """One test for each open arm: of its own, or of the performance of a leader that looks feasible.

    What the lead over all open arms takes in all is least where the leader's tests, squared, are as many as those of
    the arms, squared and added up.
    """
    size = 0
    n_leader = streams.counts[leader, 0]
    is_behind = n_leader * n_leader < _squares(streams, memory)
    leader_tested = False
    for index in range(memory.open_count[0]):
        arm = signed(memory.open_arms[index])
        chosen = _most_suspect(setting, streams, memory, arm)
        metric = against_performance(setting, streams, memory, leader, drawn_leader, arm, chosen)
        if metric == 0 and setting.is_joint == 0 and is_behind and n_leader < FARTHEST * streams.counts[arm, 0]:
            metric = LEADER
        if metric != LEADER:
            size = add_test(batch, size, arm, metric)
        elif not leader_tested:
            size = add_test(batch, size, leader, 0)
            leader_tested = True
    return size


@kernel
def _tests_beside_unsound(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, batch: Batch
) -> int:
    """One test for each open arm that may be better than a leader that does not look feasible."""
    size = 0
    leader_tested = False
    for index in range(memory.open_count[0]):
        arm = signed(memory.open_arms[index])
        n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
        if streams.means[arm, 0] > streams.means[leader, 0]:
            # It would lead if it were not suspect.
            size = add_test(batch, size, arm, _most_suspect(setting, streams, memory, arm))
        elif drawn_lead(setting, streams, memory, leader, drawn_leader, arm) <= 0.0:
            if n <= n_leader:
                size = add_test(batch, size, arm, 0)
            elif not leader_tested:
                size = add_test(batch, size, leader, 0)
                leader_tested = True
    return add_test(batch, size, leader, _most_suspect(setting, streams, memory, leader))


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    leader = best(memory.candidates)
    close_certificates(setting, streams, memory, leader)
    if leader == NO_ARM and memory.open_count[0] == 0:
        return conclude(NONE)
    seed_choices(memory)
    if leader == NO_ARM:
        size = 0
        for index in range(memory.open_count[0]):
            arm = signed(memory.open_arms[index])
            size = add_test(batch, size, arm, _most_suspect(setting, streams, memory, arm))
        return size
    drawn_leader = drawn_performance(setting, streams, memory, leader)
    if not _looks_feasible(setting, streams, memory, leader):
        return _tests_beside_unsound(setting, streams, memory, leader, drawn_leader, batch)
    size = _tests_beside_sound(setting, streams, memory, leader, drawn_leader, batch)
    size = _tests_of_leader(setting, streams, memory, leader, size == 0, batch, size)
    return conclude(leader) if size == 0 else size


KERNELS = kernels_of(_tests, update=updating(_is_suspicious), patient=True)
GOAL = Goal(KERNELS, likeliest, open_against, settled_best)
