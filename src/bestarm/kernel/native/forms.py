"""A kernel in machine code: a form for each combination of types that it is called with, kept on disk."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.native.machine import Entry, entry_of, machine_code, this_machine, value_of, words_of
from bestarm.kernel.native.translate import Program, Resolve
from bestarm.kernel.native.types import Type, Untranslatable, type_name, type_named, type_of

ENDING = ".native"
_DIGEST = 32


class _Form(NamedTuple):
    entry: Entry
    returned: Type


class _Seen(NamedTuple):
    value: Any
    type: Type
    words: tuple[int, ...]


_making = threading.RLock()
# A process that is forked while another thread compiles would wait for that thread forever.
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


class Native:
    """Calls a kernel in machine code, which is made, or loaded, when it is first called."""

    def __init__(
        self,
        root: types.FunctionType,
        name: str,
        resolve: Resolve,
        is_apart: Callable[[types.FunctionType], bool],
        otherwise: Callable[[], Any],
    ) -> None:
        self.name = name
        self._root = root
        self._resolve = resolve
        self._is_apart = is_apart
        self._otherwise = otherwise
        """What compiles a kernel that cannot be translated."""
        self._forms: dict[tuple[Type, ...], _Form | None] = {}
        self._soon: set[tuple[Type, ...]] = set()
        self._seen: dict[int, _Seen] = {}

    def __call__(self, *values: Any) -> Any:
        try:
            seen = [self._taken(place, value) for place, value in enumerate(values)]
        except Untranslatable:
            return self._otherwise()(*values)
        form = self._form(tuple(one.type for one in seen))
        if form is None:
            return self._otherwise()(*values)
        given = np.array([word for one in seen for word in one.words], np.int64)
        result = np.zeros(len(form.returned.leaves), np.int64)
        form.entry(given.ctypes.data, result.ctypes.data)
        return value_of(form.returned, result)

    def __deepcopy__(self, known: dict[int, Any]) -> Native:
        """It is code: a copy of what uses it, such as a policy, uses the same."""
        return self

    def is_made_for(self, *values: Any) -> bool:
        """Whether a call with values of these types runs at once."""
        return tuple(map(type_of, values)) in self._forms

    def make_soon(self, *values: Any) -> None:
        """Make the form for values of these types, in another thread."""
        arguments = tuple(map(type_of, values))
        if arguments not in self._soon:
            self._soon.add(arguments)
            # Not a daemon: a process must not end in the middle of LLVM's work.
            threading.Thread(target=self._form, args=(arguments,)).start()

    def or_meanwhile(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """The same, but until the machine code is ready the kernel is interpreted: by `plain`."""

        def run(*values: Any) -> Any:
            if self.is_made_for(*values):
                return self(*values)
            self.make_soon(*values)
            return plain(*values)

        return run

    def _taken(self, place: int, value: Any) -> _Seen:
        """An argument's type and words. Those of a tuple are remembered: one tuple is often given again and again."""
        before = self._seen.get(place)
        if before is not None and before.value is value:
            return before
        seen = _Seen(value, type_of(value), words_of(value))
        if isinstance(value, tuple):
            self._seen[place] = seen
        return seen

    def _form(self, arguments: tuple[Type, ...]) -> _Form | None:
        if arguments not in self._forms:
            with _making:
                if arguments not in self._forms:
                    self._forms[arguments] = self._made(arguments)
        return self._forms[arguments]

    def _made(self, arguments: tuple[Type, ...]) -> _Form | None:
        key = f"{self.name} {arguments} {this_machine().name} {_translator()}"
        name = f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}{ENDING}"
        kept = _read(self._root, name)
        if kept is None:
            try:
                program = Program(self._root, arguments, self._resolve, self._is_apart)
            except Untranslatable:
                return None
            kept = machine_code(program.text), program.returned
            _keep(self._root, name, *kept)
        return _Form(entry_of(kept[0]), kept[1])


# ------------------------------------------------------------------------------------------------------ kept on disk


@functools.cache
def _translator() -> str:
    """A hash of what translates kernels, so that no machine code outlives a change of it."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _folders(root: types.FunctionType) -> list[Path]:
    """Where machine code may be: where numba keeps its own, too."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen)]
    beside = Path(root.__code__.co_filename).parent
    return [beside / "__pycache__"] * beside.is_dir() + [_users_folder()]


def kept_in(root: types.FunctionType) -> Path | None:
    """The folder into which machine code is written; None if none can be written."""
    return next((folder for folder in _folders(root) if _can_be_written(folder)), None)


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "bestarm"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bestarm"


@functools.cache
def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _read(root: types.FunctionType, name: str) -> tuple[bytes, Type] | None:
    """Machine code and the type of its result, if they are there and whole."""
    for folder in _folders(root):
        try:
            content = (folder / name).read_bytes()
        except OSError:
            continue
        digest, rest = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(rest).digest() == digest:
            returned, _, code = rest.partition(b"\n")
            return code, type_named(returned.decode())
    return None


def _keep(root: types.FunctionType, name: str, code: bytes, returned: Type) -> None:
    folder = kept_in(root)
    if folder is None:
        return
    content = type_name(returned).encode() + b"\n" + code
    unfinished = folder / f"{name}.{os.getpid()}"
    try:
        unfinished.write_bytes(hashlib.sha256(content).digest() + content)
        unfinished.replace(folder / name)  # whoever reads finds all of it, or nothing
    except OSError:  # the disk may be full: next time it is compiled again
        unfinished.unlink(missing_ok=True)
