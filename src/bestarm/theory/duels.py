"""Telling worse arms from the best one by their objective: what tests of both of them are worth together.

With x tests of the best arm and w of a rival, s = w / (w + x) is the rival's share. The closest world in which the
rival is as good gives both the same mean m. So the information is the least x kl(μ, m) + w kl(μ_rival, m) over all m.
If streams differ in nothing but their means, it is reached at the mean m = μ + s (μ_rival - μ) of all their tests. Per
test of the best arm, x = 1, it is a function of s alone, and increasing. What one more test of the rival adds,
kl(μ_rival, m), is decreasing in s.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Protocol

import numpy as np

from bestarm.kernel.state import Ints
from bestarm.noises.base import NoiseModel
from bestarm.theory.information import Flags, Floats, Truth, divergence

_PLACES = 129


class Duels(Protocol):
    """The duels of the best arm with each of several rivals; arguments and results are by rival."""

    def information(self, share: Floats) -> Floats:
        """The information per test of the best arm."""

    def gain_of_best(self, share: Floats) -> Floats:
        """The information that one more test of the best arm adds."""

    def gain_of_rival(self, share: Floats) -> Floats:
        """The information that one more test of the rival adds."""

    def share_with_information(self, value: Floats) -> Floats:
        """The share at which the information is `value`; it must be within reach."""

    def share_with_gain(self, value: Floats) -> Floats:
        """The share at which one more test of the rival adds `value`; 0 if no share gives as much."""


def duels(facts: Truth, rivals: Ints) -> Duels:
    """The duels of the best arm with those of these numbers."""
    noise, best = facts.noises[0], float(facts.means[facts.best, 0])
    if not noise.is_family or any(spread is not None for spread in facts.spreads[0]):
        return TabulatedDuels(facts, rivals)
    if noise.is_quadratic:
        return _QuadraticDuels(divergence(noise, facts.means[rivals, 0], best))
    return _SearchedDuels(noise, best, facts.means[rivals, 0])


class _QuadraticDuels:
    """Gaussian noise, and all noise of which only the scale is known: everything is in closed form."""

    def __init__(self, gap: Floats) -> None:
        self._gap = gap

    def information(self, share: Floats) -> Floats:
        return self._gap * share

    def gain_of_best(self, share: Floats) -> Floats:
        return self._gap * np.square(share)

    def gain_of_rival(self, share: Floats) -> Floats:
        return self._gap * np.square(1.0 - share)

    def share_with_information(self, value: Floats) -> Floats:
        return value / self._gap

    def share_with_gain(self, value: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - np.sqrt(value / self._gap))


class _BySearch(abc.ABC):
    """Shares are found by bisection, for any gains."""

    def __init__(self, rivals: Floats) -> None:
        self._rivals = rivals

    @abc.abstractmethod
    def _gains(self, share: Floats) -> tuple[Floats, Floats]:
        """The information that one more test of the best arm adds, and one of the rival."""

    def gain_of_best(self, share: Floats) -> Floats:
        return self._gains(share)[0]

    def gain_of_rival(self, share: Floats) -> Floats:
        return self._gains(share)[1]

    def information(self, share: Floats) -> Floats:
        of_best, of_rival = self._gains(share)
        # At a share of 1 the rival has infinitely many tests, and one more adds nothing.
        with np.errstate(divide="ignore", invalid="ignore"):
            return of_best + np.where(share < 1.0, share / (1.0 - share) * of_rival, 0.0)

    def share_with_information(self, value: Floats) -> Floats:
        return _bisect(lambda share: self.information(share) < value, self._rivals)

    def share_with_gain(self, value: Floats) -> Floats:
        return np.where(value > 0.0, _bisect(lambda share: self.gain_of_rival(share) > value, self._rivals), 1.0)


class _SearchedDuels(_BySearch):
    """Streams that differ in nothing but their means."""

    def __init__(self, noise: NoiseModel, best: float, rivals: Floats) -> None:
        super().__init__(rivals)
        self._noise, self._best = noise, best

    def _gains(self, share: Floats) -> tuple[Floats, Floats]:
        m = self._best * (1.0 - share) + self._rivals * share
        return divergence(self._noise, self._best, m), divergence(self._noise, self._rivals, m)


class TabulatedDuels(_BySearch):
    """Any other streams: the common mean m is searched in a table of both arms' information."""

    def __init__(self, facts: Truth, rivals: Ints) -> None:
        super().__init__(facts.means[rivals, 0])
        assert facts.best is not None, "a duel needs a best arm"
        best = float(facts.means[facts.best, 0])
        places = [np.linspace(best, mean, _PLACES) for mean in self._rivals.tolist()]
        # [rival, place]
        self._of_best = np.array([facts.objective_table(facts.best, row) for row in places])
        rows = zip(rivals.tolist(), places, strict=True)
        self._of_rivals = np.array([facts.objective_table(rival, row) for rival, row in rows])

    def _gains(self, share: Floats) -> tuple[Floats, Floats]:
        part = share[:, np.newaxis]
        together = (1.0 - part) * self._of_best + part * self._of_rivals
        near = np.clip(together.argmin(axis=1), 1, _PLACES - 2)
        rival = np.arange(len(share))
        left, middle, right = (together[rival, near + k] for k in (-1, 0, 1))
        bend = left - 2.0 * middle + right
        # The lowest point of the parabola through three places.
        with np.errstate(all="ignore"):
            offset = np.where(bend > 0.0, 0.5 * (left - right) / bend, np.where(left < right, -1.0, 1.0))
        offset = np.clip(offset, -1.0, 1.0)
        return _between(self._of_best, rival, near, offset), _between(self._of_rivals, rival, near, offset)


def _between(table: Floats, row: Ints, place: Ints, offset: Floats) -> Floats:
    """The value of a table between three places, by the parabola through them."""
    left, middle, right = (table[row, place + k] for k in (-1, 0, 1))
    found = middle + 0.5 * offset * (right - left) + 0.5 * np.square(offset) * (left - 2.0 * middle + right)
    return np.maximum(found, 0.0)


def _bisect(is_too_small: Callable[[Floats], Flags], like: Floats) -> Floats:
    """By rival, the share below which a share is too small."""
    low, high = np.zeros_like(like), np.ones_like(like)
    for _ in range(60):
        middle = 0.5 * (low + high)
        small = is_too_small(middle)
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return 0.5 * (low + high)
