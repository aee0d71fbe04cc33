"""From LLVM's language to machine code, and calling it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from bestarm.kernel.native.translate import ENTRY
from bestarm.kernel.native.types import FLAG, FLOAT, WORD, Number, Record, Type

Entry = Callable[[int, int], None]


class Machine(NamedTuple):
    """The machine that code is made for."""

    target: Any
    name: str
    """What machine code depends on besides the program."""


def _new_target() -> tuple[Any, str]:
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    triple = llvm.get_process_triple()
    target = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="default", codemodel="jitdefault", jit=True
    )
    return target, repr((triple, cpu, features, llvm.llvm_version_info))


@functools.cache
def this_machine() -> Machine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return Machine(*_new_target())


def machine_code(text: str) -> bytes:
    """The program, optimized for this machine."""
    target = this_machine().target
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


_loaded: list[Any] = []
"""Machine code stays in memory as long as the process lives."""


def entry_of(code: bytes) -> Entry:
    """Load a program's machine code."""
    this_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_target()[0])
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _loaded.append(engine)
    entry: Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address(ENTRY))
    return entry


def words_of(value: Any) -> tuple[int, ...]:
    """A value as a program expects it: a word for each leaf."""
    return tuple(_words(value))


def _words(value: Any) -> Iterator[int]:
    if isinstance(value, np.ndarray):
        yield value.__array_interface__["data"][0]
        yield from value.shape
    elif isinstance(value, tuple):
        for part in value:
            yield from _words(part)
    elif isinstance(value, float):
        yield int(np.float64(value).view(np.int64))
    else:
        yield (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


def value_of(kind: Type, words: np.ndarray[Any, Any]) -> Any:
    """What a program returned, as a Python value."""
    if isinstance(kind, Record):
        return tuple(value_of(part, words[kind.stretch(place)]) for place, part in enumerate(kind.parts)) or None
    if kind == FLOAT:
        return float(words.view(np.float64)[0])
    assert isinstance(kind, Number)
    number = int(words[0])
    return bool(number) if kind == FLAG else number % (1 << 64) if kind == WORD else number
