"""A lost test: what giving it up and freeing it do for the results that wait for it, in words and in fact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.live import Program, works
from tests.program import bestarm as run
from tests.study.problems import two_arms

import bestarm as ba


@pytest.fixture
def stalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Eight tests, of which the first has no result."""
    monkeypatch.chdir(tmp_path)
    study = ba.Study.create(two_arms(name="two"), storage="s.db", holder="ann")
    tests = study.ask(8, days=3)
    study.tell_many([(test, 0.0) for test in tests[1:]])

    def program(*words: str, stdin: bytes = b"") -> Any:
        return run(*words, stdin=stdin, BESTARM_DB="s.db", COLUMNS="200")

    return program


def waiting() -> int:
    return ba.Study.open("two", storage="s.db").status().waiting


@pytest.mark.parametrize("words", [("release", "two", "1"), ("fail", "two", "1", "--reason", "spilled")])
def test_a_freed_test_is_still_waited_for(stalled: Program, words: tuple[str, ...]) -> None:
    said = works(stalled, *words)
    assert said.splitlines()[1:] == [
        "7 results wait until test 1 has a result. If it cannot be made soon, give it up, and",
        "later results count at once: bestarm abandon two 1 --reason WHY",
    ]
    assert waiting() == 7
    free = "which is free: what measured goes on with it if started again; else ask for it, or give it up: "
    assert f"{free}bestarm abandon two 1" in works(stalled, "status", "two")


def test_a_test_that_is_given_up_is_not_waited_for(stalled: Program) -> None:
    expected = "Test 1 is given up; its result is no longer expected. 7 results that waited for it count now.\n"
    assert works(stalled, "abandon", "two", "1", "--reason", "spilled") == expected
    assert waiting() == 0
    counts = ba.Study.open("two", storage="s.db").status().arms
    assert sum(metric.tests for arm in counts for metric in arm.metrics) == 7
