"""What programs of benchmarks write. The files of pytest-benchmark and google-benchmark are theirs, those of the others
follow their documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bestarm.race.suites.readers import SUITES, read, suite_of
from bestarm.validation import InvalidInput

DATA = Path(__file__).parent / "data"


def test_pytest_benchmark() -> None:
    found = read(SUITES["pytest"], DATA / "pytest.json")
    assert found == {
        "bench_a.py::test_sort[100]": pytest.approx(1.2915e-6, rel=1e-4),
        "bench_a.py::test_sort[200]": pytest.approx(2.523e-6, rel=1e-4),
        "bench_a.py::test_sum": pytest.approx(20.7015e-6, rel=1e-4),
    }


def test_google_benchmark_counts_repetitions_by_their_median() -> None:
    repeated = read(SUITES["google-benchmark"], DATA / "google.json")
    assert repeated == {
        "BM_Sort/64": pytest.approx(6415.902e-9),
        "BM_Sort/1024": pytest.approx(113752.61e-9),
        "BM_Fill": pytest.approx(2.9993297e-6),
    }
    aggregated = read(SUITES["google-benchmark"], DATA / "google-aggregates.json")
    assert aggregated["BM_Sort/64"] == pytest.approx(2569.00853e-9)
    assert [*aggregated] == [*repeated]


def test_google_benchmark_that_failed(tmp_path: Path) -> None:
    data = json.loads((DATA / "google.json").read_text(encoding="utf-8"))
    data["benchmarks"][0] |= {"error_occurred": True, "error_message": "no such device"}
    file = tmp_path / "output"
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InvalidInput, match="BM_Sort/64 failed: no such device"):
        read(SUITES["google-benchmark"], file)


def test_criterion_reads_what_is_new() -> None:
    found = read(SUITES["criterion"], DATA / "criterion")
    assert found == {
        "fib 20": pytest.approx(26000.5e-9),
        "sort/quick/1024": pytest.approx(512.25e-9),
        "sum": pytest.approx(100e-9),
    }


def test_go(tmp_path: Path) -> None:
    found = read(SUITES["go"], DATA / "go.txt")
    assert found == {
        "BenchmarkCount/short-2": pytest.approx(233.4e-9),
        "BenchmarkCount/long-2": pytest.approx(1467712e-9),
        "BenchmarkEmpty-2": pytest.approx(0.3127e-9),
    }
    two = tmp_path / "two"
    text = (DATA / "go.txt").read_text(encoding="utf-8")
    two.write_text(text + text.replace("words/count", "words/split"), encoding="utf-8")
    named = read(SUITES["go"], two)
    assert named["example.com/words/split.BenchmarkEmpty-2"] == named["example.com/words/count.BenchmarkEmpty-2"]
    assert len(named) == 6


def test_bencher_metric_format() -> None:
    found = read(SUITES["json"], DATA / "bencher.json")
    assert found == {"parse": pytest.approx(88e-9), "format": pytest.approx(1200e-9), "own program": 0.25}


@pytest.mark.parametrize(
    ("suite", "text", "reason"),
    [
        ("pytest", "{", "output: is not valid JSON: "),
        ("pytest", "[1]", "has no list of benchmarks"),
        ("pytest", '{"benchmarks": [{"fullname": "a"}]}', "is not what the suite pytest writes: KeyError 'stats'"),
        ("pytest", '{"benchmarks": []}', "has no benchmark of the suite pytest"),
        ("json", '{"a": 1, "a": 2}', "a is given twice"),
        ("json", '{"a": {"throughput": {"value": 3}}}', "a has no measure latency, only throughput"),
        ("json", '{"a": true}', "must be a positive number"),
        ("json", '{"a": -1}', "must be a positive number"),
        ("json", '{"a": "1 s"}', "must be a positive number"),
        ("go", "PASS", "has no benchmark of the suite go"),
    ],
)
def test_what_is_no_such_file(suite: str, text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=reason):
        read(SUITES[suite], file)


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    data = json.loads((DATA / "pytest.json").read_text(encoding="utf-8"))
    data["benchmarks"].append(data["benchmarks"][0])
    file = tmp_path / "output"
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InvalidInput, match="has two benchmarks called"):
        read(SUITES["pytest"], file)


def test_suites_that_are_not_known() -> None:
    with pytest.raises(InvalidInput, match="must be one of pytest, criterion, google-benchmark, go, json"):
        suite_of("jmh")
