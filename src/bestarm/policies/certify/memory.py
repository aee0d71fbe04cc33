"""What `certify` keeps from round to round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import CHOICE, ZIGGURAT, Generator, Ziggurat, next_word, seed_generator
from bestarm.kernel.state import ABSENT, Flags, Floats, Ints, Streams, new_streams, signed
from bestarm.kernel.tournament import NO_ARM, Tournament, new_tournament


class Chosen(NamedTuple):
    """What is kept in addition where the answer is a set of arms. All entries are by arm."""

    listed: Flags
    """1 if the arm is in the present answer."""
    settled: Flags
    """1 if no certificate about the arm is open for that answer."""
    scratch: Floats
    """A performance that was drawn (top), or what it costs to exclude the arm (short list) or to decide it (every
    feasible)."""


class Tracked(NamedTuple):
    """What is kept in addition where tests are chosen by tracking. Entries are [arm, metric] or by arm."""

    weights: Floats
    """The shares of the tests that are best for the means and the open certificates at the last look."""
    owed: Floats
    """How many more tests a stream should have had than it has."""
    place: Floats
    """The mean performance, as a place in the range, or in standard deviations."""
    price: Floats
    """The least cost of a unit of information that the arm is infeasible, or `HOPELESS`."""
    limit: Floats
    """How often the arm's performance is worth a test, for each test of the leader's: after that, a test of a violated
    constraint tells more per cost."""
    reach: Floats
    """The information about performance up to that limit, per test of the leader."""
    is_open: Flags
    """[arm, metric]: which certificates were open at the last look: at 0 that another arm is not better, at the
    constraints of the leader that these hold."""
    due: Ints
    """[0]: after how many results the weights are computed again."""


class Challengers(NamedTuple):
    """What is kept in addition where each arm is compared with its challengers, whichever they are."""

    results: Streams
    """Metric 0 of a row for each arm: what its earlier challengers have measured. Three more rows: one for scratch, and
    what the present two had measured when they became challengers."""
    present: Ints
    """[0]: the leader, who challenges all others; [1]: the runner-up, who challenges the leader; or -1."""
    weights: Floats
    """How much each result of these two counts."""
    judged: Ints
    """By arm that is rejected: how many results it had when it was last judged."""


class Memory(NamedTuple):
    """What is certified so far, the candidates for leader, and the arms whose certificates are open."""

    rejected: Flags
    """By arm: 1 once it is certified infeasible or, where arms have challengers, not the best."""
    certified: Flags
    """[arm, metric]: `HOLDS` once the constraint is certified to hold, or `HOLDS_BEYOND_LUCK`."""
    suspect: Flags
    """[arm, metric]: 1 while the constraint is suspicious: it looks violated, or more than that."""
    suspects: Ints
    """By arm: how many constraints are suspicious."""
    candidates: Tournament
    """Arms without suspicious constraints, by mean performance; the best is the leader."""
    beaten: Ints
    """By arm: the leader by which it is certified beaten, or -1."""
    open_arms: npt.NDArray[np.uint32]
    """The arms with open certificates against the leader come first, in order. Where arms have challengers, the leader
    is among them, and arms that are open again come last."""
    open_count: Ints
    """[0]: how many there are; [1]: the leader they are open against, -2 before the first."""
    told: Ints
    """[0]: how many results have come in."""
    put_off: Flags
    """[0]: 1 if a computation was left for later, so that `propose` has to be asked again."""
    seed: Generator
    """[0]: what random choices are seeded with, together with the number of results."""
    generator: Generator
    ziggurat: Ziggurat
    chosen: Chosen = ABSENT
    tracked: Tracked = ABSENT
    challengers: Challengers = ABSENT


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(
        rejected=np.zeros(arms, np.int8),
        certified=np.zeros((arms, metrics), np.int8),
        suspect=np.zeros((arms, metrics), np.int8),
        suspects=np.zeros(arms, np.int64),
        candidates=new_tournament(arms),
        beaten=np.full(arms, NO_ARM),
        open_arms=np.arange(arms, dtype=np.uint32),
        open_count=np.array([arms, -2]),
        told=np.zeros(1, np.int64),
        put_off=np.zeros(1, np.int8),
        seed=np.zeros(1, np.uint64),
        generator=np.zeros(4, np.uint64),
        ziggurat=ZIGGURAT,
    )


def new_memory_of_sets(arms: int, metrics: int) -> Memory:
    chosen = Chosen(np.zeros(arms, np.int8), np.zeros(arms, np.int8), np.zeros(arms))
    return new_memory(arms, metrics)._replace(chosen=chosen)


def new_memory_of_tracking(arms: int, metrics: int) -> Memory:
    even = np.full((arms, metrics), 1.0 / (arms * metrics))
    place, price, limit, reach = np.zeros((4, arms))
    is_open = np.zeros((arms, metrics), np.int8)
    tracked = Tracked(even, even.copy(), place, price, limit, reach, is_open, np.zeros(1, np.int64))
    return new_memory(arms, metrics)._replace(tracked=tracked)


def new_memory_of_challengers(arms: int, metrics: int, kept: int) -> Memory:
    challengers = Challengers(new_streams(arms + 3, 1, kept), np.full(2, NO_ARM), np.ones(2), np.zeros(arms, np.int64))
    return new_memory(arms, metrics)._replace(challengers=challengers)


@kernel
def start(memory: Memory, seed: int, run: int) -> None:
    seed_generator(memory.generator, seed, run, CHOICE)
    memory.seed[0] = next_word(memory.generator) >> np.uint64(1)


@kernel
def seed_choices(memory: Memory) -> None:
    """Random choices depend only on what is known, so that asking twice gives the same tests."""
    seed_generator(memory.generator, signed(memory.seed[0]), memory.told[0], CHOICE)


@kernel
def is_certified(memory: Memory, arm: int) -> bool:
    """Whether the arm is certified feasible."""
    lacks_certificate = memory.rejected[arm] != 0
    for metric in range(1, memory.certified.shape[1]):
        lacks_certificate = lacks_certificate or memory.certified[arm, metric] == 0
    return not lacks_certificate


@kernel
def best_listed(streams: Streams, memory: Memory) -> int:
    """The arm of the answer with the best mean; -1 if there is none."""
    leader = -1
    listed = memory.chosen.listed
    for arm in range(listed.shape[0]):
        if listed[arm] != 0 and (leader < 0 or streams.means[arm, 0] > streams.means[leader, 0]):
            leader = arm
    return leader
