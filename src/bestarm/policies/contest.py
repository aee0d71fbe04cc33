"""The contest for the best performance among the arms still in it, as in LUCB (Kalyanakrishnan et al. 2012)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.kernel.tournament import NO_ARM, Tournament, enter, key_of, new_tournament
from bestarm.noises.dispatch import half_width


class Contest(NamedTuple):
    """Tournaments by mean and by upper confidence bound over the arms in the contest; lower bounds of all."""

    mean: Tournament
    upper: Tournament
    lower: Floats


def new_contest(arms: int) -> Contest:
    return Contest(new_tournament(arms), new_tournament(arms), np.full(arms, -math.inf))


@kernel
def enter_contest(setting: Setting, streams: Streams, contest: Contest, arm: int) -> None:
    """Let `arm` in, or bring it up to date after a test of its performance."""
    mean = streams.means[arm, 0]
    width = half_width(setting, streams, arm, 0)
    key = key_of(mean)
    # A mean that is NaN or infinite says nothing.
    upper, lower = (mean + width, mean - width) if key == mean else (math.inf, -math.inf)
    enter(contest.mean, arm, key)
    enter(contest.upper, arm, upper)
    contest.lower[arm] = lower


@kernel
def leave_contest(contest: Contest, arm: int) -> None:
    enter(contest.mean, arm, -math.inf)
    enter(contest.upper, arm, -math.inf)


@kernel
def unrivaled(contest: Contest, leader: int, challenger: int) -> bool:
    """Whether the leader is better than every other arm in the contest: LUCB's stopping rule."""
    return challenger == NO_ARM or contest.upper.keys[challenger] <= contest.lower[leader]
