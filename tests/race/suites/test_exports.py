"""What a gate on a suite writes, for other programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bestarm.race.suites.exports import EXPORTS
from bestarm.race.suites.gate import gate_suite
from bestarm.race.suites.readers import SUITES, read
from bestarm.race.suites.result import SuiteGate


@pytest.fixture(scope="module")
def found() -> SuiteGate:
    old = {"sort | list": 0.5, "BenchmarkSum-8": 2e-6, "gone": 1.0}
    new = {"sort | list": 0.7, "BenchmarkSum-8": 2e-6, "came\x01": 1.0}
    return gate_suite(lambda _: old, lambda _: new, seed=1)


def written(found: SuiteGate, kind: str, folder: Path) -> Path:
    file = folder / kind
    file.write_text(EXPORTS[kind](found), encoding="utf-8")
    return file


def test_json_has_the_keys_of_hyperfine(found: SuiteGate) -> None:
    data = json.loads(EXPORTS["json"](found))
    first = data["results"][1]
    assert first["command"] == "sort | list (candidate)"
    assert (first["mean"], first["min"], len(first["times"])) == (pytest.approx(0.7), 0.7, found.pairs)
    assert first["parameters"] == {"benchmark": "sort | list", "program": "candidate"}
    about = data["bestarm"]
    assert about["found"] == "refuted"
    assert {one["name"]: one["verdict"] for one in about["benchmarks"]} == {
        "sort | list": "refuted",
        "BenchmarkSum-8": "certified",
        "gone": "absent",
        "came\x01": "new",
    }
    assert about["benchmarks"][0]["ratio"] == pytest.approx(1.4)
    assert about["benchmarks"][2]["interval"] == [None, None]
    assert about["geometric_mean"] == pytest.approx(1.4**0.5)
    assert "NaN" not in EXPORTS["json"](found)


def test_csv_and_markdown(found: SuiteGate) -> None:
    table = [*csv.DictReader(io.StringIO(EXPORTS["csv"](found)))]
    assert [row["verdict"] for row in table] == ["refuted", "certified", "absent", "new"]
    assert float(table[0]["candidate"]) == pytest.approx(0.7)
    assert table[2]["ratio"] == ""
    text = EXPORTS["markdown"](found)
    assert "| sort \\| list | refuted | 1.05x | 500 ms | 700 ms | 1.40 (" in text
    assert "REFUTED: 1 benchmark of 2 exceeds the limit" in text


def test_bencher_and_benchstat_are_read_back(found: SuiteGate, tmp_path: Path) -> None:
    times = {"sort | list": pytest.approx(0.7), "BenchmarkSum-8": pytest.approx(2e-6)}
    assert read(SUITES["json"], written(found, "bencher", tmp_path)) == times
    text = EXPORTS["benchstat"](found)
    assert text.startswith("program: baseline\nBenchmarkSort_|_list 1 5e+08 ns/op\n")
    assert text.count("program: ") == 2
    candidate = tmp_path / "candidate"
    candidate.write_text(text.partition("program: candidate\n")[2], encoding="utf-8")
    assert read(SUITES["go"], candidate) == {
        "BenchmarkSort_|_list": pytest.approx(0.7),
        "BenchmarkSum-8": pytest.approx(2e-6),
    }


def test_github_action_benchmark(found: SuiteGate) -> None:
    first, second = json.loads(EXPORTS["github"](found))
    assert (first["name"], first["unit"], first["value"]) == ("sort | list", "ns", pytest.approx(7e8))
    assert first["extra"].startswith("refuted, at most 1.05x: 1.40 (")
    assert second["extra"].startswith("certified")


def test_junit(found: SuiteGate) -> None:
    suite = ElementTree.fromstring(EXPORTS["junit"](found).encode())[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped", "errors")} == {
        "tests": "4",
        "failures": "1",
        "skipped": "2",
        "errors": "0",
    }
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    failure = cases["sort | list"].find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("refuted: 1.40 (")
    assert len(cases["BenchmarkSum-8"]) == 0
    for name, why in (("gone", "absent: only the baseline has it"), ("came?", "new: only the candidate has it")):
        skipped = cases[name].find("skipped")
        assert skipped is not None
        assert skipped.get("message") == why
