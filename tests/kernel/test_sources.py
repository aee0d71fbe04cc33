"""Machine code is that of the function it stands for, whatever happens to files and whoever else uses the folder."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest

import bestarm
from bestarm.kernel import compile as compiling
from bestarm.kernel.compile import compiled, fingerprint, kernel
from bestarm.kernel.native import forms, source
from bestarm.kernel.native.source import warn_interpreted

HEAD = "from bestarm.kernel.compile import kernel\n"
LOWER = "\n\n@kernel\ndef lower(x: float) -> float:\n    return x - 1.0\n"
UPPER = "\n\n@kernel\ndef upper(x: float) -> float:\n    return x + 1.0\n"
FIRST, SECOND = HEAD + LOWER + UPPER, HEAD + UPPER + LOWER
"""Two versions of a file. In the second, one function is where the other was."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("BESTARM_CACHE_DIR", str(folder))
    warn_interpreted.cache_clear()
    return folder


def loaded(file: Path, text: str) -> Any:
    """What a process has that loads `text` from a file, and has not looked at its lines yet."""
    file.write_text(text)
    names: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, str(file), "exec", dont_inherit=True), names)
    linecache.clearcache()
    return types.SimpleNamespace(**names)


def is_native(made: Any, *values: Any) -> bool:
    """Whether there is machine code for these values."""
    return isinstance(next(iter(made._forms.values())), forms._Form) and bool(made.is_ready(*values))


# ------------------------------------------------------------------------------------------------- files that change


WAITING = """
import made
from bestarm.kernel.compile import compiled
print("loaded", flush=True)
input()
print(compiled(made.lower)(10.0), compiled(made.upper)(10.0))
"""


def started(folder: Path, script: str = WAITING, path: Path | None = None) -> subprocess.Popen[str]:
    """A process that has loaded what it needs and waits before it compiles."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    variables["PYTHONPATH"] = os.pathsep.join([str(path or Path(bestarm.__file__).parents[1]), str(folder)])
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=variables, stdin=-1, stdout=-1, stderr=-1, text=True, cwd=folder
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loaded\n"
    return process


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    output, errors = process.communicate("\n", timeout=600)
    assert process.returncode == 0, errors
    return output.strip(), errors


@pytest.mark.parametrize(("old", "new"), [(FIRST, SECOND), (SECOND, FIRST)], ids=["upgrade", "downgrade"])
@pytest.mark.parametrize(
    "change", [lambda text: text, lambda text: text.replace("1.0", "3.0")], ids=["moved", "edited"]
)
def test_a_file_is_replaced_under_a_running_process(
    tmp_path: Path, cache: Path, old: str, new: str, change: Callable[[str], str]
) -> None:
    file = tmp_path / "made.py"
    file.write_text(old)
    running = started(tmp_path)
    file.write_text(change(new))
    output, errors = ended(running)
    assert output == "9.0 11.0"
    assert ("made.py was changed after it was loaded" in errors) == (change(new) != new)
    for text, expected in ((change(new), "7.0 13.0" if change(new) != new else "9.0 11.0"), (old, "9.0 11.0")):
        file.write_text(text)
        assert ended(started(tmp_path)) == (expected, "")


def test_functions_in_another_order_are_still_compiled(tmp_path: Path, cache: Path) -> None:
    module = loaded(tmp_path / "made.py", FIRST)
    (tmp_path / "made.py").write_text(SECOND)
    for root, expected in ((module.lower, 9.0), (module.upper, 11.0)):
        made = compiled(root)
        assert made(10.0) == expected
        assert is_native(made, 10.0)


@pytest.mark.parametrize(
    "text",
    [
        FIRST.replace("1.0", "2.0"),
        FIRST.replace("x - 1.0", "1.0 - x"),
        FIRST.replace("lower", "other"),
        FIRST.replace("x - 1.0", "x - True"),
        FIRST.replace("x - 1.0", "abs(x) - 1.0"),
        FIRST.replace("(x: float)", "(x: float, y: float = 1.0)"),
        FIRST + "def (",
        "no Python at all",
    ],
)
def test_what_an_edited_file_says_is_not_taken_for_the_function(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    module = loaded(tmp_path / "made.py", FIRST)
    (tmp_path / "made.py").write_text(text)
    for _ in range(2):
        assert compiled(module.lower)(10.0) == 9.0
    assert not cache.exists() or not list(cache.iterdir())
    [said] = [record.message for record in caplog.records]
    assert said.startswith(f"{tmp_path / 'made.py'} was changed after it was loaded")


def test_comments_and_docstrings_may_change(tmp_path: Path, cache: Path) -> None:
    documented = FIRST.replace("    return", '    """Some words."""\n    return')
    module = loaded(tmp_path / "made.py", documented)
    (tmp_path / "made.py").write_text(documented.replace("words", "other words").replace("@kernel", "# Why.\n@kernel"))
    made = compiled(module.lower)
    assert made(10.0) == 9.0
    assert is_native(made, 10.0)


def test_a_file_that_is_loaded_again_is_read_again(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "made.py"
    before = loaded(file, FIRST)
    assert compiled(before.lower)(10.0) == 9.0  # its lines are known by now
    edited = FIRST.replace("1.0", "20.0")
    file.write_text(edited)
    names: dict[str, Any] = {"__name__": "made"}
    exec(compile(edited, str(file), "exec", dont_inherit=True), names)
    made = compiled(names["lower"])
    assert made(10.0) == -10.0
    assert is_native(made, 10.0)


def test_a_simulation_goes_on_interpreted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    warn_interpreted.cache_clear()

    def outcome() -> str:
        compiling._compiled.cache_clear()
        simulated = bestarm.simulate(bestarm.instance("exp1-a"), policy="certify", runs=1, seed=1, max_tests=60)
        assert simulated.tests_per_stream is not None
        return str((simulated.answers, simulated.tests, simulated.tests_per_stream))

    expected = outcome()
    monkeypatch.setattr(compiling, "_translator", lambda: None)
    assert outcome() == expected
    compiling._compiled.cache_clear()
    assert "bestarm was replaced on disk by another version" in caplog.text


# --------------------------------------------------------------------------------------------------------- one cache


OWN = """
import bestarm
from bestarm.kernel.compile import compiled
from bestarm.kernel.state import rounding_error
print("loaded", flush=True)
input()
print(compiled(rounding_error)(1, 1.0) / 2.0**-53)
"""


def copied(folder: Path, **edits: tuple[str, str]) -> Path:
    """A copy of the package, as in a virtual environment of its own, with some files edited."""
    source = Path(bestarm.__file__).parent
    shutil.copytree(source, folder / "bestarm", ignore=shutil.ignore_patterns("__pycache__", "static"))
    for name, (before, after) in edits.items():
        edit(folder / "bestarm" / "kernel" / name.replace("__", "/"), before, after)
    return folder


def edit(file: Path, before: str, after: str) -> None:
    file = file.with_suffix(".py")
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


def test_two_environments_share_one_folder(tmp_path: Path, cache: Path) -> None:
    one = copied(tmp_path / "one")
    other = copied(tmp_path / "other", state=("ROUNDING = 2.0**-53", "ROUNDING = 2.0**-51"))
    wrong = copied(tmp_path / "wrong", native__arithmetic=('"fadd"', '"fsub"'))
    for _ in range(2):
        for path, expected in ((one, "2.0"), (other, "8.0"), (wrong, "0.0")):
            assert ended(started(tmp_path, OWN, path)) == (expected, "")
    assert len(list(cache.iterdir())) == 3


def test_the_translator_is_replaced_under_a_running_process(tmp_path: Path, cache: Path) -> None:
    path = copied(tmp_path / "one")
    running = started(tmp_path, OWN, path)
    edit(path / "bestarm/kernel/native/arithmetic", '"fadd"', '"fsub"')
    output, errors = ended(running)
    assert output == "2.0"
    assert "bestarm was replaced on disk by another version" in errors
    assert not cache.exists()
    assert ended(started(tmp_path, OWN, path))[0] == "0.0"
    # A process that has compiled before goes on as it was, and leaves nothing for what is there now.
    before = "from bestarm.kernel.tables import slot\ncompiled(slot)(1)\nprint("
    running = started(tmp_path, OWN.replace("print(", before, 1), path)
    edit(path / "bestarm/kernel/native/arithmetic", '"fsub"', '"fmul"')
    assert ended(running) == ("0.0", "")
    assert ended(started(tmp_path, OWN, path))[0] == "1.0"


# ------------------------------------------------------------------------------------- closures, globals and defaults


def times(factor: float) -> Any:
    @kernel
    def scaled(x: float) -> float:
        return factor * x

    return scaled


def with_helper(helper: Any) -> Any:
    @kernel
    def called(x: float) -> float:
        return 1.0 + float(helper(x))

    return called


def test_closures_of_one_function_have_code_of_their_own(cache: Path) -> None:
    for _ in range(2):
        assert [compiled(times(factor))(10.0) for factor in (2.0, 3.0)] == [20.0, 30.0]
        assert [compiled(with_helper(times(factor)))(10.0) for factor in (2.0, 3.0)] == [21.0, 31.0]
    assert len(list(cache.iterdir())) == 4


def plus(x: float, y: float = 1.0) -> float:
    return x + y


def test_a_partial_is_no_kernel_and_is_not_passed_over() -> None:
    half: Any = functools.partial(times(2.0), 0.5)
    with pytest.raises(TypeError, match="root must be a function marked as a kernel"):
        compiled(half)
    with pytest.raises(TypeError, match="helper must be a function marked as a kernel"):
        compiled(with_helper(times(2.0)), helper=half)
    prints = {fingerprint(with_helper(functools.partial(plus, y=y)), {}) for y in (1.0, 2.0, 1.0)}
    assert len(prints) == 2
    assert None not in prints


class Fields(NamedTuple):
    low: float
    high: float


class Turned(NamedTuple):
    high: float
    low: float


def variant(**names: Any) -> str | None:
    """The fingerprint of a kernel in which some names mean this."""

    def root(x: float) -> float:
        return helper(x) + NUMBER + TABLE[1] + module.NUMBER + Kind.NUMBER + Record(x, x).low  # type: ignore # noqa: F821

    plain = {"helper": plus, "NUMBER": 1, "TABLE": (1, 2), "Record": Fields}
    plain |= {"module": named_module(NUMBER=1.0), "Kind": type("Kind", (), {"NUMBER": 1})}
    function = types.FunctionType(root.__code__, {**plain, **names}, "root")
    return fingerprint(kernel(function), {})


def named_module(**names: Any) -> types.ModuleType:
    module = types.ModuleType("module")
    vars(module).update(names)
    return module


def changed(function: Any, *, defaults: Any) -> Any:
    return types.FunctionType(function.__code__, function.__globals__, function.__name__, defaults)


@pytest.mark.parametrize(
    "names",
    [
        {"NUMBER": 2},
        {"NUMBER": 1.0},
        {"NUMBER": True},
        {"NUMBER": np.float64(1.0)},
        {"NUMBER": np.uint64(1)},
        {"TABLE": (1, 3)},
        {"TABLE": (1, 2.0)},
        {"TABLE": (1, 2, 3)},
        {"TABLE": np.array([1, 2])},
        {"module": named_module(NUMBER=2.0)},
        {"Kind": type("Kind", (), {"NUMBER": 2})},
        {"Record": Turned},
        {"helper": changed(plus, defaults=(2.0,))},
        {"helper": times(2.0)},
        {"helper": times(3.0)},
        {"helper": functools.partial(plus, y=2.0)},
    ],
    ids=lambda names: "-".join(f"{name}={str(value)[:20]}" for name, value in names.items()),
)
def test_all_that_code_is_made_from_is_in_its_name(names: dict[str, Any]) -> None:
    assert variant(**names) not in (variant(), None)
    assert variant(**names) == variant(**names)


def test_what_cannot_be_described_is_not_kept(cache: Path) -> None:
    assert variant(TABLE=[1, 2]) is None
    assert variant(module=types.SimpleNamespace(NUMBER=1.0)) is None


def test_a_name_that_changes_before_the_code_is_made_leaves_nothing_behind(tmp_path: Path, cache: Path) -> None:
    text = HEAD + "\nSTEP = 1.0\n" + LOWER.replace("1.0", "STEP")
    module = loaded(tmp_path / "made.py", text)
    made = compiled(module.lower)
    module.lower.__globals__["STEP"] = 5.0
    made(10.0)
    assert not cache.exists()
    fresh = loaded(tmp_path / "made.py", text)
    assert compiled(fresh.lower)(10.0) == 9.0


def test_a_file_is_parsed_again_if_another_thread_was_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python before 3.11.9 then says, wrongly, that the depth of recursion does not match."""
    parsed = ast.parse("x = 1")
    mismatch = SystemError("AST constructor recursion depth mismatch (before=387, after=168)")
    monkeypatch.setattr(ast, "parse", mock.Mock(side_effect=[mismatch, parsed]))
    assert source._parsed("x = 1") is parsed
