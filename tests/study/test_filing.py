"""Reports that can be filed, and words that all who read them know."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.tools.plain_words import avoided_words, read_text

import bestarm as ba
from bestarm.cli.look import _headlines
from bestarm.study.reports import filing
from bestarm.study.reports.report import study_report

MEANS = {"F1": (61.0, 0.1), "F2": (72.0, 0.1), "F3": (75.0, 0.9)}


def formulations(**options: object) -> ba.Plan:
    viability = ba.maximize("viability", noise=ba.Gaussian(6.0))
    toxic = ba.at_most("toxic", 0.5, noise=ba.Bernoulli())
    return ba.Plan([*MEANS], viability, [toxic], arm_word="formulation", **options)  # type: ignore[arg-type]


def measured(study: ba.Study, most: int = 10**6) -> ba.Study:
    rng, made = np.random.default_rng(5), 0
    while made < most and (tests := study.ask(4)):
        made += len(tests)
        for test in tests:
            gain, share = MEANS[test.arm]
            study.tell(test, rng.normal(gain, 6.0) if test.metric == "viability" else float(rng.random() < share))
    return study


@pytest.fixture
def study() -> ba.Study:
    return ba.Study.create(formulations(name="trial"), storage="sqlite:///:memory:", holder="Ada")


def test_every_test_is_accounted_for_with_its_reason(study: ba.Study) -> None:
    measured(study, 12)
    first, second, *_ = study.ask(4)
    study.abandon(first, reason="the well dried")
    study.fail(second, reason="the plate fell")
    study.correct(1, 1.0 if study.log()[-1].metric else 60.0, reason="misread")
    text = read_text(study_report(study, forecast=False))
    results = study.status().tests
    assert f"This study has {results} tests with a result." in text
    assert f"Of {results + 4} tests asked for or entered in all, 1 is given up and 3 are without a result yet." in text
    assert "1 test had a correction" in text
    for what, reason in (("given up", "the well dried"), ("made again", "the plate fell"), ("corrected", "misread")):
        assert re.search(rf"{what}.{{0,200}}Ada\s+{reason}", text, re.DOTALL), what
    assert re.search(rf"Ada\s+{results}\s", text)
    assert all(role in text for role in ("Carried out by", "Checked by", "Approved by"))
    assert re.search(r"plan\s+version 1, fingerprint [0-9a-f]{16}", text)


def test_results_that_were_not_asked_for_are_named(study: ba.Study) -> None:
    assert "asked for nor" not in read_text(study_report(measured(study, 8), forecast=False))
    study.add_frame({"formulation": ["F1", "F2"], "toxic": [0, 1]}, arm="formulation")
    text = read_text(study_report(study, forecast=False))
    said = "2 results were neither asked for nor randomized by the study: the guarantee assumes that they were not"
    # On the first page, and where it is said what was done.
    assert text.count(said) == 2


def test_reasons_that_were_not_given_are_missed(study: ba.Study) -> None:
    """As in records from before reasons were required."""
    measured(study, 4)
    study.storage.drop(study.record.key, study.ask(1)[0].id, study.holder, "")
    assert "no reason was stated" in read_text(study_report(study, forecast=False))


def test_changes_of_the_plan_make_versions() -> None:
    study = ba.Study.create(formulations(budget=ba.Budget(8), reserve=0.1), storage="sqlite:///:memory:", holder="Ada")
    measured(study)
    study.extend(tests=5)
    text = read_text(study_report(study, forecast=False))
    assert "version 2, fingerprint" in text
    assert "13 tests instead of 8" in text


def test_the_appendix_has_every_result_and_a_limit(study: ba.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(study, 8)
    text = read_text(study_report(study, forecast=False))
    appendix = text.partition("Appendix: every result")[2].partition("How to reproduce it")[0]
    assert len(re.findall(r"Ada", appendix)) == study.status().tests
    monkeypatch.setattr(filing, "MOST_RAW", 3)
    assert "The first 3 of" in read_text(study_report(study, forecast=False))


@pytest.mark.parametrize("most", [0, 8, 40, 10**6])
def test_no_word_that_a_laboratory_does_not_know(study: ba.Study, most: int) -> None:
    """What is said of a study whose arms are called formulations: in the report, the status and the answer."""
    measured(study, most)
    status, answer = study.status(), study.answer
    said = [read_text(study_report(study)), str(status), str(answer or ""), status._repr_html_()]
    assert [avoided_words(text) for text in map(read_text, said)] == [set()] * len(said)
    assert "formulation" in said[0]


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_a_test_is_not_given_up_made_again_or_corrected_without_a_reason(reason: Any) -> None:
    study = ba.Study.create(formulations(), storage=":memory:")
    first, second = study.ask(2)
    study.tell(first, 1.0)
    for act in (study.abandon, study.fail, lambda test, reason: study.correct(first, 0.0, reason)):
        with pytest.raises(ba.InvalidInput, match=r"^reason = .*: must be stated, for the log and the report"):
            act(second, reason)
    assert study.status().pending == 1


def test_what_came_after_the_decision_is_said_in_the_same_words_everywhere(study: ba.Study) -> None:
    while not study.done:
        measured(study, 8)
    answer = study.answer
    assert answer is not None
    study.add([("F1", "viability", 60.0)] * 3)
    more = study.status().tests - answer.tests
    words = f"after {answer.tests} tests; {more} more came after the decision"
    assert more >= 3
    [headline, *_] = _headlines(study, study.status(), None)
    assert words in headline
    text = read_text(study_report(study, forecast=False))
    assert f"Tests: {words.removeprefix('after ')}." in text
    assert f"This study has {answer.tests + more} tests with a result. It was over {words}." in text
