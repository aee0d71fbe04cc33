"""The checks of one metric: which of them apply to it, and what they have found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bestarm.analysis.health.bets import ORDER_CHECKS, Bets, RankBets, Result, SubGaussianBets
from bestarm.analysis.health.evidence import Scatter, in_any, jointly, log_mean
from bestarm.analysis.health.symmetric import SymmetricBets
from bestarm.analysis.health.typical import Typical, Usual, far_from
from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel
from bestarm.problem import Problem
from bestarm.problem.parts import Constraint

_FIRST_LOOK = 8
_GROWTH = 1.2
"""Evidence is looked at when there are 8 results of the metric, and each time there are 8 and 20% more: to look less
often is always valid. These times are fixed beforehand, so that what is found does not depend on who looks when."""

_STRANGE = 20.0
_ENOUGH_TO_BE_STRANGE = 8
"""Where no scatter is stated: how far outside the others a result must lie to be mentioned, as in `far_from`, and how
many others there must be."""


class Strange(NamedTuple):
    """A result that lies far outside those before it, of a metric without a stated scatter."""

    arm: int
    test: int
    value: float
    usual: Usual


class Finding(NamedTuple):
    """The largest evidence of a check so far: in which direction, by which column of its weights, and in which arm, if
    all of it is there."""

    evidence: float
    sign: int
    column: int
    arm: int | None


def is_yes_or_no(noise: NoiseModel) -> bool:
    """Whether what counts of a result is 0 or 1, or a verdict."""
    return noise.is_share or bool(noise.words) or (noise.is_whole and noise.range == (0.0, 1.0))


def has_wide_range(noise: NoiseModel) -> bool:
    """Whether the user stated a range that could be narrower."""
    low, high = noise.value_range
    return math.isfinite(high - low) and not noise.is_whole


def count_checks(problem: Problem, noise: NoiseModel) -> int:
    """How many checks of a metric can give a false alarm: four of the order of results, by each of its bets; scatter
    and far values where sigma is stated; skewness where symmetry is."""
    if noise.is_exact:
        return 0
    ranges = problem.items is None and has_wide_range(noise) and not is_yes_or_no(noise)
    return len(ORDER_CHECKS) * (1 + ranges) + 2 * (noise.stated_scatter is not None) + noise.is_symmetric


class Differences:
    """Turns results into differences between each arm and one reference, in the order in which they are complete.

    A study on items compares two arms, or an arm with its limit relative to the baseline, by differences alone. The
    values themselves may be skewed and drift: what all arms share cancels out.
    """

    def __init__(self, reference: int, factor: float) -> None:
        self._reference, self._factor = reference, factor
        self._counts: dict[int, int] = {}
        self._references: dict[int, float] = {}
        """By place in the order of items."""
        self._waiting: dict[int, list[Result]] = {}

    def of(self, result: Result) -> list[Result]:
        """The differences that are complete with this result."""
        count = self._counts.get(result.arm, 0)
        self._counts[result.arm] = count + 1
        # The n-th result of every arm is of the same item, unless a test was given up.
        place = result.place if result.place >= 0 else count
        if result.arm == self._reference:
            self._references[place] = result.value
            complete = self._waiting.pop(place, [])
        elif place in self._references:
            complete = [result]
        else:
            self._waiting.setdefault(place, []).append(result)
            return []
        limit = self._factor * self._references[place]
        return [other._replace(value=other.value - limit) for other in complete]


class MetricChecks:
    """What the checks keep of one metric. `draw` gives random numbers that decide between equal results."""

    def __init__(self, problem: Problem, metric: int, log_level: float, draw: Callable[[], float]) -> None:
        part = self.part = problem.parts[metric]
        noise, self._arms = part.noise, len(problem.arms)
        self._log_level = log_level
        self._has_items, self._repeats = problem.items is not None, problem.repeats
        self.results = 0
        self._look_at = _FIRST_LOOK
        self.low, self.high = math.inf, -math.inf
        self._first: dict[int, float] = {}
        self.unequal: tuple[int, int, float, float] | None = None
        """For an exact metric that varies: arm, test, first value and the one that differs."""
        is_compared = self._has_items and not (isinstance(part, Constraint) and not part.relative_to_baseline)
        # In blocks, what is compared scatters in any symmetric way, unless the scatter of differences is stated.
        self._is_of_differences = is_compared and problem.blocks is not None
        factor = part.threshold if isinstance(part, Constraint) else 1.0
        sigma = (problem.noise_between(noise, factor) if self._is_of_differences else noise).stated_scatter
        self.scatter = None if sigma is None or noise.is_exact else Scatter(self._arms, sigma, log_level)
        # In repeated measurements, such as runs of a command, far values are counted as pauses.
        is_counted = self.scatter is not None or is_yes_or_no(noise) or self._repeats
        self._typical = None if is_counted else Typical()
        self.strange: Strange | None = None
        self._differences: Differences | None = None
        if is_compared:
            # What the guarantee rests on where arms are compared item by item.
            is_arm = problem.baseline in problem.arm_names
            reference = problem.arm_names.index(problem.baseline or "") if is_arm else 0
            self._differences = Differences(reference, factor)
        self._bets = [] if noise.is_exact else self._bets_on(noise, draw)
        self._found: dict[tuple[str, bool], Finding] = {}

    def _bets_on(self, noise: NoiseModel, draw: Callable[[], float]) -> list[Bets]:
        low, high = noise.range
        if self._has_items and self._repeats and noise.is_symmetric:
            # Items are drawn again and again, so that scatter may change from one to the next.
            return [SymmetricBets(own_groups=True)]
        # The rest of a set drawn without repeats is not symmetric, given the values seen.
        skewness = SymmetricBets(only_skewness=True, contradicts=not self._has_items)
        skewed = [skewness] if noise.is_symmetric else []
        if self._has_items:
            return [RankBets(draw, own_groups=True), *skewed]
        if noise.stated_scatter is not None:
            return [SubGaussianBets(noise.stated_scatter), *skewed]
        if noise.is_symmetric:
            return [SymmetricBets()]
        # For yes and no, only the rate can change.
        ranged = [SubGaussianBets(0.5 * (high - low))] if math.isfinite(high - low) else []
        ranks = [] if is_yes_or_no(noise) else [RankBets(draw, own_groups=False, contradicts=False)]
        return [*ranged, *ranks]

    def enter(self, result: Result) -> None:
        """Take in the next result."""
        part, value = self.part, result.value
        if part.noise.is_exact:
            first = self._first.setdefault(result.arm, value)
            if value != first and self.unequal is None:
                self.unequal = result.arm, result.test, first, value
            return
        self.results += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        if self._typical is not None:
            self._compare(self._typical, result)
        if self._is_of_differences or self.scatter is None or self.scatter.enter(result):
            if isinstance(part, Constraint) and part.noise.is_share:
                counted = float(part.noise.counted(value, part.threshold, part.at_least is None))
                result = result._replace(value=counted)
            for one in [result] if self._differences is None else self._differences.of(result):
                if self._is_of_differences and self.scatter is not None and not self.scatter.enter(one):
                    continue
                for bets in self._bets:
                    bets.enter(one)
        if self.results >= self._look_at:
            self._look_at = max(self.results + _FIRST_LOOK, int(_GROWTH * self.results))
            self._look()

    def _compare(self, typical: Typical, result: Result) -> None:
        """Is the result far from those before it?"""
        others = typical.of(result.arm)
        if self.strange is None and len(others) >= _ENOUGH_TO_BE_STRANGE:
            usual = far_from(result.value, others, _STRANGE)
            if usual is not None:
                self.strange = Strange(result.arm, result.test, result.value, usual)
        typical.add(result.arm, result.value)

    def _look(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for bets in self._bets:
                for kind, won in bets.won().items():
                    self._weigh(kind, bets.contradicts, won, bets.arms)
            if self.scatter is not None:
                self._weigh("scatter", True, self.scatter.won(), self.scatter.arms)

    def _weigh(self, kind: str, contradicts: bool, won: Floats, arms: list[int]) -> None:
        """Note what bets on these arms have won, [bet, sign, column, arm], if it is more than ever."""
        if not arms:
            return
        # An infinite value says nothing.
        won = np.where(np.isnan(won), -math.inf, won)
        # Ranks are independent in the history of their own arm, and no more is known of them.
        if self._has_items or not contradicts:
            evidence = float(in_any(log_mean(won.reshape(-1, len(arms))), self._arms))
        else:
            evidence = float(log_mean(jointly(won, self._arms).ravel()))
        best = self._found.get((kind, contradicts))
        if best is not None and evidence <= best.evidence:
            return
        of_arms = log_mean(won)
        sign, column = np.unravel_index(int(np.argmax(of_arms.sum(axis=-1))), of_arms.shape[:2])
        place = self._only_one(won[:, sign, column].max(axis=0))
        arm = None if place is None else arms[place]
        self._found[kind, contradicts] = Finding(evidence, int(sign), int(column), arm)

    def _only_one(self, of_arms: Floats) -> int | None:
        """The place of the arm whose evidence suffices by itself, if there is one and no other shows any."""
        order = np.argsort(of_arms)
        is_alone = len(order) == 1 or of_arms[order[-2]] < math.log(20.0)
        suffices = self._log_level + math.log(2 * self._arms)
        return int(order[-1]) if of_arms[order[-1]] >= suffices and is_alone else None

    def found(self, kind: str) -> tuple[Finding, bool] | None:
        """What a check has found, if its evidence suffices, and whether that contradicts the guarantee."""
        for contradicts in (True, False):
            finding = self._found.get((kind, contradicts))
            if finding is not None and finding.evidence >= self._log_level:
                return finding, contradicts
        return None
