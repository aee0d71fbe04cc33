"""One source, several engines: plain functions for live studies, compiled clones of them for simulation.

`kernel` only marks a function, so importing a policy never imports a compiler. `compiled` makes machine code of a
marked function together with every marked function that it calls; the originals stay plain. `bestarm.kernel.native`
translates the Python that kernels may use. For anything else it names the file, the line and what to write instead.

Compiling replaces two kinds of kernels. A stand-in only holds a place: `compiled(root, update=…)` says which kernel to
put there. A kernel marked `one_of` does what one of several kernels does, chosen by a number; compiled, it is a chain
of comparisons. `docs/architecture.md` lists them.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bestarm.kernel import native
from bestarm.kernel.identity import Identity, meanings, sources_of
from bestarm.kernel.native.disk_cache import CacheFolder, cache_folders
from bestarm.kernel.native.source import WRITTEN, warn_interpreted

F = TypeVar("F", bound=Callable[..., Any])
Known = tuple[int, ...] | None
"""The numbers for which a kernel marked `one_of` has an alternative; None for all."""

_MARK = "__bestarm_kernel__"
_LARGE = "__bestarm_large__"
_APART = "__bestarm_apart__"
_ONE_OF = "__bestarm_one_of__"


def kernel(function: F) -> F:
    """Mark `function` as kernel code: fit to run as it is and to be compiled."""
    setattr(function, _MARK, True)
    return function


def large(function: F) -> F:
    """Mark a kernel that is large, and rarely needed or called in many places.

    An engine with little room for instructions keeps it as one function where the policy's program is large; elsewhere
    it is copied into its callers.
    """
    setattr(function, _LARGE, True)
    return function


def apart(function: F) -> F:
    """Mark a kernel that is large and called in many places, so that compiled code has it once, as a function of its
    own, instead of a copy in every caller."""
    setattr(function, _APART, True)
    return function


Alternatives = Mapping[int, Callable[..., Any]] | Sequence[Callable[..., Any]]
"""Kernels by number, or in the order of their numbers."""


def one_of(number: str, alternatives: Callable[[], Alternatives], unknown: str = "math.nan") -> Callable[[F], F]:
    """Mark a kernel that does what one of several kernels does: the one of `alternatives` that has this `number`.

    `number` is an expression of the kernel's arguments. Interpreted, the kernel runs as written, so its body has to
    look up the alternative. Compiled, it becomes a chain of comparisons over the alternatives that exist by then. For
    a number that the compiled code was not made for it returns `unknown`: NaN, which is no evidence.
    """

    def mark(function: F) -> F:
        setattr(function, _ONE_OF, (number, alternatives, unknown))
        return kernel(function)

    return mark


def choice(number: str, alternatives: Mapping[int, F], unknown: str = "math.nan") -> F:
    """A kernel that does what one of `alternatives` does, chosen by `number` as in `one_of`. All take the same
    arguments. Interpreted, it is the same chain of comparisons."""
    first: Any = next(iter(alternatives.values()))
    chain: F = _chain(first, number, tuple(alternatives.items()), unknown)
    return one_of(number, lambda: alternatives, unknown)(chain)


_generation = 0


class Variant(NamedTuple):
    """Which alternatives compiled code knows: those of the numbers `known`, or all of a generation."""

    known: Known
    generation: int


def variant_of(known: Known) -> Variant:
    return Variant(known, _generation if known is None else 0)


def forget_alternatives() -> None:
    """Call this when a kernel marked `one_of` gets a new alternative."""
    global _generation
    _generation += 1


@functools.cache
def _chain(
    function: types.FunctionType, number: str, alternatives: tuple[tuple[int, types.FunctionType], ...], unknown: str
) -> Any:
    """The chain of comparisons that replaces a kernel marked `one_of`, where some numbers have alternatives.

    An alternative that several numbers share appears once.
    """
    places: dict[types.FunctionType, list[int]] = {}
    for place, alternative in alternatives:
        places.setdefault(alternative, []).append(place)
    arguments = ", ".join(function.__code__.co_varnames[: function.__code__.co_argcount])
    lines = [f"def {function.__name__}({arguments}):", f"    number = {number}"]
    for k, numbers in enumerate(places.values()):
        call = f"return alternative_{k}({arguments})"
        condition = " or ".join(f"number == {place}" for place in numbers)
        lines.append(f"    if {condition}:\n        {call}")
    lines.append(f"    return {unknown}")
    names: dict[str, Any] = {f"alternative_{k}": alternative for k, alternative in enumerate(places)} | {"math": math}
    text = "\n".join(lines)
    exec(compile(text, f"<{function.__qualname__}>", "exec"), names)
    chain: Any = names[function.__name__]
    chain.__module__ = function.__module__
    setattr(chain, WRITTEN, text)
    return kernel(chain)


def written_out(function: types.FunctionType, known: Known = None) -> types.FunctionType:
    """The function itself or, if it is marked `one_of`, the chain of comparisons that replaces it, for the numbers
    `known`, or for all alternatives that exist by now."""
    if not hasattr(function, _ONE_OF):
        return function
    number, alternatives, unknown = getattr(function, _ONE_OF)
    found = alternatives()
    by_number = found.items() if isinstance(found, Mapping) else enumerate(found)
    chosen = tuple((place, one) for place, one in by_number if known is None or place in known)
    chain: types.FunctionType = _chain(function, number, chosen, unknown)
    return chain


def is_large(function: types.FunctionType) -> bool:
    return hasattr(function, _LARGE)


def is_kernel(value: object) -> bool:
    return isinstance(value, types.FunctionType) and hasattr(value, _MARK)


def called_kernels(
    function: types.FunctionType, replaced: dict[str, types.FunctionType], known: Known = None
) -> dict[str, types.FunctionType]:
    """The marked functions that `function` names, with those in `replaced` instead of the originals, written out."""
    named = ((name, replaced.get(name, value)) for name, value in meanings(function).items())
    return {
        name: written_out(value, known)
        for name, value in named
        if isinstance(value, types.FunctionType) and is_kernel(value)
    }


def fingerprint(
    function: types.FunctionType, replaced: dict[str, types.FunctionType], known: Known = None
) -> str | None:
    """A hash of everything that the compiled code is made from. Machine code on disk has it in its name.

    None if the code could depend on something that cannot be described: then it must not be kept.
    """
    identity = Identity(lambda current: called_kernels(current, replaced, known))
    identity.function(function)
    return identity.text()[:16] if identity.is_whole else None


def clone(function: types.FunctionType, bindings: dict[str, Any], qualname: str) -> types.FunctionType:
    """The same function, with some names that it does not assign bound to something else."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    copy = types.FunctionType(
        function.__code__,
        {**function.__globals__, **bindings},
        function.__name__,
        function.__defaults__,
        tuple(types.CellType(bindings[name]) if name in bindings else cell for name, cell in cells),
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    copy.__qualname__ = qualname
    return copy


def is_apart(function: types.FunctionType) -> bool:
    return hasattr(function, _APART)


class Interpreted:
    """Runs a kernel as it is, where nothing can be compiled, with the methods of `native.forms.Native`."""

    def __init__(self, root: types.FunctionType, replaced: dict[str, Any]) -> None:
        self._run = clone(root, replaced, root.__qualname__)

    def __call__(self, *values: Any) -> Any:
        # Compiled code is silent about words that wrap around, and about NaN.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._run(*values)

    def is_ready(self, *values: Any, wait: bool = False) -> bool:
        return True

    def interpreted_until_ready(self, plain: Callable[..., Any], *, wait: bool = False) -> Callable[..., Any]:
        return plain


@functools.cache
def _translator() -> Any:
    """The class `Native`; None if its files were replaced since this process started, so that some of it is loaded and
    the rest would be of another version."""
    if sources_of(native.__path__[0]) != native.SOURCES:
        return None
    from bestarm.kernel.native.forms import Native

    return Native if sources_of(native.__path__[0]) == native.SOURCES else None


@functools.cache
def _compiled(root: types.FunctionType, label: str, variant: Variant, replaced: tuple[tuple[str, Any], ...]) -> Any:
    substitutes = dict(replaced)
    interpreted = Interpreted(root, substitutes)
    translator = _translator()
    if translator is None:
        warn_interpreted("bestarm was replaced on disk by another version; start the process again to compile it")
        return interpreted

    @functools.cache
    def called(function: types.FunctionType) -> dict[str, types.FunctionType]:
        return called_kernels(function, substitutes if function is root else {}, variant.known)

    def identity() -> str | None:
        return fingerprint(root, substitutes, variant.known)

    first = identity()
    name = first and f"{root.__qualname__}_{label}_{first}".replace("<locals>.", "")
    return translator(
        root,
        name,
        resolve=lambda function, named: called(function).get(named),
        is_apart=is_apart,
        is_unchanged=lambda: identity() == first,
        interpret=interpreted,
    )


def compiled(root: Callable[..., Any], label: str = "", *, known: Known = None, **replaced: Callable[..., Any]) -> Any:
    """The compiled form of `root`, with each name in `replaced` bound to another kernel.

    `label` tells the forms of one root apart in the cache on disk. Kernels marked `one_of` know the
    alternatives of the numbers `known`, or all: what is never needed need not be compiled.
    """
    for name, value in {"root": root, **replaced}.items():
        if not is_kernel(value):
            raise TypeError(f"{name} must be a function marked as a kernel to be compiled, not {value!r}")
    return _compiled(root, label, variant_of(known), tuple(sorted(replaced.items())))


def cache_places(root: Callable[..., Any]) -> list[CacheFolder]:
    """Where the compiled forms of `root` may be kept, in order, and what speaks against each place."""
    assert isinstance(root, types.FunctionType)
    return cache_folders(root)
