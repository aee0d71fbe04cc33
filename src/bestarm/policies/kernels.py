"""Policies written as kernels: interpreted in a live study, compiled in the simulator, from one source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bestarm.kernel.compile import compiled, is_kernel, kernel
from bestarm.kernel.state import (
    EMPTY,
    NONE,
    Flags,
    Floats,
    Ints,
    Setting,
    concluded,
)
from bestarm.noises.registry import known_for
from bestarm.policies.advance import UNDECIDED, advance
from bestarm.policies.base import Policy
from bestarm.policies.decisions import EmptyProposal, Stop, wrapping


@kernel
def no_choices(memory: Any, seed: int, run: int) -> None:
    """What a policy without random choices does with its seed."""


class Kernels(NamedTuple):
    """A policy as functions that can be compiled.

    `new_memory(arms, metrics)` makes, on the host, the nested named tuple of arrays with which a run starts;
    `start(memory, seed, run)` seeds policies that make random choices; `update(setting, streams, memory, arm, metric)`
    follows each result; `propose(setting, streams, memory, batch)` fills the batch and returns its size, 1 at least, or
    returns `conclude(answer)`. It never writes into `streams`. It may write into `memory` what follows from the results
    so far, if a second call then proposes the same. `large` says that together they are a large program: an engine with
    little room for instructions then keeps helpers marked `large` as functions of their own.
    """

    new_memory: Callable[[int, int], Any]
    update: Callable[..., None]
    propose: Callable[..., int]
    start: Callable[[Any, int, int], None] = no_choices
    large: bool = False


class KernelPolicy(Policy):
    """A policy written as kernels: interpreted here, compiled in the simulator, from one source."""

    kernels: ClassVar[Kernels]
    _kernels_by_goal: ClassVar[Mapping[int, Kernels]] = {}
    """By `Setting.goal`: those for goals that take others."""

    def __init__(self, setting: Setting, arms: int, metrics: int, *, seed: int = 0, run: int = 0) -> None:
        super().__init__(setting, arms, metrics, seed=seed, run=run)
        self._kernels = kernels_for(type(self), setting)
        self.memory = self._kernels.new_memory(arms, metrics)
        self._batch = new_batch(arms, metrics)
        self._advance: Any = None
        with wrapping():
            self._kernels.start(self.memory, seed, run)

    def update(self, arm: int, metric: int) -> None:
        with wrapping():
            self._kernels.update(self.setting, self.streams, self.memory, arm, metric)

    def propose(self) -> list[tuple[int, int]] | Stop:
        if self._advance is not None:
            decision = self._advance_compiled(_NO_TESTS, _NO_VALUES, _NO_ENDS)
            assert decision is not None
            return decision
        with wrapping():
            size = int(self._kernels.propose(self.setting, self.streams, self.memory, self._batch))
        return self._decision(size)

    @property
    def is_compiled(self) -> bool:
        return self._advance is not None

    def compile(self, *, wait: bool = True) -> None:
        """Run compiled from now on: the same decisions, faster. Making the machine code takes seconds, the first time
        ever; without `wait`, another thread makes it, and this does nothing until it is there. A policy whose kernels
        cannot be compiled stays interpreted, with a warning."""
        if not (is_kernel(self._kernels.update) and is_kernel(self._kernels.propose)):
            return
        fast = self._compiled()
        given = (self.setting, self.streams, self.memory, self._batch, _NO_TESTS, _NO_VALUES, _NO_ENDS, _NO_COUNT)
        if fast.is_ready(*given, wait=wait):
            self._advance = fast

    def _compiled(self) -> Any:
        """The kernel `advance` for this policy."""
        label, kernels = self.name.replace("-", "_"), self._kernels
        known = known_for(self.setting)
        return compiled(advance, label, known=known, update=kernels.update, propose=kernels.propose)

    def advance(self, tests: Ints, values: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        if self._advance is None or not len(values):
            return super().advance(tests, values, ends)
        return self._advance_compiled(tests, values, ends)

    def _advance_compiled(self, tests: Ints, values: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        untested = np.array([self.untested])
        size = self._advance(self.setting, self.streams, self.memory, self._batch, tests, values, ends, untested)
        return None if size == UNDECIDED else self._decision(int(size))

    def _decision(self, size: int) -> list[tuple[int, int]] | Stop:
        """What the kernel `propose` returned and put into the batch, as Python objects."""
        if size > 0:
            return self.tests_of([(arm, metric) for arm, metric in self._batch[:size].tolist()])
        answer = concluded(size)
        if answer == EMPTY:
            raise EmptyProposal(self.name)
        return Stop(None if answer == NONE else answer)


def kernels_for(policy: type[KernelPolicy], setting: Setting) -> Kernels:
    """The kernels of a policy for what a setting asks."""
    return policy._kernels_by_goal.get(setting.goal, policy.kernels)


def new_batch(arms: int, metrics: int) -> Any:
    """Room for the largest batch: one test of every stream."""
    return np.zeros((arms * metrics, 2), np.uint32)


_NO_TESTS, _NO_VALUES, _NO_ENDS = np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0, np.int8)
_NO_COUNT = np.zeros(1, np.int64)
