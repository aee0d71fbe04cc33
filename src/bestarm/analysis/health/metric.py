"""The checks of one metric: which of them apply to it, and what they have found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from bestarm.analysis.health.differences import differences_of
from bestarm.analysis.health.evidence import in_any, jointly, log_mean
from bestarm.analysis.health.odd import Odd
from bestarm.analysis.health.scatter import Scatter
from bestarm.analysis.health.sums import Ranked, SubGaussian, Won
from bestarm.analysis.health.typical import Typical, Usual, far_from
from bestarm.analysis.health.weights import CHECKS, Result
from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel
from bestarm.problem import Problem
from bestarm.problem.parts import Constraint, Objective

_FIRST_LOOK = 8
_GROWTH = 1.2
"""Evidence is looked at when there are 8 results of the metric, and each time there are 8 and 20 % more: to look less
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


class _Engine(Protocol):
    def enter(self, result: Result) -> None: ...
    def won(self) -> Won: ...


class _Checks(NamedTuple):
    """Bets on the results of a metric."""

    engine: _Engine
    is_broken: bool
    """Whether they only win if an assumption of the guarantee does not hold."""


def yes_or_no(noise: NoiseModel) -> bool:
    """Whether what counts of a result is 0 or 1."""
    return noise.is_share or (noise.is_whole and noise.range == (0.0, 1.0))


def has_wide_range(noise: NoiseModel) -> bool:
    """Whether the user stated a range that could be narrower."""
    low, high = noise.value_range
    return math.isfinite(high - low) and not noise.is_whole


def checks_of(problem: Problem, noise: NoiseModel) -> int:
    """How many checks of a metric can give a false alarm: four of the order of results, by each of its bets; scatter
    and far values where sigma is stated; skewness where symmetry is."""
    if noise.is_exact:
        return 0
    ranges = problem.items is None and has_wide_range(noise) and not yes_or_no(noise)
    return len(CHECKS) * (1 + ranges) + 2 * (noise.stated_scatter is not None) + noise.is_symmetric


class MetricChecks:
    """What the checks keep of one metric. `luck` decides between equal results."""

    def __init__(self, problem: Problem, metric: int, log_level: float, luck: Callable[[], float]) -> None:
        self.part: Objective | Constraint = problem.parts[metric]
        noise = self.part.noise
        self._log_level = log_level
        self._arms = arms = len(problem.arms)
        self._has_items, self._repeats = problem.items is not None, problem.repeats
        self.results = 0
        self._look_at = _FIRST_LOOK
        self.low, self.high = math.inf, -math.inf
        self._first: dict[int, float] = {}
        self.unequal: tuple[int, int, float, float] | None = None
        """For an exact metric that varies: arm, test, first value and the one that differs."""
        sigma = noise.stated_scatter
        self.scatter = None if sigma is None or noise.is_exact else Scatter(arms, sigma, log_level)
        # In repeated measurements, such as runs of a command, far values are counted as pauses.
        is_counted = self.scatter is not None or yes_or_no(noise) or self._repeats
        self._typical = None if is_counted else Typical()
        self.strange: Strange | None = None
        self._differences = differences_of(problem, metric)
        self._checks = [] if noise.is_exact else list(self._betting(noise, arms, luck))
        self._found: dict[tuple[str, bool], Finding] = {}

    def _betting(self, noise: NoiseModel, arms: int, luck: Callable[[], float]) -> list[_Checks]:
        low, high = noise.range
        if self._has_items and self._repeats and noise.is_symmetric:
            # Items are drawn again and again, so that scatter may change from one to the next.
            return [_Checks(Odd(arms, own_groups=True), True)]
        if self._has_items:
            # The rest of a set drawn without repeats is not symmetric, given the values seen.
            skewed = [_Checks(Odd(arms, only_skewness=True), False)] if noise.is_symmetric else []
            return [_Checks(Ranked(arms, luck, own_groups=True), True), *skewed]
        skewed = [_Checks(Odd(arms, only_skewness=True), True)] if noise.is_symmetric else []
        if noise.stated_scatter is not None:
            return [_Checks(SubGaussian(arms, noise.stated_scatter), True), *skewed]
        if noise.is_symmetric:
            return [_Checks(Odd(arms), True)]
        # For yes and no, only the rate can change.
        ranged = [_Checks(SubGaussian(arms, 0.5 * (high - low)), True)] if math.isfinite(high - low) else []
        return ranged if yes_or_no(noise) else [*ranged, _Checks(Ranked(arms, luck, own_groups=False), False)]

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
        if self.scatter is None or self.scatter.enter(result):
            if isinstance(part, Constraint) and part.noise.is_share:
                counted = float(part.noise.counted(value, part.threshold, part.at_least is None))
                result = result._replace(value=counted)
            for one in [result] if self._differences is None else self._differences.of(result):
                for checks in self._checks:
                    checks.engine.enter(one)
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
            for checks in self._checks:
                for kind, won in checks.engine.won().items():
                    self._weigh(kind, checks.is_broken, won)
            if self.scatter is not None:
                self._weigh("scatter", True, self.scatter.won())

    def _weigh(self, kind: str, is_broken: bool, won: Floats) -> None:
        """Note what bets have won, [bet, sign, column, arm], if it is more than ever."""
        # An infinite value says nothing.
        won = np.where(np.isnan(won), -math.inf, won)
        # Ranks are independent in the history of their own arm, and no more is known of them.
        if self._has_items or not is_broken:
            evidence = float(in_any(log_mean(won.reshape(-1, won.shape[-1]))))
        else:
            evidence = float(log_mean(jointly(won).ravel()))
        best = self._found.get((kind, is_broken))
        if best is not None and evidence <= best.evidence:
            return
        of_arms = log_mean(won)
        sign, column = np.unravel_index(int(np.argmax(of_arms.sum(axis=-1))), of_arms.shape[:2])
        self._found[kind, is_broken] = Finding(
            evidence, int(sign), int(column), self._alone(won[:, sign, column].max(axis=0))
        )

    def _alone(self, of_arms: Floats) -> int | None:
        """The arm whose evidence suffices by itself, if there is one and no other shows any."""
        order = np.argsort(of_arms)
        is_alone = len(order) == 1 or of_arms[order[-2]] < math.log(20.0)
        suffices = self._log_level + math.log(2 * len(order))
        return int(order[-1]) if of_arms[order[-1]] >= suffices and is_alone else None

    def found(self, kind: str) -> tuple[Finding, bool] | None:
        """What a check has found, if its evidence suffices, and whether that contradicts the guarantee."""
        for is_broken in (True, False):
            finding = self._found.get((kind, is_broken))
            if finding is not None and finding.evidence >= self._log_level:
                return finding, is_broken
        return None
