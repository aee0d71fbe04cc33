"""What a policy knows for certain about every arm, in normal form: the source of what is shown and concluded."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.state import Floats, Ints, Setting
from bestarm.kernel.tournament import NO_ARM

Bools = npt.NDArray[np.bool_]


class Findings(NamedTuple):
    """What holds with probability 1 - delta, at all times at once.

    An arm that is `feasible` misses no threshold by its slack or more. If any arm is truly feasible, a right answer is
    among the `candidates`: the best feasible arm, or one that is as good within tolerance and slack. Both statements
    hold at once. If intervals decide, that is because all intervals hold at once; if certificates decide,
    it is Proposition K.3 in `docs/certificates/known.md`. There, the claim about all `infeasible` arms together is only
    that the best feasible arm is not among them.
    """

    low: Floats
    high: Floats
    """[arm, metric]: the ends of the interval, infinite where there is no result."""
    holds: Bools
    """[arm, metric], with the objective's entries False."""
    violated: Bools
    """[arm, metric]: False for an arm that may still be the answer, unless it exceeds the slack, too."""
    infeasible: Bools
    excluded: Bools
    beaten_by: Ints
    """By arm: the arm that is shown as the better one, or `NO_ARM`."""
    worst: Ints
    """By arm: the constraint that an infeasible arm most clearly violates."""
    evidence: Floats
    """By arm: the log-evidence behind the verdict that it is out; NaN if the verdict rests on intervals."""
    lead: Floats
    """By arm: a limit of the least by which a beaten arm is worse, minus the tolerance if nothing more is known; NaN if
    performance alone does not show it."""
    tested: Bools
    """By arm: whether there is any result."""

    @property
    def feasible(self) -> Bools:
        """The arms whose constraints all hold."""
        known: Bools = self.holds[:, 1:].all(axis=1) & self.tested & ~self.infeasible
        return known

    @property
    def outperformed(self) -> Bools:
        """The arms that are out because another performs better: by intervals, or by evidence of performance alone."""
        by_performance = np.isnan(self.evidence) | ~np.isnan(self.lead)
        found: Bools = (self.beaten_by != NO_ARM) & ~self.infeasible & by_performance
        return found

    @property
    def candidates(self) -> Bools:
        """The arms that can still be the answer."""
        return ~self.excluded


class Earlier(NamedTuple):
    """What a policy that decides by intervals has concluded earlier and does not take back."""

    holds: Bools
    """[arm, metric]: constraints whose intervals have lain below their thresholds."""
    infeasible: Bools
    beaten: Bools
    """By arm: whether it was given up because a feasible arm is at least as good."""


def exclude_beaten(findings: Findings, beaten: Ints, leader: int) -> None:
    """Take out the arms that are beaten by an arm that is certified feasible and is not out itself."""
    feasible, is_beaten = findings.feasible, beaten != NO_ARM
    beats = feasible & ~(is_beaten & feasible[beaten])
    if leader != NO_ARM:
        beats[leader] = feasible[leader]
    findings.excluded[is_beaten & beats[beaten]] = True
    if leader != NO_ARM:
        findings.excluded[leader] = False


def judged(setting: Setting, counts: Ints, findings: Findings) -> Findings:
    """The same, with a verdict on every single constraint.

    `findings.holds` says which constraints are known to hold. With slack, an arm whose mean lies above a threshold may
    be a right answer. Then the constraint does not count as violated.
    """
    decided = (counts > 1) & (np.arange(counts.shape[1]) > 0)
    is_out = (findings.infeasible | findings.excluded)[:, np.newaxis]
    above = decided & (findings.low > setting.threshold) & (findings.low < math.inf)
    beyond = above & (findings.low > setting.threshold + setting.slack)
    holds = findings.holds & ~(above & findings.infeasible[:, np.newaxis])
    # What was certified stays certified, also where the evidence has fallen back since.
    high = np.where(holds, np.minimum(findings.high, setting.threshold + setting.slack), findings.high)
    return findings._replace(high=high, holds=holds, violated=above & ~holds & (is_out | beyond))


def findings_by_intervals(
    setting: Setting, counts: Ints, low: Floats, high: Floats, earlier: Earlier | None = None
) -> Findings:
    """What follows, now and `earlier`, from intervals that hold all at once, at all times, with probability 1 - delta.

    An interval with an end that is NaN says nothing, and the first test of a stream decides nothing. Policies that
    decide by intervals ignore slack, so only an arm that meets every threshold can exclude another.
    """
    arms, metrics = counts.shape
    if earlier is None:
        earlier = Earlier(np.zeros((arms, metrics), np.bool_), *np.zeros((2, arms), np.bool_))
    decided = (counts > 1) & (np.arange(metrics) > 0)
    below = earlier.holds | (decided & (high < setting.threshold) & (high > -math.inf))
    holds = below | (decided & (high < setting.threshold + setting.slack) & (high > -math.inf))
    above = decided & (low > setting.threshold) & (low < math.inf)
    infeasible = earlier.infeasible | above.any(axis=1)
    excess = np.nan_to_num((low - setting.threshold) * setting.inverse_sigma, nan=-math.inf)[:, 1:]
    findings = Findings(
        *(low, high, holds, above, infeasible, infeasible | earlier.beaten),
        beaten_by=np.full(arms, NO_ARM),
        worst=1 + excess.argmax(axis=1) if metrics > 1 else np.zeros(arms, np.int64),
        evidence=np.full(arms, math.nan),
        lead=np.full(arms, math.nan),
        tested=counts.max(axis=1) > 0,
    )
    proven = findings.feasible & below[:, 1:].all(axis=1)
    rivals = np.flatnonzero(proven & (low[:, 0] > -math.inf) & (low[:, 0] < math.inf))
    if len(rivals):
        best = rivals[low[rivals, 0].argmax()]
        beaten = (high[:, 0] <= low[best, 0]) & (high[:, 0] > -math.inf) & (np.arange(arms) != best)
        findings.beaten_by[beaten] = best
        findings.excluded[beaten] = True
    return judged(setting, counts, findings)


def settled(setting: Setting, counts: Ints, findings: Findings, answer: int | None) -> Findings:
    """What is known once the policy has stopped with `answer`: that it is right, and why the other arms are out.

    An arm that was rejected or beaten stays out, even if the evidence has fallen back since.
    """
    arms = np.arange(len(findings.infeasible))
    if answer is None:
        every_arm = np.ones(len(arms), np.bool_)
        return judged(setting, counts, findings._replace(infeasible=every_arm, excluded=every_arm))
    infeasible, excluded, holds = findings.infeasible & (arms != answer), arms != answer, findings.holds.copy()
    holds[answer, 1:] = True
    beaten_by = np.where(infeasible, findings.beaten_by, answer)
    beaten_by[answer] = NO_ARM
    settled = findings._replace(infeasible=infeasible, excluded=excluded, holds=holds, beaten_by=beaten_by)
    return judged(setting, counts, settled)
