"""No name is ever taken for an option of the command that measures: not an arm that comes later either."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.program import Ended, bestarm
from tests.tools.patience import wait_until

import bestarm as ba
from bestarm.client import Client
from bestarm.web.server import running

EVIL = "-cimport pathlib; pathlib.Path('pwned').touch(); print(1)"
MEASURE = """
import pathlib, time
pathlib.Path("started").touch()
while not pathlib.Path("added").exists():
    time.sleep(0.01)
print(0.5)
"""


@pytest.fixture
def study(tmp_path: Path) -> ba.Study:
    """A study whose arms are programs, and to which arms can be added."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(MEASURE)
    gain = ba.maximize("gain", noise=ba.Bounded(0.0, 1.0))
    plan = ba.Plan(arms=("a.py", "b.py"), objective=gain, name="late", reserve=0.5)
    return ba.Study.create(ba.Plan.of(plan, budget=100), storage=tmp_path / "s.db")


def run_while(act: Callable[[], None], folder: Path, *words: str) -> Ended:
    """`bestarm run`, and what is done while its first test is under way."""

    def meanwhile() -> None:
        try:
            wait_until((folder / "started").exists)
            act()
        finally:
            (folder / "added").touch()

    helper = threading.Thread(target=meanwhile)
    helper.start()
    ended = bestarm("run", "late", "--command", f"{sys.executable} {{arm}}", *words, cwd=folder)
    helper.join()
    return ended


def check(study: ba.Study, ended: Ended, folder: Path) -> None:
    """It was not run. The test was given back, and the run ended with a reason."""
    assert not (folder / "pwned").exists()
    assert ended.code == 1
    assert "begins with a dash and would be taken for an option; put `--` before {arm}" in ended.err
    assert "was not made" in ended.err
    assert all(row.expires == 0 and row.aside is None for _, row in study.pending())
    # The next run is refused before it begins.
    ended = bestarm("run", "late", "--db", "s.db", "--command", f"{sys.executable} {{arm}}", cwd=folder)
    assert ended.code == 2
    assert "begins with a dash" in ended.err
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize("more", [(), ("--workers", "3"), ("--shell",), ("--retry", "5", "--failed-as", "0")])
def test_an_arm_that_is_added_while_a_run_works(study: ba.Study, tmp_path: Path, more: tuple[str, ...]) -> None:
    ended = run_while(lambda: study.add_arms([EVIL]), tmp_path, "--db", "s.db", *more)
    check(study, ended, tmp_path)


def test_an_arm_that_is_added_over_http(study: ba.Study, tmp_path: Path) -> None:
    manager, worker = (study.storage.make_token(role, role)[0] for role in ("manage", "work"))
    with running(str(tmp_path / "s.db"), tokens=True) as url, Client(url, manager) as client:
        ended = run_while(lambda: client.open("late").add_arms([EVIL]), tmp_path, "--db", url, "--token", worker)
    check(study, ended, tmp_path)
