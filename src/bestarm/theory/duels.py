"""Telling worse arms from the best one by their objective: what tests of both of them are worth together.

With x tests of the best arm and w of a rival, s = w / (w + x) is the rival's share. The closest world in which the
rival is as good gives both the mean m = μ + s (μ_rival - μ) of all their tests. So the information is
x kl(μ, m) + w kl(μ_rival, m). Per test of the best arm, x = 1, it is a function of s alone, and increasing. What one
more test of the rival adds, kl(μ_rival, m), is decreasing in s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from bestarm.noises.base import NoiseModel
from bestarm.theory.information import Flags, Floats, divergence


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


def duels(noise: NoiseModel, best: float, rivals: Floats) -> Duels:
    """The duels of an arm whose objective has the mean `best` with arms of other means."""
    if noise.is_quadratic:
        return _QuadraticDuels(divergence(noise, rivals, best))
    return _SearchedDuels(noise, best, rivals)


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


class _SearchedDuels:
    """Any other noise: shares are found by bisection."""

    def __init__(self, noise: NoiseModel, best: float, rivals: Floats) -> None:
        self._noise, self._best, self._rivals = noise, best, rivals

    def _kl(self, mean: Floats | float, share: Floats) -> Floats:
        return divergence(self._noise, mean, self._best * (1.0 - share) + self._rivals * share)

    def information(self, share: Floats) -> Floats:
        # At a share of 1 the rival has infinitely many tests, and one more adds nothing.
        with np.errstate(divide="ignore", invalid="ignore"):
            of_rival = np.where(share < 1.0, share / (1.0 - share) * self._kl(self._rivals, share), 0.0)
        return self._kl(self._best, share) + of_rival

    def gain_of_best(self, share: Floats) -> Floats:
        return self._kl(self._best, share)

    def gain_of_rival(self, share: Floats) -> Floats:
        return self._kl(self._rivals, share)

    def share_with_information(self, value: Floats) -> Floats:
        return _bisect(lambda share: self.information(share) < value, self._rivals)

    def share_with_gain(self, value: Floats) -> Floats:
        return np.where(value > 0.0, _bisect(lambda share: self.gain_of_rival(share) > value, self._rivals), 1.0)


def _bisect(is_too_small: Callable[[Floats], Flags], like: Floats) -> Floats:
    """By rival, the share below which a share is too small."""
    low, high = np.zeros_like(like), np.ones_like(like)
    for _ in range(60):
        middle = 0.5 * (low + high)
        small = is_too_small(middle)
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return 0.5 * (low + high)
