"""A kernel in machine code: a form for each combination of types that it is called with, kept on disk."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.native import SOURCES
from bestarm.kernel.native.disk_cache import keep, read
from bestarm.kernel.native.machine import Entry, entry_of, machine_code, this_machine, value_of, words_of
from bestarm.kernel.native.source import AnotherSource, warn_interpreted
from bestarm.kernel.native.translate import Program, Resolve
from bestarm.kernel.native.types import Type, Untranslatable, described, type_described, type_of


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
# One that ended while a daemon thread compiles would crash in LLVM: this waits for it, and lets no other begin.
atexit.register(_making.acquire)


class Native:
    """Calls a kernel in machine code, which is made, or loaded, when it is first called."""

    def __init__(
        self,
        root: types.FunctionType,
        name: str | None,
        resolve: Resolve,
        is_apart: Callable[[types.FunctionType], bool],
        is_unchanged: Callable[[], bool],
        interpret: Callable[..., Any],
    ) -> None:
        self.name = name
        """It has a hash of all that the kernel is made from. A kernel without a name is not kept."""
        self._root = root
        self._resolve = resolve
        self._is_apart = is_apart
        self._is_unchanged = is_unchanged
        """Whether the kernel is still made from what its name says."""
        self._interpret = interpret
        """Runs the kernel as it is, if its source is no longer available."""
        self._forms: dict[tuple[Type, ...], _Form | Untranslatable | AnotherSource] = {}
        self._begun: set[tuple[Type, ...]] = set()
        self._seen: dict[int, _Seen] = {}

    def __call__(self, *values: Any) -> Any:
        try:
            seen = [self._taken(place, value) for place, value in enumerate(values)]
        except Untranslatable as error:
            raise error.of_kernel(self._root) from None
        form = self._form(tuple(one.type for one in seen))
        if isinstance(form, Untranslatable):
            raise form.with_traceback(None)
        if isinstance(form, AnotherSource):
            warn_interpreted(str(form))
            return self._interpret(*values)
        given = np.array([word for one in seen for word in one.words], np.int64)
        result = np.zeros(len(form.returned.leaves), np.int64)
        form.entry(given.ctypes.data, result.ctypes.data)
        return value_of(form.returned, result)

    def __deepcopy__(self, known: dict[int, Any]) -> Native:
        """It is code: a copy of what uses it, such as a policy, uses the same."""
        return self

    def is_ready(self, *values: Any, wait: bool = False) -> bool:
        """Whether a call with values of these types runs at once. If not, another thread makes the machine code; with
        `wait`, this one does.

        A kernel that cannot be compiled is never ready. A warning says so once.
        """
        try:
            arguments = tuple(self._taken(place, value).type for place, value in enumerate(values))
        except Untranslatable as error:
            warn_interpreted(str(error.of_kernel(self._root)))
            return False
        form = self._form(arguments) if wait else self._forms.get(arguments)
        if form is None and arguments not in self._begun:
            self._begun.add(arguments)
            threading.Thread(target=self._form, args=(arguments,)).start()
        if isinstance(form, Untranslatable):
            warn_interpreted(str(form))
            return False
        return form is not None

    def interpreted_until_ready(self, plain: Callable[..., Any], *, wait: bool = False) -> Callable[..., Any]:
        """The same, but while there is no machine code the kernel is interpreted: by `plain`."""
        return lambda *values: self(*values) if self.is_ready(*values, wait=wait) else plain(*values)

    def _taken(self, place: int, value: Any) -> _Seen:
        """An argument's type and words. Those of a tuple are remembered: one tuple is often given again and again."""
        before = self._seen.get(place)
        if before is not None and before.value is value:
            return before
        seen = _Seen(value, type_of(value), words_of(value))
        if isinstance(value, tuple):
            self._seen[place] = seen
        return seen

    def _form(self, arguments: tuple[Type, ...]) -> _Form | Untranslatable | AnotherSource:
        if arguments not in self._forms:
            with _making:
                if arguments not in self._forms:
                    self._forms[arguments] = self._made(arguments)
        return self._forms[arguments]

    def _made(self, arguments: tuple[Type, ...]) -> _Form | Untranslatable | AnotherSource:
        key = f"{arguments} {this_machine().name} {SOURCES}"
        name = f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        is_known = None not in (self.name, SOURCES)
        kept = read(self._root, name) if is_known else None
        if kept is None:
            try:
                program = Program(self._root, arguments, self._resolve, self._is_apart)
                returned = json.dumps(described(program.returned))
            except AnotherSource as error:
                return error
            except Untranslatable as error:
                return error.of_kernel(self._root)
            kept = returned.encode() + b"\n" + machine_code(program.text)
            # A name may have been rebound since the kernel was fingerprinted.
            if is_known and self._is_unchanged():
                keep(self._root, name, kept)
        description, _, code = kept.partition(b"\n")
        return _Form(entry_of(code), type_described(json.loads(description)))
