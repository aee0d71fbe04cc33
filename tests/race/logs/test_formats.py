"""Reading logs that the programs themselves wrote, and tables."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest

import bestarm as ba
from bestarm.race.logs.formats import read
from bestarm.race.logs.log import Log

DATA = Path(__file__).parent / "data"


def mean(log: Log, metric: str) -> float:
    return statistics.fmean(log.value(item, metric) for item in log.values)


def refusal(path: Path, columns: dict[str, str] | None = None, choice: str = "") -> str:
    with pytest.raises(ba.InvalidInput) as error:
        read(f"{path}{choice}", "candidate", columns)
    return str(error.value)


@pytest.mark.parametrize(
    ("file", "program", "items", "means"),
    [
        # The means are those that the programs printed.
        ("harness-base", "lm-evaluation-harness", 24, {"acc": 0.1667, "acc_norm": 0.1667}),
        ("harness-new", "lm-evaluation-harness", 24, {"acc": 0.2083, "acc_norm": 0.25}),
        ("openai-base.jsonl", "OpenAI evals", 24, {"match": 0.7917}),
        ("openai-new.jsonl", "OpenAI evals", 24, {"match": 0.9167}),
        ("promptfoo.json::1", "promptfoo", 6, {"right": 1.0, "short": 1.0, "success": 1.0}),
        ("promptfoo.json::2", "promptfoo", 6, {"right": 0.6667, "short": 0.0, "success": 0.0}),
    ],
)
def test_logs_of_other_programs(file: str, program: str, items: int, means: dict[str, float]) -> None:
    log = read(str(DATA / file), "candidate")
    assert (log.program, len(log.values), log.failed) == (program, items, {})
    assert {metric: round(mean(log, metric), 4) for metric in means} == means


@pytest.mark.parts("inspect_ai")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("file", "right"), [("inspect-base.eval", 7 / 12), ("inspect-new.eval", 10 / 12)])
def test_logs_of_inspect_in_epochs(file: str, right: float) -> None:
    log = read(DATA / file, "candidate")
    assert (log.program, len(log.values), log.epochs) == ("inspect_ai", 6, 2)
    assert mean(log, "includes") == pytest.approx(right)
    assert log.ranges == {"includes": (0.0, 1.0)}
    assert "length" in log.metrics


@pytest.mark.parts("inspect_ai")
@pytest.mark.filterwarnings("ignore")
def test_samples_that_failed_or_were_not_run_are_known() -> None:
    from inspect_ai.log import EvalError, read_eval_log

    logged = read_eval_log(str(DATA / "inspect-base.eval"))
    logged.samples[0].error = EvalError(message="timed out", traceback="", traceback_ansi="")
    kept = [sample for sample in logged.samples if sample.id != logged.samples[-1].id]
    logged.samples, lost = kept, logged.samples[-1].id
    log = read(logged, "candidate")
    assert log.failed == {str(kept[0].id): "timed out", str(lost): "was not run"}


def test_several_filters_are_metrics_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"doc_id": k, "doc_hash": str(k), "filter": name, "metrics": ["exact_match"], "exact_match": float(k % n == 0)}
        for name, n in (("strict", 2), ("flexible", 1))
        for k in range(4)
    ]
    path = tmp_path / "gsm.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    log = read(path, "candidate")
    assert set(log.metrics) == {"exact_match,strict", "exact_match,flexible"}
    assert (mean(log, "exact_match,strict"), mean(log, "exact_match,flexible")) == (0.5, 1.0)


def test_samples_that_do_not_list_their_metrics(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    row = {"doc_id": 0, "doc": {"q": 0}, "target": 3, "resps": [["x"]], "filtered_resps": ["x"]}
    path.write_text(json.dumps({**row, "acc": 0.0, "exact": True, "note": "x"}))
    assert read(path, "candidate").metrics == ("acc", "exact")


def test_repeated_tests_of_promptfoo_are_epochs_and_failed_calls_are_no_results(tmp_path: Path) -> None:
    data = json.loads((DATA / "promptfoo.json").read_text())
    first = [row for row in data["results"]["results"] if row["promptIdx"] == 0]
    failed = {**first[1], "failureReason": 2, "error": "rate limit"}
    data["results"]["results"] = [*first, first[0], failed]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(data))
    log = read(path, "candidate")
    assert (len(log.values), log.epochs, [*log.failed.values()]) == (6, 2, ["rate limit"])


def test_one_of_several_arms_must_be_named() -> None:
    assert "say which of them is meant" in refusal(DATA / "promptfoo.json")
    assert "no such one of them" in refusal(DATA / "promptfoo.json", choice="::3")


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"scores": [1, 2]}')
    assert "is none of the logs that are known" in refusal(tmp_path / "other.json")
    (tmp_path / "cut.jsonl").write_text((DATA / "openai-base.jsonl").read_text()[:-30])
    assert "line 50 is not a JSON object; the file may be cut off" in refusal(tmp_path / "cut.jsonl")
    (tmp_path / "broken.json").write_text('{\n"results": [')
    assert "is not JSON" in refusal(tmp_path / "broken.json")
    assert "cannot be read: No such file" in refusal(tmp_path / "absent.csv")
    (tmp_path / "empty").mkdir()
    assert "holds no log" in refusal(tmp_path / "empty")
    (tmp_path / "bytes.csv").write_bytes(b"item,a\n1,\xff\n")
    assert "is not text in UTF-8" in refusal(tmp_path / "bytes.csv")


def test_a_folder_has_one_log_of_each_task(tmp_path: Path) -> None:
    [path] = (DATA / "harness-base").iterdir()
    for name in ("samples_law_2026-01-01T00-00-00.000.jsonl", "samples_math_2026-01-01T00-00-00.000.jsonl"):
        (tmp_path / name).write_bytes(path.read_bytes())
    log = read(tmp_path, "candidate")
    assert len(log.values) == 48
    assert {item.split("/")[0] for item in log.values} == {"law", "math"}
    (tmp_path / "samples_law_2026-01-02T00-00-00.000.jsonl").write_bytes(path.read_bytes())
    assert "has two logs of the task 'law'" in refusal(tmp_path)


def test_tables_in_either_form(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("question,right,seconds,remark\nq1,true,1.5,\nq2,FAIL,2,slow\nq1,0,2.5,again\n")
    log = read(path, "candidate", {"question": "item", "right": "accuracy"})
    assert log.values["q1"]["accuracy"] == [1.0, 0.0]
    assert (log.value("q1", "seconds"), log.value("q2", "accuracy"), log.metrics) == (2.0, 0.0, ("accuracy", "seconds"))
    path.write_text("item;metric;value\nq1;accuracy;1\nq1;cost;3\nq2;accuracy;0\n")
    log = read(path, "candidate")
    assert (log.values["q1"], log.lack("q2", ["cost"])) == (
        {"accuracy": [1.0], "cost": [3.0]},
        f"has no number as 'cost' in {path}",
    )
    path.write_text("item,arm,accuracy\nq1,old,1\nq1,new,0\n")
    assert read(f"{path}::new", "candidate").value("q1", "accuracy") == 0.0
    assert "has several arms" in refusal(path)
    assert "no arm 'older' in it" in refusal(path, choice="::older")


def test_mistakes_in_tables(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("question,right\nq1,1\n")
    assert "needs a column item; it has 'question', 'right' (--map COLUMN=item" in refusal(path)
    assert "no such column; there are 'question', 'right'" in refusal(path, {"id": "item"})
    path.write_text("item,right\nq1\n")
    assert "line 2 has more or fewer fields than the header" in refusal(path)
    path.write_text("item,right\n,1\n")
    assert "row 1 names no item" in refusal(path)
    path.write_text("item,right\nq1,?\n")
    assert math.isnan(read(path, "candidate").values["q1"]["right"][0])


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2, 2], "right": [True, False, True], "cost": [1.0, None, 3.0]})
    log = read(frame, "candidate", {"id": "item"})
    assert log.values["2"]["right"] == [0.0, 1.0]
    assert log.lack("2", ["right"]) == ""
    assert log.lack("2", ["cost"])
