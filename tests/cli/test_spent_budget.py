"""A study that spends its budget says what it has found out: on the terminal, in the report and in its answer."""

from __future__ import annotations

import random
import re
from html import unescape
from pathlib import Path

import pytest
from tests.lengths import lengths
from tests.program import bestarm

import bestarm as ba

WORDS = r"with 95% confidence the best is prompt 5, 6 or 7; prompt 7 is feasible and at most 0\.\d+ below the best"


def judged(path: Path, calls: int, apart: float) -> ba.Study:
    """Eight prompts, whose three best differ little; the one that seems best breaks the rules too often."""
    quality = [4.0, 4.5, 5.0, 5.4, 6.95 - 0.25 * apart, 6.95 - 0.2 * apart, 6.95, 8.0]
    prompts = dict(zip([f"prompt {number}" for number in range(1, 9)], quality, strict=True))
    plan = ba.Plan(
        name="prompts",
        arms=list(prompts),
        objective=ba.maximize("quality", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("violation", 0.2, noise=ba.Bernoulli())],
        budget=ba.Budget(tests=calls),
    )
    study, judge = ba.Study.create(plan, storage=path), random.Random(2)
    while asked := study.ask(20):
        for test in asked:
            rate = 0.6 if test.arm == "prompt 8" else 0.02
            is_score = test.metric == "quality"
            study.tell(test, judge.gauss(prompts[test.arm], 1.0) if is_score else float(judge.random() < rate))
    return study


@pytest.mark.parametrize(("calls", "apart"), lengths((450, 1.0), (5_000, 0.3)))
def test_a_spent_budget_says_what_is_certain_everywhere(tmp_path: Path, calls: int, apart: float) -> None:
    """Seeded: the sentence is the same each time."""
    study = judged(tmp_path / "s.db", calls, apart)
    answer, status = study.answer, study.status()
    assert answer is not None
    assert (answer.state, answer.arm) == ("budget_spent", "prompt 7")
    assert re.search(WORDS, str(answer)), answer
    assert re.fullmatch(WORDS.replace("with", "With", 1) + ".*", status.known)
    assert re.search(WORDS, str(status))
    assert re.search(WORDS, answer._repr_html_())

    at = ("--db", "s.db")
    said = bestarm("status", "prompts", *at, cwd=tmp_path).out
    assert re.search(WORDS, said), said
    assert re.search(r"\nopen: prompt \d against prompt 7: about [\d,]+ tests; .*\nevidence: █+░+ \d+% of the ev", said)
    assert "confidence 0" not in said
    assert "0% confidence" not in said
    assert bestarm("report", "prompts", *at, cwd=tmp_path).code == 0
    page = unescape((tmp_path / "prompts.html").read_text(encoding="utf-8"))
    assert re.search(WORDS, page)
    assert "What is lacking" in page
    assert re.search(r"\d+% of the evidence needed", page)
