"""`bestarm tell` and `bestarm import` ask about values far outside the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.live import Program, works

PURITY = "arm,metric,value\n" + "".join(f"25 mg,purity,{value}\n" for value in (66, 58, 74, 63, 68, 70, 61, 65))
FAR = "arm,metric,value\n25 mg,purity,64\n25 mg,purity,6.4\n"
QUESTION = "purity of 25 mg: 6.4? The others lie between 58 and 74\n"


@pytest.fixture
def filled(bestarm: Program) -> Program:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "import", "dose", "-", stdin=PURITY.encode())
    return bestarm


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if on a terminal."""
    monkeypatch.setattr("bestarm.cli.shared.files.is_typing", lambda: True)


TELL = ("tell", "dose", "--arm", "25 mg", "--metric", "purity", "6.4")


@pytest.mark.usefixtures("typing")
def test_on_a_terminal_it_is_asked(filled: Program) -> None:
    refused = filled(*TELL, stdin=b"n\n")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"{QUESTION}Record this value as typed? [y/N] Nothing was recorded.\n"
    confirmed = filled(*TELL, stdin=b"y\n")
    assert (confirmed.code, confirmed.out) == (0, "Recorded as test 9: purity of 25 mg = 6.4.\n")


@pytest.mark.usefixtures("typing")
def test_tests_and_corrections_are_asked_about(filled: Program) -> None:
    works(filled, "ask", "dose", "-n", "6")
    said = filled("tell", "dose", "1", "6.4", "--correct", "--reason", "typo", stdin=b"n\n")
    assert said.err.startswith("test 1, purity of 25 mg: 6.4? The others lie between 58 and 74\n")
    assert (
        works(filled, "tell", "dose", "1", "6.4", "--correct", "--reason", "typo", "--yes")
        == "Corrected: test 1 = 6.4.\n"
    )


def test_a_script_is_not_asked(filled: Program) -> None:
    assert works(filled, *TELL) == "Recorded as test 9: purity of 25 mg = 6.4.\n"


@pytest.mark.parametrize("command", [("tell", "dose", "--csv", "far.csv"), ("import", "dose", "far.csv")])
def test_a_file_is_refused_as_a_whole(filled: Program, command: tuple[str, ...]) -> None:
    Path("far.csv").write_text(FAR)
    refused = filled(*command)
    assert refused.code == 2
    assert refused.err == (
        "error: far.csv: nothing was recorded; correct what was mistyped, or record all of it as it is with --yes\n"
        f"  {QUESTION}"
    )
    assert works(filled, *command, "--yes") == "Recorded 2 results as tests 9 to 10 of dose.\n"


@pytest.mark.usefixtures("typing")
def test_on_a_terminal_a_file_is_asked_about(filled: Program) -> None:
    Path("far.csv").write_text(FAR)
    refused = filled("tell", "dose", "--csv", "far.csv", stdin=b"n\n")
    assert refused.err == f"{QUESTION}Record this value as typed? [y/N] Nothing was recorded.\n"
    assert "Recorded 2 results" in filled("tell", "dose", "--csv", "far.csv", stdin=b"y\n").out
