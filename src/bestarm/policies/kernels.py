"""Policies written as kernels: interpreted in a live study, compiled in the simulator, from one source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from bestarm.evidence.items import with_room
from bestarm.kernel.compile import Interpreted, compiled, is_kernel, kernel
from bestarm.kernel.state import EMPTY, NONE, ON_ITEMS, Flags, Floats, Ints, Setting, Streams, concluded
from bestarm.noises.registry import known_for
from bestarm.policies.advance import UNDECIDED, advance
from bestarm.policies.base import Policy
from bestarm.policies.confidence import present_leader
from bestarm.policies.decisions import EmptyProposal, Stop, ignoring_overflow


@kernel
def no_choices(memory: Any, seed: int, run: int) -> None:
    """What a policy without random choices does with its seed."""


@kernel
def leader_by_means(setting: Setting, streams: Streams, memory: Any) -> int:
    """What to answer if no more tests could be made: the best of the arms that look feasible, or `NONE`."""
    return present_leader(setting, streams)


class Kernels(NamedTuple):
    """A policy as functions that can be compiled.

    `new_memory(arms, metrics)` makes, on the host, the nested named tuple of arrays with which a run starts;
    `start(memory, seed, run)` seeds policies that make random choices; `update(setting, streams, memory, arm, metric)`
    follows each result; `propose(setting, streams, memory, batch)` fills the batch and returns its size, 1 at least, or
    returns `conclude(answer)`. It never writes into `streams`. It may write into `memory` what follows from the results
    so far, if a second call then proposes the same. `recommend(setting, streams, memory)` is the arm to answer with if
    no more tests could be made, or `NONE`; it writes nothing. `large` says that together they are a large program: an
    engine with little room for instructions then keeps helpers marked `large` as functions of their own. `patient`
    says that `propose` puts off long computations where `setting.is_hurried` says so.
    """

    new_memory: Callable[[int, int], Any]
    update: Callable[..., None]
    propose: Callable[..., int]
    start: Callable[[Any, int, int], None] = no_choices
    large: bool = False
    recommend: Callable[..., int] = leader_by_means
    patient: bool = False


class KernelPolicy(Policy):
    """A policy written as kernels: interpreted here, compiled in the simulator, from one source."""

    kernels: ClassVar[Kernels]

    @classmethod
    def kernels_in(cls, setting: Setting) -> Kernels:
        """The kernels for what a setting asks."""
        return cls.kernels

    def __init__(self, setting: Setting, arms: int, metrics: int, *, seed: int = 0, run: int = 0) -> None:
        super().__init__(setting, arms, metrics, seed=seed, run=run)
        self._kernels = self.kernels_in(setting)
        self._own = {"update": self._kernels.update, "propose": self._kernels.propose}
        self.memory = self._kernels.new_memory(arms, metrics)
        self._batch = new_batch(arms, metrics)
        self._advance: Any = Interpreted(cast("Any", advance), self._own)
        with ignoring_overflow():
            self._kernels.start(self.memory, seed, run)

    def compile(self, *, wait: bool = True) -> None:
        """Run compiled from now on: the same decisions, faster. Making the machine code takes seconds, the first time
        ever; without `wait`, another thread makes it, and this does nothing until it is there. A policy whose kernels
        cannot be compiled stays interpreted, with a warning."""
        if not all(map(is_kernel, self._own.values())):
            return
        fast = compiled(advance, self.name.replace("-", "_"), known=known_for(self.setting), **self._own)
        if fast.is_ready(*self._arguments(*_NO_RESULTS), wait=wait):
            self._advance = fast

    @property
    def is_compiled(self) -> bool:
        return not isinstance(self._advance, Interpreted)

    def _arguments(self, *results: Any) -> tuple[Any, ...]:
        return self.setting, self.streams, self.memory, self._batch, *results, np.array([self.untested])

    def update(self, arm: int, metric: int) -> None:
        with ignoring_overflow():
            self._kernels.update(self.setting, self.streams, self.memory, arm, metric)

    def recommend(self) -> int | None:
        answer = int(self._kernels.recommend(self.setting, self.streams, self.memory))
        return None if answer == NONE else answer

    def propose(self) -> list[tuple[int, int]] | Stop:
        return self._decision(int(self._advance(*self._arguments(*_NO_RESULTS))))

    def advance(self, tests: Ints, values: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        """As for every policy; on items, rows of `tests` are (arm, metric, place)."""
        if not len(values):
            return None
        if self.setting.pairing == ON_ITEMS:
            self.streams = with_room(self.streams, 1 + int(tests[:, 2].max()))
        size = int(self._advance(*self._arguments(tests, values, ends)))
        return None if size == UNDECIDED else self._decision(size)

    def _decision(self, size: int) -> list[tuple[int, int]] | Stop:
        """What the kernel `propose` returned and put into the batch, as Python objects."""
        if size > 0:
            return self.tests_of([(arm, metric) for arm, metric in self._batch[:size].tolist()])
        answer = concluded(size)
        if answer == EMPTY:
            raise EmptyProposal(self.name)
        return Stop(None if answer == NONE else answer)

    def _rounds_ahead(
        self, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int, float]]
    ) -> list[list[tuple[int, int]]]:
        """Rounds with `count` tests or more in all, as if the result of each outstanding test came out at its stream's
        mean. The tests `pending` are out. The results `waiting` are known, but have not entered yet."""
        imagined = copy.copy(self)
        imagined.streams, imagined.memory = _copied(self.streams), _copied(self.memory)
        imagined._batch = self._batch.copy()
        imagined.imagine(waiting)
        if imagined.untested:
            # There is nothing to plan with yet: test each stream once more.
            heads = np.unique(self.setting.queue).tolist()
            again = [(arm, metric) for arm in imagined.arms_to_go_on_with() for metric in heads]
            return [again] * -(-count // len(again))
        now = imagined.propose()
        if isinstance(now, Stop):
            return []
        imagined.imagine(imagined._at_means(pending))
        rounds: list[list[tuple[int, int]]] = []
        while sum(map(len, rounds)) < count:
            proposal = imagined.propose() if pending or rounds else now
            if isinstance(proposal, Stop):
                # The outstanding results would settle everything. Further tests go where they are most useful now.
                proposal = now
            rounds.append(proposal)
            imagined.imagine(imagined._at_means(proposal))
        return rounds

    def _at_means(self, tests: Sequence[tuple[int, int]]) -> list[tuple[int, int, float]]:
        """What the tests would give if each result came out at its stream's mean."""
        return [(arm, part, self.mean(arm, part)) for test in tests for arm, part in self.results_of(*test)]


def _copied(memory: Any) -> Any:
    """A copy of a nested named tuple of arrays."""
    return memory.copy() if isinstance(memory, np.ndarray) else type(memory)(*map(_copied, memory))


def new_batch(arms: int, metrics: int) -> Any:
    """Room for the largest batch: one test of every stream, and as many of one arm as there are arms."""
    return np.zeros((arms * (metrics + 1), 2), np.uint32)


_NO_RESULTS = (np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0, np.int8))
