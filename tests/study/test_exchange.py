"""Results in files: what is read, what is refused, and that an export says everything."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tests.lengths import cases, lengths

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results, write_csv, write_json
from bestarm.study.intake.results_file import COLUMNS

PROBLEM = ba.Problem(
    arms=["low", "high"],
    objective=ba.maximize("yield", noise=ba.Gaussian(1.0)),
    constraints=[ba.at_most("crash", 0.5, noise=ba.Bernoulli()), ba.at_least("heat", 3, noise=ba.Bounded(0, 10))],
)


@pytest.fixture
def study() -> ba.Study:
    return ba.Study.create(PROBLEM, storage=":memory:")


def values(study: ba.Study) -> list[tuple[str, str, float | None]]:
    """Every test of the study and its result, in order."""
    return [
        (study.plan.arm_names[t.arm], study.plan.metrics[t.metric], t.outcomes[-1].value if t.outcomes else None)
        for t in study.storage.history(study.record.key)
    ]


def exported(study: ba.Study, write: Callable[[ba.Study, io.StringIO], int] = write_csv) -> str:
    out = io.StringIO()
    assert write(study, out) == study.storage.issued(study.record.key)
    return out.getvalue()


RESULTS = [("low", "yield", -1.5), ("high", "crash", 1.0), ("low", "heat", 1e-3)]


@pytest.mark.parametrize(
    "data",
    [
        b"arm,metric,value\nlow,yield,-1.5\nhigh,crash,1\nlow,heat,1e-3\n",
        b"\xef\xbb\xbfarm,metric,value\r\nlow,yield,-1.5\r\nhigh,crash,1.0\r\nlow,heat,0.001",
        b"\n Value ;ARM; metric\n-1.5;low;yield\n\n;;\n1;high;crash\n0.001;low;heat\n",
        b"arm\tmetric\tvalue\rlow\tyield\t-15e-1\rhigh\tcrash\t+1\rlow\theat\t.001\r",
        b'"arm", "metric", "value"\n"low", "yield", "-1.5"\n"high","crash",1\nlow,heat, 1E-3 \n',
        b"arm,metric,value,,\nlow,yield,-1.5,,\nhigh,crash,1,,\nlow,heat,0.001,,\n",
    ],
    ids=["plain", "bom and crlf", "semicolons and blanks", "tabs and cr", "quoted", "spare columns"],
)
def test_csv_as_people_and_spreadsheets_write_it(study: ba.Study, data: bytes) -> None:
    recorded = import_results(study, data, "past.csv")
    assert (recorded.results, recorded.first, recorded.last, recorded.skipped) == (3, 1, 3, 0)
    assert values(study) == RESULTS


def test_quoted_names() -> None:
    names = ['a,"b"', "x;y", "'q'", '"', "=1+1", "# no comment"]
    problem = ba.Problem(arms=names, objective=ba.maximize("m, n", noise=ba.Gaussian(1)))
    study, copy = (ba.Study.create(problem, storage=":memory:") for _ in range(2))
    study.add([(name, "m, n", k / 7) for k, name in enumerate(names)])
    import_results(copy, exported(study).encode(), "e.csv")
    assert values(copy) == values(study) == [(name, "m, n", k / 7) for k, name in enumerate(names)]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "f.csv: is empty; it must begin with the header arm,metric,value or test,value"),
        (b"\n , \n", "f.csv: is empty; it must begin with the header arm,metric,value or test,value"),
        (b"low,yield,1\n", "f.csv: line 1: is not a header; a file of results begins with arm,metric,value or "),
        (b"\x00\x01\x02", "f.csv: line 1: is not a header"),
        (b"arm,metric\n", "f.csv: line 1: the column value must be there beside arm, metric"),
        (b"test,value\n1,2\n", "f.csv: line 1: the columns arm, metric must be there beside test, value"),
        (b"arm,arm,metric,value\n", "f.csv: line 1: column 'arm': is there 2 times"),
        (b"arm,metric,value,weather\n", "f.csv: line 1: column 'weather': is not known; there are test, arm"),
        (b"arm,metric,value," + b"w" * 10**6, "f.csv: line 1: "),
        (b"arm,metric,value\n\n", "f.csv: has no results below its header"),
        ("arm,metric,value\nlow,yield,1".encode("utf-16"), "f.csv: is UTF-16; save it as CSV in UTF-8"),
        (b"arm,metric,value\nlow,yield,1\nl\xf6w,yield,1", "f.csv: line 3: is not UTF-8; save the file as CSV"),
        (b"\x89PNG\r\n\x1a\n\x00", "f.csv: is neither a CSV file nor an Excel workbook that can be read; save it"),
        (b"arm,metric,value\nlow,yield,x\n", "f.csv: line 2: value = 'x': must be a number; nothing was recorded"),
        (b"arm,metric,value\nlow,yield,nan\n", "line 2: value of 'yield' = nan: must be a finite number"),
        (b"arm,metric,value\nlow,yield,-inf\n", "line 2: value of 'yield' = -inf: must be a finite number"),
        (b"arm,metric,value\nlow,yield,1e999\n", "line 2: value of 'yield' = inf: must be a finite number"),
        (b"arm,metric,value\nlow,yield,\n", "line 2: value: is missing"),
        (b"arm,metric,value\n,yield,1\n", "line 2: arm: is missing"),
        (b"arm,metric,value\nlow,crash,0.5\n", "line 2: value of 'crash' = 0.5: must be 0 or 1"),
        (b"arm,metric,value\nlow,heat,11\n", "line 2: value of 'heat' = 11.0: must lie between 0 and 10"),
        (b"arm,metric,value\nmid,heat,1\n", "line 2: arm = 'mid': no such arm; there are 'low', 'high'"),
        (b"arm,metric,value\nlow,hat,1\n", "line 2: metric = 'hat': no such metric; there are 'yield', 'crash'"),
        (b"arm,metric,value\nlow,yield,3,5\n", "line 2: has 4 fields; the header has 3"),
        (b"arm,metric,value\nlow,yield\n", "line 2: has 2 fields; the header has 3"),
        (b'arm,metric,value\n"low,yield,1\nhigh,yield,2\n', "line 2: cannot be read (unexpected end of data)"),
        (b'arm,metric,value\n"low"x,yield,1\n', "line 2: cannot be read"),
        (b"arm,metric,value\n" + b"l" * 200_000 + b",yield,1\n", "line 2: cannot be read (field larger than"),
        (b"arm,metric,value\n" + b"l" * 9_000 + b",yield,1\n", "line 2: arm = 'lllll"),
        (b"arm,metric,value\nlow,yield," + b"1" * 9_000 + b"\n", "line 2: value = '11111"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_recorded(study: ba.Study, data: bytes, complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, data, "f.csv")
    message = str(caught.value)
    assert complaint in message
    assert "\n" not in message
    assert len(message) < 400
    assert values(study) == []


def test_every_bad_line_is_named(study: ba.Study) -> None:
    lines = [
        "arm,metric,value",
        "low,yield,1",
        "mid,yield,1",
        "",
        "low,heat,12",
        "max,yield,1",
        "high,crash,maybe",
        "low",
    ]
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, "\n".join(lines).encode(), "past.csv")
    assert str(caught.value).split("\n  ") == [
        "past.csv: 5 lines cannot be accepted; nothing was recorded",
        "line 3: arm = 'mid': no such arm; there are 'low', 'high'",
        "line 5: value of 'heat' = 12.0: must lie between 0 and 10, the range of its values",
        "line 6: arm = 'max': no such arm",
        "line 7: value = 'maybe': must be yes or no, or 1 or 0",
        "line 8: has 1 fields; the header has 3",
    ]
    assert values(study) == []


def test_a_long_list_of_bad_lines_is_cut(study: ba.Study) -> None:
    data = "arm,metric,value\n" + "low,yield,x\n" * 1234 + "low,yield,1\n"
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, data.encode(), "f.csv")
    lines = str(caught.value).split("\n  ")
    assert lines[0].startswith("f.csv: 1,234 lines cannot be accepted")
    assert lines[50] == "line 51: value = 'x': must be a number"
    assert lines[51:] == ["and 1,184 more"]


def test_lines_are_counted_as_an_editor_does(study: ba.Study) -> None:
    data = b'arm,metric,value,reason\nlow,yield,1,"two\nlines"\nlow,yield,x,""\n'
    with pytest.raises(ba.InvalidInput, match=r"f\.csv: line 4: value = 'x'"):
        import_results(study, data, "f.csv")


def test_the_same_content_is_taken_once(study: ba.Study) -> None:
    data = b"arm,metric,value\nlow,yield,1\n"
    import_results(study, data, "a.csv")
    with pytest.raises(ba.InvalidInput, match=r"^b\.csv: is in this study already; `bestarm import --again`"):
        import_results(study, data, "b.csv")
    assert len(values(study)) == 1
    import_results(study, data, "b.csv", once=False)
    import_results(study, data + b"low,yield,2\n", "a.csv")
    assert [value for _, _, value in values(study)] == [1, 1, 1, 2]
    other = ba.Study.create(PROBLEM, name="other", storage=study.storage)
    assert import_results(other, data, "a.csv").results == 1


def test_results_of_tests_that_were_asked_for(study: ba.Study) -> None:
    tests = study.ask(3)
    assert [(t.arm, t.metric) for t in tests] == [("low", "yield"), ("low", "crash"), ("low", "heat")]
    recorded = tell_results(study, b"value,test\n4.5,3\n-2,1\n", "f.csv")
    assert (recorded.results, recorded.first) == (2, None)
    assert [value for _, _, value in values(study)] == [-2, None, 4.5]
    # Told again with the same values, and with the arm and metric as a check.
    tell_results(study, b"test,arm,metric,value\n3,low,heat,4.5\n2,low,crash,1\n", "f.csv")
    assert [value for _, _, value in values(study)] == [-2, 1, 4.5]
    # Without the column test they are results measured without asking.
    assert tell_results(study, b"arm,metric,value\nhigh,heat,2\n", "f.csv").first == 4


def test_bad_lines_of_tests_that_were_asked_for(study: ba.Study) -> None:
    study.ask(5)
    study.tell(1, 1.0)
    study.abandon(3, "broken")
    lines = ["test,arm,value", "2,low,0", "1,low,2", "3,low,5", "9,low,1", "x,low,1", "0,low,1", "2,low,1", "4,low,1"]
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, "\n".join(lines).encode(), "f.csv")
    assert str(caught.value).split("\n  ") == [
        "f.csv: 7 lines cannot be accepted; nothing was recorded",
        "line 3: test = 1 ('yield' of 'low'): has the result 1 already; if that is wrong, `bestarm tell study 1 2 "
        "--correct --reason WHY` replaces it",
        "line 4: test = 3 ('heat' of 'low'): was abandoned",
        "line 5: test = 9: no such test in study 'study'",
        "line 6: test = 'x': must be the number of a test, as `bestarm ask` gives it",
        "line 7: test = '0': must be the number of a test, as `bestarm ask` gives it",
        "line 8: test = 2: is on line 2 too",
        "line 9: test = 4: is 'yield' of 'high'",
    ]
    assert [value for _, _, value in values(study)] == [1, None, None, None, None]


def test_an_export_says_everything(study: ba.Study) -> None:
    start = datetime.now(UTC)
    study.ask(3)
    study.tell(1, 0.1)
    study.abandon(2, "spilled, sorry")
    study.correct(1, 0.3, "typo")
    study.correct(1, 0.2, "typo\nagain")
    study.add([("high", "heat", 1 / 3)])
    rows = list(csv.DictReader(io.StringIO(exported(study), newline="")))
    assert [list(row) for row in rows] == [list(COLUMNS)] * 4
    assert [row["test"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["value"] for row in rows] == ["0.2", "", "", repr(1 / 3)]
    assert [row["reason"] for row in rows] == ["typo\nagain", "spilled, sorry", "", ""]
    assert [row["round"] for row in rows] == ["1", "1", "1", "1"]
    assert [row["who"] for row in rows] == [study.holder, study.holder, "", study.holder]
    assert [bool(row["told"]) for row in rows] == [True, True, False, True]
    for row in rows:
        issued = datetime.fromisoformat(row["issued"])
        assert row["issued"].endswith("Z")
        # By the database's clock, and rounded.
        assert start - timedelta(minutes=1) < issued < datetime.now(UTC) + timedelta(minutes=1)
    history = json.loads(rows[0]["corrections"])
    assert [(h["value"], h["reason"]) for h in history] == [(0.1, ""), (0.3, "typo")]
    assert [row["corrections"] for row in rows[1:]] == ["", "", ""]

    data = json.loads(exported(study, write_json))
    assert list(data) == ["study", "created", "archived", "seed", "plan", "tests"]
    assert ba.Plan.from_data(data["plan"]) == study.plan
    assert [t["asked"] for t in data["tests"]] == [True, True, True, False]
    assert [[o["value"] for o in t["outcomes"]] for t in data["tests"]] == [[0.1, 0.3, 0.2], [None], [], [1 / 3]]
    assert (data["tests"][3]["arm"], data["tests"][3]["metric"]) == ("high", "heat")


def test_an_export_of_nothing_is_sound(study: ba.Study) -> None:
    assert exported(study) == ",".join(COLUMNS) + "\n"
    assert json.loads(exported(study, write_json))["tests"] == []


MEANS = {"low": (0.0, 6.0), "high": (2.0, 7.0), "hot": (9.0, 0.0), "warm": (1.5, 5.0)}


def same_answer(one: ba.Study, other: ba.Study) -> bool:
    """Also in what is doubtful about the results, but for the numbers of tests, which a copy counts anew."""
    found = [study.answer for study in (one, other)]
    plain = [answer and dataclasses.replace(answer, warnings=()) for answer in found]
    return plain[0] == plain[1] and len({len(answer.warnings) for answer in found if answer}) == 1


@cases(2)
@pytest.mark.parametrize("policy", ["certify", "racing", "feasible-lucb", "tf-lucb"])
@pytest.mark.parametrize("seed", [*lengths(0, 1), pytest.param(2, marks=pytest.mark.torture)])
def test_an_export_read_into_a_new_study_gives_the_same_answer(policy: str, seed: int) -> None:
    """With late results, tests given up, corrections, and results that came after the end. Exact, not by chance."""
    problem = ba.Problem(
        arms=list(MEANS),
        objective=ba.maximize("yield", noise=ba.Gaussian(0.3)),
        constraints=[ba.at_least("heat", 3, noise=ba.Gaussian(1.0))],
    )
    study = ba.Study.create(problem, policy=policy, storage=":memory:")
    rng = np.random.default_rng(seed)
    held: list[ba.Test] = []
    told: list[ba.Test] = []
    while not study.done:
        held += study.ask(7)
        for place in sorted(rng.permutation(len(held))[: rng.integers(1, 9)], reverse=True):
            test = held.pop(int(place))
            if rng.random() < 0.05:
                study.abandon(test, "spilled")
                continue
            which = study.plan.metrics.index(test.metric)
            study.tell(test, rng.normal(MEANS[test.arm][which], (0.3, 1.0)[which]))
            told.append(test)
        if rng.random() < 0.02:
            study.correct(told[len(told) // 2], 4.0 + rng.random(), "typo")
    for test in held:
        study.tell(test, 1.0)
    assert study.answer is not None
    copy = ba.Study.create(problem, policy=policy, storage=":memory:")
    recorded = import_results(copy, exported(study).encode(), "e.csv")
    assert recorded.results + recorded.skipped == study.storage.issued(study.record.key)
    assert same_answer(copy, study)
    assert copy.state == study.state
    # And once more: a copy of a copy.
    again = ba.Study.create(problem, policy=policy, storage=":memory:")
    import_results(again, exported(copy).encode(), "e.csv")
    assert same_answer(again, study)


class _Nowhere(io.StringIO):
    """Counts what is written and keeps none of it."""

    written = 0

    def write(self, text: str, /) -> int:
        self.written += len(text)
        return len(text)


@pytest.mark.torture
@pytest.mark.parametrize("write", [write_csv, write_json])
def test_an_export_takes_little_memory(
    study: ba.Study, write: Callable[[ba.Study, io.StringIO], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestarm.storage.sql.queries.PAGE", 200)
    study.add([("low", "yield", k / 7) for k in range(4_000)])
    out = _Nowhere()
    write(study, out)
    tracemalloc.start()
    try:
        assert write(study, out) == 4_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A page of 200 tests, of twenty.
    assert out.written > 400_000
    assert peak < 400_000
