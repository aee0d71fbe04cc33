"""`make test` starts no server and no browser: tests that do so have the mark of the part that they need."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import parts
from tests.lengths import TORTURE, long_ones_left_out
from tests.tools.postgres import PostgresServer

ROOT = Path(__file__).parents[2]


def marked(request: pytest.FixtureRequest) -> set[str]:
    return {part for marker in request.node.iter_markers(parts.PARTS) for part in marker.args}


def test_a_server_is_not_for_tests_without_its_mark() -> None:
    with pytest.raises(pytest.fail.Exception, match=r'needs pytest\.mark\.parts\("postgresql"\)'):
        PostgresServer.url(object())  # type: ignore[arg-type]
    with pytest.raises(pytest.fail.Exception, match=r'needs pytest\.mark\.parts\("chromium"\)'):
        parts.claim("chromium")


def test_a_database_has_the_mark_of_its_server(database_url: str, request: pytest.FixtureRequest) -> None:
    assert marked(request) == ({"postgresql"} if "://" in database_url else set())


def test_users_of_a_fixture_have_its_mark() -> None:
    given: list[Any] = []
    parts.mark(SimpleNamespace(fixturenames=["browser", "visit"], add_marker=given.append))  # type: ignore[arg-type]
    assert [(marker.name, marker.args) for marker in given] == [("parts", ("chromium",))]


@pytest.mark.parametrize("required", ["", "ray,abacus"])
def test_what_is_missing_is_skipped_unless_it_is_required(required: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTARM_REQUIRE", required)
    outcome = pytest.fail.Exception if required else pytest.skip.Exception
    with pytest.raises(outcome, match="not installed"):
        parts.missing("abacus", "an abacus")


def test_the_last_check_runs_what_the_tests_leave_out() -> None:
    assert '"not torture and not parts"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    check = ROOT / ".ci" / "run"
    if check.exists():
        assert '"parts or torture"' in check.read_text(encoding="utf-8")


class FakeItem:
    """A test of which only the name and the marks matter."""

    def __init__(self, place: int, marks: Collection[str]) -> None:
        self.nodeid = f"tests/test_x.py::test[{place}]"
        self.marks = marks

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def test_some_long_tests_are_picked_and_others_another_time() -> None:
    long, short = ([FakeItem(place, marks) for place in range(400)] for marks in ({TORTURE}, {"parts"}))
    picked = [set(long) - long_ones_left_out(long + short, 4, by) for by in ("a", "a", "b")]  # type: ignore[arg-type]
    assert picked[0] == picked[1] != picked[2]
    assert all(60 < len(some) < 140 for some in picked)
    assert not long_ones_left_out(short, 4, "a")  # type: ignore[arg-type]
    assert not long_ones_left_out(long, 1, "a")  # type: ignore[arg-type]
