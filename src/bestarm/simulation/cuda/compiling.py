"""Compiles kernels for a card: the same clones as `bestarm.kernel.compile` makes, for numba's CUDA target."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import config, cuda

from bestarm.kernel.compile import Known, Variant, called_kernels, clone, fingerprint, is_large, variant_of
from bestarm.kernel.identity import sources_of
from bestarm.kernel.native.disk_cache import NotPrivate, is_private_file, private
from bestarm.simulation.cuda import SOURCES
from bestarm.simulation.cuda.tiles import LANES, WORD, Same, Shape, is_shared, state_words

SIMULATED: bool = bool(config.ENABLE_CUDASIM)
"""Whether CUDA is only simulated, by plain Python (NUMBA_ENABLE_CUDASIM=1)."""

# With link-time optimization the linker would fuse products and sums, and nothing can tell it not to. (Options given as
# `cuda.jit(**options)(function)` do not work: numba-cuda 0.30.4 forgets `lto` then.)
_OPTIONS: dict[str, Any] = {"fastmath": False, "lto": False}

_RANGE = "__bestarm_range__"


def _cloned(function: types.FunctionType, bindings: dict[str, Any], qualname: str) -> types.FunctionType:
    """The same function, with some global names bound to something else, and `range` bound to `steps`.

    Tuples of numbers become arrays: numba looks into a tuple by comparing the index with every place.
    """
    from bestarm.simulation.cuda.loops import steps

    known = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    arrays = {name: np.array(value) for name, value in known.items() if _is_table(value)}
    copy = clone(function, {**arrays, **bindings, _RANGE: steps}, qualname)
    # Under a new name, because numba refuses to rebind that of a builtin.
    names = tuple(_RANGE if name == "range" else name for name in copy.__code__.co_names)
    copy.__code__ = copy.__code__.replace(co_names=names)
    return copy


def _is_table(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(part, float) for part in value)


@functools.cache
def _helper(function: types.FunctionType, in_parts: bool, variant: Variant) -> Any:
    called = called_kernels(function, {}, variant.known)
    bindings = {name: _helper(callee, in_parts, variant) for name, callee in called.items()}
    helper = cuda.jit(_cloned(function, bindings, function.__qualname__), device=True, **_OPTIONS)
    return _kept_out_of_line(helper) if in_parts and is_large(function) else helper


def _kept_out_of_line(helper: Any) -> Any:
    from bestarm.simulation.cuda.tile_types import keep_out_of_line

    def out_of_line(*arguments: Any) -> Any:
        keep_out_of_line()
        return helper(*arguments)

    return cuda.jit(out_of_line, device=True, **_OPTIONS)


def compiled_for_card(
    root: Callable[..., None],
    label: str,
    replaced: dict[str, Any],
    bound: dict[str, Any],
    *,
    registers: int,
    in_parts: bool,
    known: Known = None,
) -> Any:
    """`root` as a CUDA kernel, with names in `replaced` bound to other kernels and names in `bound` to anything else.
    `label` tells different `bound` apart. Each thread has `registers` registers.

    Kernels marked `one_of` know the alternatives `known`, or all. Without calls, a kernel's threads keep more
    in registers and are faster. With `in_parts`, kernels marked `large` are called nevertheless.
    """
    assert isinstance(root, types.FunctionType)
    called = called_kernels(root, replaced, known)
    if SIMULATED:
        copy = clone(root, {**called, **bound}, root.__qualname__)
        # The simulator puts its own `cuda` among the kernel's globals. Functions of the same module share them.
        for name, callee in called.items():
            if callee.__module__ == root.__module__:
                copy.__globals__[name] = types.FunctionType(callee.__code__, copy.__globals__)
        return cuda.jit(copy)
    bindings = {**{name: _helper(callee, in_parts, variant_of(known)) for name, callee in called.items()}, **bound}
    # The cache on disk looks only at the file of `root`. A hash of everything else that the code is made from goes into
    # its name.
    made_from = fingerprint(root, replaced, known)
    digest = hashlib.sha256(f"{label} {made_from} {_OPTIONS} {registers} {in_parts} {SOURCES}".encode()).hexdigest()[
        :16
    ]
    function = _cloned(root, bindings, f"{root.__qualname__}_{digest}")
    # After an upgrade on disk it is not known which version of which file is loaded.
    is_known = None not in (made_from, SOURCES) and sources_of(str(Path(__file__).parent)) == SOURCES
    return kept_by_numba(
        lambda cache: cuda.jit(function, cache=cache, max_registers=registers, **_OPTIONS), digest if is_known else None
    )


def kept_by_numba(jit: Callable[[bool], Any], fingerprint: str | None) -> Any:
    """What numba makes. It looks at no owners and permissions, so it keeps and loads only what no other user can write.

    `jit(cache)` makes it, and `fingerprint` is in the names of its files; None if it must not be kept.
    """
    if fingerprint is not None:
        with contextlib.suppress(OSError, NotPrivate, RuntimeError):  # the last if numba finds no folder
            kept = jit(True)
            folder = private(Path(kept.stats.cache_path))
            if all(is_private_file(path.lstat()) for path in folder.iterdir() if fingerprint in path.name):
                return kept
    return jit(False)


@contextlib.contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Compile without fused multiply-adds inside this block, so that a card rounds as a CPU does.

    libNVVM fuses unless told not to, and numba-cuda has no option for that.
    """
    from numba.cuda.cudadrv import nvvm

    compile_ir = nvvm.compile_ir
    nvvm.compile_ir = lambda ir, **options: compile_ir(ir, **{**options, "fma": False})
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir


def prepare(kernel: Any, arguments: tuple[Any, ...], shared: int) -> None:
    """Compile a kernel for arguments of these types, or load what was compiled earlier, and allow it `shared` bytes of
    shared memory per block: without this it gets at most 48 KB."""
    if SIMULATED:
        return
    from cuda.bindings import driver
    from numba.cuda.typing.typeof import typeof

    with exact_arithmetic():
        function = kernel.compile(tuple(map(typeof, arguments))).library.get_cufunc()
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    [error, *_] = driver.cuKernelSetAttribute(attribute, shared, function.handle, cuda.get_current_device().id)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the card refused {shared:,} bytes of shared memory: {error.name}")


# ----------------------------------- what a run keeps: plain Python for the CUDA simulator, intrinsics for a card


def view(shapes: tuple[Shape, ...]) -> Any:
    """A function of (fresh, block, run): what one of the runs in a block of tiles keeps, shaped like `fresh`.

    It is made for arrays of these shapes, so that the compiler knows the shapes.
    """
    if SIMULATED:
        return _view
    from bestarm.simulation.cuda.tile_types import view_for

    return view_for(shapes)


def renew() -> Any:
    """A function of (state, fresh) that resets what a run keeps to what it is before the first test."""
    if SIMULATED:
        return _renew
    from bestarm.simulation.cuda.tile_types import renew

    return renew


def tables(same: tuple[Same, ...]) -> Any:
    """A function that returns its argument, tables that all runs share, in a form that tells the compiler two things:
    they never change, and which number is in those that hold only one."""
    if SIMULATED:
        return lambda given: given
    from bestarm.simulation.cuda.tile_types import tables_for

    return tables_for(same)


def hurried() -> Any:
    """A function of (setting, is_hurried): the setting in which that is said."""
    if SIMULATED:
        return lambda setting, is_hurried: setting._replace(is_hurried=int(is_hurried))
    from bestarm.simulation.cuda.tile_types import hurried

    return hurried


def _view(fresh: Any, block: npt.NDArray[np.int64], run: int) -> Any:
    """What the intrinsic does, in plain Python for the CUDA simulator."""
    tile, lane = divmod(run, LANES)
    start = tile * state_words(fresh) * LANES * WORD

    def placed(value: Any) -> Any:
        nonlocal start
        if isinstance(value, np.ndarray):
            tile_array: npt.NDArray[Any] = np.ndarray((*value.shape, LANES), value.dtype, block, start)
            start += value.nbytes * LANES
            return tile_array[..., lane]
        return value if is_shared(type(value)) else type(value)(*(placed(part) for part in value))

    return placed(fresh)


def _renew(state: Any, fresh: Any) -> None:
    if isinstance(fresh, np.ndarray):
        state[...] = fresh
    elif not is_shared(type(fresh)):
        for part, new in zip(state, fresh, strict=True):
            _renew(part, new)
