"""`certify`: our own policy. It gathers evidence for the certificates of one answer, and for nothing else."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.evidence.reaching import below_reaches, infeasibility_reaches, infeasibility_up_to, rival_reaches
from bestarm.kernel.compile import kernel
from bestarm.kernel.random import CHOICE, ZIGGURAT, Generator, Ziggurat, next_word, normal, seed_generator
from bestarm.kernel.state import (
    NONE,
    Batch,
    Flags,
    Floats,
    Ints,
    Setting,
    Streams,
    add_test,
    conclude,
    every_stream,
)
from bestarm.kernel.tables import slot
from bestarm.kernel.tournament import NOBODY, Tournament, best, enter, key_of, new_tournament
from bestarm.kernel.words import whole
from bestarm.noises.base import BELOW, stream_of
from bestarm.noises.dispatch import ceiling, scatter
from bestarm.policies.base import KernelPolicy, Kernels, Stop
from bestarm.policies.confidence import (
    Closed,
    Intervals,
    PresentAnswer,
    confidence_of,
    evidence_for,
    excess_of,
    for_size,
    looks_fine,
    lower_end_of,
    lower_level,
    new_intervals,
    pair_level,
    upper_end_of,
    weigh,
)
from bestarm.policies.findings import Findings, exclude_beaten, judged
from bestarm.policies.levels import levels_in_words
from bestarm.policies.limits import differences_from, margin_of, narrow, pair_levels, regret_of
from bestarm.policies.looking_ahead import rounds_ahead
from bestarm.policies.open_certificates import BY_EVIDENCE, OpenCertificate, Weighing, by_evidence
from bestarm.policies.reasons import Reasons, survey
from bestarm.problem import Plan, Problem

# Draws of constraint means spread by half their posterior standard deviation: any one violated constraint of an arm
# is enough, it need not be the worst.
CONSTRAINT_SPREAD = 0.5
SHRINKAGE = 4.0
"""How many imaginary tests at the threshold a constraint's mean is averaged with when weighed against performance."""

STALE = 16
"""A certified constraint is tested again when the arm's performance has been tested this many times as often."""

BEYOND_LUCK = 1e5
FOR_GOOD = 2
"""A constraint that is certified by so much evidence was not certified by luck, and is not tested again for that."""

LEADER = -1


class Memory(NamedTuple):
    """What is certified so far, the candidates for leader, and the arms whose certificates are open."""

    rejected: Flags
    """By arm: 1 once it is certified infeasible."""
    certified: Flags
    """[arm, metric]: 1 once the constraint is certified to hold, or `FOR_GOOD`."""
    suspect: Flags
    """[arm, metric]: 1 while the constraint looks violated."""
    suspects: Ints
    """By arm: how many constraints look violated."""
    candidates: Tournament
    """Arms that look feasible, by mean performance; the best is the leader."""
    beaten: Ints
    """By arm: the leader by which it is certified beaten, or -1."""
    open_arms: npt.NDArray[np.uint32]
    """The arms whose certificates against the leader are open, in the first places, in order."""
    open_count: Ints
    """[0]: how many there are; [1]: the leader they are open against, -2 before the first."""
    told: Ints
    """[0]: how many results have come in."""
    seed: Generator
    """[0]: what random choices are seeded with, together with the number of results."""
    generator: Generator
    ziggurat: Ziggurat


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(
        rejected=np.zeros(arms, np.int8),
        certified=np.zeros((arms, metrics), np.int8),
        suspect=np.zeros((arms, metrics), np.int8),
        suspects=np.zeros(arms, np.int64),
        candidates=new_tournament(arms),
        beaten=np.full(arms, NOBODY),
        open_arms=np.arange(arms, dtype=np.uint32),
        open_count=np.array([arms, -2]),
        told=np.zeros(1, np.int64),
        seed=np.zeros(1, np.uint64),
        generator=np.zeros(4, np.uint64),
        ziggurat=ZIGGURAT,
    )


@kernel
def start(memory: Memory, seed: int, run: int) -> None:
    seed_generator(memory.generator, seed, run, CHOICE)
    memory.seed[0] = next_word(memory.generator) >> np.uint64(1)


@kernel
def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    """Certify the constraint that was just tested if it can be, and see whether the arm looks feasible."""
    memory.told[0] += 1
    judge(setting, streams, memory, arm, metric)


@kernel
def certified_now(setting: Setting, streams: Streams, arm: int, metric: int) -> int:
    """1 if the evidence that a constraint holds suffices, `FOR_GOOD` if that is beyond luck, else 0."""
    limit = setting.threshold[metric] + setting.slack[metric]
    s = stream_of(setting, streams, arm, metric)
    if not below_reaches(s, limit, setting.level[arm]):
        return 0
    return FOR_GOOD if ceiling(s, BELOW, limit) >= BEYOND_LUCK else 1


@kernel
def judge(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    """Certify a constraint if it can be, and see whether the arm looks feasible."""
    if metric > 0:
        # A certificate could be kept for good. But if its constraint is tested again it must still hold: otherwise one
        # that was closed by luck could cost many tests.
        memory.certified[arm, metric] = certified_now(setting, streams, arm, metric)
        suspicious = not looks_fine(setting, streams, arm, metric) and memory.certified[arm, metric] == 0
        memory.suspects[arm] += suspicious - memory.suspect[arm, metric]
        memory.suspect[arm, metric] = suspicious
    is_candidate = memory.suspects[arm] == 0 and not memory.rejected[arm] and streams.counts[arm, 0] > 0
    enter(memory.candidates, arm, key_of(streams.means[arm, 0]) if is_candidate else -math.inf)


@kernel
def close_certificates(setting: Setting, streams: Streams, memory: Memory, leader: int) -> None:
    """Bring the list of open arms up to date: reject arms, or count them as beaten by the leader, where the evidence
    suffices."""
    open_arms, open_count = memory.open_arms, memory.open_count
    if open_count[1] != leader:
        open_count[1] = leader
        open_count[0] = 0
        for arm in range(memory.rejected.shape[0]):
            if arm != leader and memory.rejected[arm] == 0 and (leader == NOBODY or memory.beaten[arm] != leader):
                open_arms[open_count[0]] = arm
                open_count[0] += 1
    kept = 0
    for place in range(open_count[0]):
        arm = whole(open_arms[place])
        if not closes(setting, streams, memory, leader, arm):
            open_arms[kept] = arm
            kept += 1
    open_count[0] = kept


@kernel
def closes(setting: Setting, streams: Streams, memory: Memory, leader: int, arm: int) -> bool:
    """Whether the evidence rejects `arm` or shows it beaten by the leader. If so, that is noted and stays noted."""
    level = setting.rejecting[arm]
    infeasibility = infeasibility_up_to(setting, streams, arm, level)
    if infeasibility_reaches(infeasibility, level):
        memory.rejected[arm] = 1
        enter(memory.candidates, arm, -math.inf)
        return True
    if leader == NOBODY:
        return False
    if not rival_reaches(setting, streams, leader, arm, infeasibility, pair_level(setting, leader, arm)):
        return False
    memory.beaten[arm] = leader
    return True


@kernel
def drawn_excess(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int, spread: float) -> float:
    """A posterior draw of how far a constraint's mean lies over its threshold, in standard deviations."""
    excess = excess_of(setting, streams, arm, metric)
    drawn: float = (
        excess
        + spread * normal(memory.generator, memory.ziggurat) * setting.inverse_root[slot(streams.counts[arm, metric])]
    )
    return drawn


@kernel
def is_stale(streams: Streams, memory: Memory, arm: int, metric: int) -> bool:
    """Whether a certified constraint was settled so long ago that it is worth another look.

    About one study in a thousand certifies a violated constraint by early luck, as delta allows. If that arm is almost
    as good as the best, telling the two apart could take a thousand times as long as all the rest.
    """
    return memory.certified[arm, metric] == 1 and bool(STALE * streams.counts[arm, metric] < streams.counts[arm, 0])


@kernel
def drawn_lead(setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int) -> float:
    """A posterior draw of how far the leader's performance lies above the arm's, in standard deviations of a result."""
    noise = scatter(setting, streams, leader, 0, streams.means[leader, 0])
    root = setting.inverse_root[slot(streams.counts[arm, 0])]
    drawn = streams.means[arm, 0] + noise * normal(memory.generator, memory.ziggurat) * root
    lead: float = (drawn_leader + setting.tolerance - drawn) / noise
    return lead


@kernel
def share_of_gain(streams: Streams, leader: int, arm: int) -> float:
    """How much of what is learned about the lead comes from testing the arm, not the leader: the gain of evidence per
    test is as the square of this share, or of the rest."""
    n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
    share: float = n_leader / (n + n_leader)
    return share


@kernel
def stream_to_test(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> int:
    """The metric of `arm` that promises the most evidence against it per cost, or LEADER for the leader's
    performance."""
    chosen = 0
    promise = 0.0
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        if is_stale(streams, memory, arm, metric):
            return metric
        if memory.certified[arm, metric] == 0:
            excess = drawn_excess(setting, streams, memory, arm, metric, CONSTRAINT_SPREAD)
            gain = excess * abs(excess) * setting.inverse_cost[metric]
            if gain > largest:
                largest = gain
                chosen = metric
    if leader == NOBODY:
        return chosen
    lead = drawn_lead(setting, streams, memory, leader, drawn_leader, arm)
    n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
    if chosen > 0:
        # The largest of many draws is too optimistic: use the mean instead, shrunk toward the threshold.
        tests = streams.counts[arm, chosen]
        excess = max(excess_of(setting, streams, arm, chosen), 0.0) * tests / (tests + SHRINKAGE)
        promise = excess * excess * setting.inverse_cost[chosen]
    if lead > 0.0:
        share = share_of_gain(streams, leader, arm)
        if chosen > 0 and setting.lead[chosen] == setting.lead[0]:
            # One test of the arm tells of both.
            both = promise + (lead * share) ** 2 * setting.inverse_cost[0]
            return 0 if both >= (lead * (1.0 - share)) ** 2 * setting.inverse_cost[0] else LEADER
        gain = lead * lead * setting.inverse_cost[0] * max(share, 1.0 - share) ** 2
        if gain > promise:
            return 0 if n <= n_leader else LEADER
    if chosen > 0:
        return chosen
    return 0 if n <= n_leader else LEADER


@kernel
def drawn_performance(setting: Setting, streams: Streams, memory: Memory, arm: int) -> float:
    """A posterior draw of an arm's performance."""
    noise = scatter(setting, streams, arm, 0, streams.means[arm, 0])
    spread = noise * setting.inverse_root[slot(streams.counts[arm, 0])]
    drawn: float = streams.means[arm, 0] + spread * normal(memory.generator, memory.ziggurat)
    return drawn


@kernel
def tests_of_leader(
    setting: Setting, streams: Streams, memory: Memory, leader: int, is_alone: bool, batch: Batch, size: int
) -> int:
    """Add a test of the leader's constraint most likely violated or, if it `is_alone` and no other arm is open, of all
    that are open: an early leader is often wrong, and certifying it is expensive."""
    chosen = 0
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        if is_stale(streams, memory, leader, metric):
            size = add_test(batch, size, leader, metric)
        elif memory.certified[leader, metric] == 0:
            if is_alone:
                size = add_test(batch, size, leader, metric)
            else:
                excess = drawn_excess(setting, streams, memory, leader, metric, 1.0)
                if excess > largest:
                    largest = excess
                    chosen = metric
    if chosen > 0:
        size = add_test(batch, size, leader, chosen)
    return size


@kernel
def is_untouched(streams: Streams) -> bool:
    """Whether nothing has been tested yet. After that, every stream has a result."""
    return bool(streams.counts[0, 0] == 0)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if is_untouched(streams):
        return every_stream(streams, batch)
    leader = best(memory.candidates)
    close_certificates(setting, streams, memory, leader)
    if leader == NOBODY and memory.open_count[0] == 0:
        return conclude(NONE)

    # Random choices depend only on what is known, so that asking twice gives the same tests.
    seed_generator(memory.generator, whole(memory.seed[0]), memory.told[0], CHOICE)
    drawn_leader = drawn_performance(setting, streams, memory, leader) if leader != NOBODY else 0.0

    # One test for each open arm …
    size = 0
    leader_tested = False
    for place in range(memory.open_count[0]):
        arm = whole(memory.open_arms[place])
        metric = stream_to_test(setting, streams, memory, leader, drawn_leader, arm)
        if metric != LEADER:
            size = add_test(batch, size, arm, metric)
        elif not leader_tested:
            size = add_test(batch, size, leader, 0)
            leader_tested = True
    if leader == NOBODY:
        return size

    # … and for the leader one of its constraints.
    size = tests_of_leader(setting, streams, memory, leader, size == 0, batch, size)
    if size == 0:
        return conclude(leader)
    return size


class Certify(KernelPolicy):
    """Gather evidence for the certificates of the likeliest answer, each until it suffices, and then stop.

    The leader has the best mean among the arms that look feasible. To answer with it takes a certificate for each
    of its constraints and one against each other arm: that it is infeasible, or worse, or half of each. Each round
    tests one stream for each open certificate: the one that, by posterior draws, promises the most evidence per cost.

    Errs with probability at most delta (each certificate is an e-process, which by Ville's inequality ever reaches
    1 / alpha with probability at most alpha if it is false) when observations are independent and scatter as stated.
    `tolerance` and `slack` keep ties and means on a threshold from running forever. It needs several times fewer tests
    than the confidence bounds of the paper's algorithms allow.

    `propose` notes in its memory which arms the evidence has rejected or shown beaten, and seeds its
    random choices by the number of results. Asked again, it proposes the same tests.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. `seed` and `run` seed the posterior draws that choose among tests; no answer rests on
        them.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="certify", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 1,543

    Reference: `docs/certify.md` has the proofs. The evidence is a mixture as in S. R. Howard, A. Ramdas, J. McAuliffe
    and J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49 (2021).
    """

    name = "certify"
    remark = "recommended"
    kernels = Kernels(new_memory, update, propose, start, large=True)
    weigh = staticmethod(weigh)
    survey = staticmethod(survey)
    regret_of = staticmethod(regret_of)
    margin_of = staticmethod(margin_of)
    differences_from = staticmethod(differences_from)
    weighing: ClassVar[Weighing] = BY_EVIDENCE

    @functools.cached_property
    def intervals(self) -> Intervals:
        """The intervals shown last, so that only those of streams tested since then are computed again."""
        return new_intervals(self.arms, self.metrics)

    def propose_ahead(
        self, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int, float]] = ()
    ) -> list[list[tuple[int, int]]]:
        """Plans as if each outstanding result came out at its stream's present mean.

        This affects only which tests are proposed: certificates rest on results in the order of issue.
        """
        return rounds_ahead(self, count, pending, waiting)

    @property
    def leader(self) -> int:
        """The arm with the best mean among those that look feasible, or `NOBODY`."""
        return int(best(self.memory.candidates))

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        """The leader and how sure we are of it. Closed certificates count as closed. With none open, the confidence is
        1 - delta; before that it is less."""
        if stop is not None:
            return PresentAnswer(stop.arm, 1.0 - self.setting.delta)
        if self.untested:
            return super().present_answer()
        memory, leader = self.memory, self.leader
        closed = Closed(memory.certified, memory.rejected, memory.beaten)
        sure = confidence_of(evidence_for(self.setting, self.streams, closed, leader, type(self).weigh))
        return PresentAnswer(None if leader == NOBODY else leader, min(sure, 1.0 - self.setting.delta))

    @classmethod
    def note_on_intervals(cls, plan: Plan, *, brief: bool = False) -> str:
        note = (
            "An interval ends where the evidence that the mean lies inside of that end reaches the level that decides"
        )
        if brief:
            return f"{note}. Decisions may come sooner, from several arms or metrics taken together."
        return f"{note}: {levels_in_words(plan, plan.delta)}."

    def findings(self) -> Findings:
        """What is certified."""
        memory, streams, leader = self.memory, self.streams, self.leader
        reasons = Reasons(np.zeros(self.arms, np.int64), np.zeros(self.arms), np.zeros(self.arms))
        arguments = (memory.rejected, memory.beaten, leader, self.intervals, reasons)
        for_size(type(self).survey, self.setting, streams)(self.setting, streams, *arguments)
        rejected, holds = memory.rejected != 0, memory.certified != 0
        findings = Findings(
            *(self.intervals.low, self.intervals.high, holds, np.zeros_like(holds), rejected, rejected.copy()),
            beaten_by=np.where(memory.beaten == leader, leader, NOBODY),
            worst=reasons.worst,
            evidence=reasons.evidence,
            lead=reasons.lead,
            tested=streams.counts.max(axis=1) > 0,
        )
        exclude_beaten(findings, memory.beaten, leader)
        return judged(self.setting, streams.counts, findings)

    def regret(self, leader: int, found: Findings) -> float:
        """From the evidence that each other arm is infeasible or not better by more."""
        memory = self.memory
        limit = for_size(type(self).regret_of, self.setting, self.streams)
        return float(limit(self.setting, self.streams, memory.rejected, memory.beaten, leader))

    @classmethod
    def regret_is_apart(cls, problem: Problem) -> bool:
        """Together with all the rest, it takes evidence that grows with what is claimed."""
        noise = problem.objective.noise if problem.items is None else problem.objective.noise.differences()
        return noise.kernels.evidence_and_slope is None and not noise.is_exact

    def differences(self, arm: int) -> tuple[Floats, Floats]:
        """From the evidence about each pair of arms, at levels of its own; between the leader and the arms that it has
        beaten by performance alone, from what decides as well."""
        low, high = np.zeros(self.arms), np.zeros(self.arms)
        streams = self._streams_about(arm)
        fill = for_size(type(self).differences_from, self.setting, streams)
        fill(self.setting, streams, arm, *self._levels_of_differences(arm), low, high)
        memory, leader = self.memory, self.leader
        # Of a leader that is not certified feasible, nothing more is said.
        if leader != NOBODY and (memory.beaten == leader).any() and memory.certified[leader, 1:].all():
            find, behind = for_size(type(self).margin_of, self.setting, self.streams), np.zeros(self.arms, np.int8)
            margin = find(self.setting, self.streams, memory.rejected, memory.beaten, leader, behind)
            narrow(low, high, arm, [leader], behind != 0, margin)
        return low, high

    def _levels_of_differences(self, arm: int) -> tuple[Floats, Floats]:
        """By the other arm: what the evidence must reach that `arm` is better by so much, and the other way round."""
        return pair_levels(self.setting, arm)

    def _streams_about(self, arm: int) -> Streams:
        """The streams from which the differences between `arm` and the others follow."""
        return self.streams

    def open_certificates(self, leader: int | None, found: Findings) -> list[OpenCertificate]:
        if self.untested:
            return []
        memory, leading = self.memory, NOBODY if leader is None else leader
        closed = (memory.certified, memory.rejected, memory.beaten)
        return by_evidence(self.setting, self.streams, *closed, leading, type(self).weighing)

    def interval_levels(self, arm: int, metric: int) -> tuple[float, float]:
        return float(lower_level(self.setting, arm, metric)), float(self.setting.level[arm])

    def lower(self, arm: int, metric: int) -> float:
        """Lower end of a stream's interval: the evidence that the mean lies above it has reached the arm's level."""
        return float(lower_end_of(self.setting, self.streams, arm, metric))

    def upper(self, arm: int, metric: int) -> float:
        """Upper end of a stream's interval: the evidence that the mean lies below it has reached the arm's level."""
        return float(upper_end_of(self.setting, self.streams, arm, metric))
