"""How work on a study gets on is shown on a terminal, in a notebook and as lines, and never unless asked for."""

from __future__ import annotations

import io
import random
import sys
import types
from typing import Any

import pytest
from rich.console import Console

import bestarm as ba
from bestarm.study.work import watching
from bestarm.study.work.watching import Display

PROBLEM = ba.Problem(
    arms=["slow", "quick"],
    objective=ba.maximize("speed", noise=ba.Gaussian(1.0)),
    constraints=[ba.at_most("crash", 0.9, noise=ba.Bernoulli())],
)


rng = random.Random(1)


def measure(arm: str, metric: str) -> float:
    return rng.gauss(1.0 if arm == "slow" else 2.0, 1.0) if metric == "speed" else float(rng.random() < 0.1)


@pytest.fixture(autouse=True)
def _same_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    rng.seed(1)
    # Each look is shown.
    for screen in (watching.Terminal, watching.Printed, watching.Notebook):
        monkeypatch.setattr(screen, "every", 0.0)


def test_nothing_is_shown_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert ba.identify(PROBLEM, measure).arm == "quick"
    assert capsys.readouterr() == ("", "")


def test_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    watched = []
    answer = ba.identify(PROBLEM, measure, progress=True, watch=lambda study, running: watched.append(running))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == len(watched) + 1
    assert any(
        "running: quick leads; " in line and "% of the evidence needed; all 2 arms left; open: " in line
        for line in lines
    )
    assert any("speed" not in line and "slow against quick: about" in line for line in lines)
    assert lines[-1].startswith(f"quick is feasible and best; {answer.tests:,} tests; cost ")
    assert all("tests a second, " in line for line in lines[1:])
    assert " 0.0 tests" not in err


def test_a_terminal_is_redrawn() -> None:
    study = ba.Study.create(PROBLEM, storage=":memory:", name="bench")
    screen = io.StringIO()
    with Display(study, Console(file=screen, force_terminal=True, width=100)) as display:
        for _ in range(40):
            for test in study.ask(1):
                study.tell(test, measure(test.arm, test.metric))
            display(study, 0)
    text = screen.getvalue()
    for words in (
        "so far",
        "running: quick leads",
        "evidence",
        "░",
        "% of the evidence needed",
        "tests a second, 0 under",
    ):
        assert words in text
    assert "confidence" not in text.replace("With 95% confidence", "")


def test_a_notebook_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    class Handle:
        def update(self, page: str) -> None:
            pages.append(page)

    ipython: Any = types.ModuleType("IPython.display")
    ipython.HTML, ipython.display = str, lambda page, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    study = ba.Study.create(PROBLEM, storage=":memory:", name="bench")
    with Display(study, Console(force_jupyter=True), shows_end=True) as display:
        for test in study.ask(4):
            study.tell(test, measure(test.arm, test.metric))
        display(study, 1)
    assert len(pages) == 2
    assert "<strong>bench</strong>: running: " in pages[0]
    assert "1 under way" in pages[0]
    assert "</svg>" in pages[-1]


def test_what_fails_is_raised_and_the_screen_closed(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(arm: str, metric: str) -> float:
        raise OSError("no ink")

    with pytest.raises(ba.MeasurementFailed, match="no ink"):
        ba.identify(PROBLEM, broken, progress=True)
    assert "feasible and best" not in capsys.readouterr().err
