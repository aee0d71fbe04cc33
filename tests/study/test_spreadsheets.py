"""Tables of results from outside, and for spreadsheets: whole or refused, and never a formula."""

from __future__ import annotations

import csv
import dataclasses
import io
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.lengths import examples
from tests.outside import PLAN, mutated, one_line

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results, write_csv
from bestarm.texts import cell, from_cell

CSV = "test,arm,metric,value\n1,a,p,0.5\n2,b,c,-1e3\n"


@example(CSV.replace("0.5", "1_000"))
@example(CSV.replace("0.5", "１"))
@examples(15, 100)
@given(mutated(CSV))
def test_any_csv_is_recorded_whole_or_refused(text: str) -> None:
    study = ba.Study.create(PLAN, storage=":memory:")
    study.ask(4)
    before = study.status().tests
    for take in (import_results, tell_results):
        data = text.encode("utf-8", "surrogatepass")
        try:
            recorded = take(study, data, "file.csv", once=False)
        except ba.InvalidInput as error:
            for line in str(error).split("\n  "):
                one_line(line)
            assert study.status().tests == before
        else:
            before += recorded.results
            assert "_" not in text.partition("value")[2] or recorded.skipped


NAMES = st.sampled_from(["=1+1", "'=1+1", "''=1+1", "+a", "-2", "@x", "'a", "''a", "'", "＝a", '"=a', "a", "b;c", "-"])
TEXTS = st.one_of(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=10))


@examples(40, 500)
@given(TEXTS)
def test_a_cell_is_no_formula_and_can_be_read_back(text: str) -> None:
    assert from_cell(cell(text)) == text
    assert cell(text)[:1] not in {*"=+-@\t\r＝＋－＠"}
    assert len(cell(text)) - len(text) in (0, 1)


@examples(10, 50)
@given(st.lists(NAMES, min_size=2, max_size=6, unique=True), st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_an_export_with_names_like_formulas_reads_back_the_same(names: list[str], texts: list[str], data: Any) -> None:
    plan = dataclasses.replace(PLAN, arms=tuple(map(ba.Arm, names)))
    plan = dataclasses.replace(plan, objective=ba.maximize("=p", noise=ba.Gaussian(1.0)))
    study = ba.Study.create(plan, storage=":memory:", holder=texts[0] or "me")
    results = [(data.draw(st.sampled_from(names)), "=p", -float(k)) for k in range(5)]
    study.add(results)
    reason = texts[-1] if texts[-1].strip() else "."
    study.correct(1, -7.5, reason)
    out = io.StringIO()
    write_csv(study, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))
    for row in rows:
        assert all(value[:1] not in {*"=+-@\t\r"} for key, value in row.items() if key != "value")
        assert float(row["value"]) <= 0.0
    again = ba.Study.create(plan, storage=":memory:")
    import_results(again, out.getvalue().encode(), "export.csv")
    told = [(again.plan.arm_names[test.arm], test.outcomes[-1].value) for test in again.storage.history(1)]
    assert told == [(arm, -7.5 if k == 0 else value) for k, (arm, _, value) in enumerate(results)]
    assert from_cell(rows[0]["reason"]) == reason
    # And with the test's number, as results of tests that were asked for.
    assert tell_results(study, out.getvalue().encode(), "export.csv").known == 5
