"""The history of gates: a line for each, all of it or nothing, and what is read from the lines."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.program import bestarm
from tests.race.simulated import race, skewed

from bestarm.race import history
from bestarm.race.exports import as_json
from bestarm.race.history import append, as_bencher, as_otava, by_limit, line_of, read, verdict_on
from bestarm.race.history_plot import draw
from bestarm.race.result import RaceResult
from bestarm.validation import InvalidInput


def gate(new: float = 0.1, seed: int = 0) -> RaceResult:
    times = skewed({"old": 0.1, "new": new}, scatter=0.01)
    return race(times, ["old", "new"], ["time=1.3x", "time=2s"], baseline="old", is_gate=True, runs=60, seed=seed)


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return [line_of(gate(new)) for new in (0.1, 0.2, 0.13)]


def test_a_line_has_the_words_and_figures_of_the_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "0123abcd")
    result = gate()
    line, exported = line_of(result), json.loads(as_json(result))["bestarm"]
    assert json.loads(json.dumps(line)) == line
    assert {name: line[name] for name in line.keys() & exported.keys()} == {
        name: exported[name]
        for name in (
            *("found", "verdict", "void_because", "pauses_rarer_than", "delta", "runs", "seed", "limits_found"),
            *("baseline", "is_decided_before"),
        )
    }
    assert (line["commit"], line["study"], line["candidate"]) == ("0123abcd", "old vs new", "new")


def test_the_commit_is_that_of_the_folder_without_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in history.COMMITS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert line_of(gate())["commit"] is None


def test_lines_are_read_as_they_were_added(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    file = tmp_path / "gates.jsonl"
    for line in lines:
        append(file, line)
    assert read(file) == (lines, 0)
    assert [line["found"] for line in lines] == ["certified", "refuted", "undecided"]


def test_many_gates_at_once_add_whole_lines(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    file, each = tmp_path / "gates.jsonl", 20

    def add() -> None:
        for _ in range(each):
            append(file, lines[0])

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, unread = read(file)
    assert (len(found), unread) == (4 * each, 0)


def test_a_line_that_was_cut_off_harms_no_other(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    file = tmp_path / "gates.jsonl"
    append(file, lines[0])
    file.write_bytes(file.read_bytes() + json.dumps(lines[1]).encode()[:100])
    append(file, lines[2])
    assert read(file) == ([lines[0], lines[2]], 1)


def test_a_full_disk_leaves_the_file_as_it_was(
    tmp_path: Path, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gates.jsonl"
    append(file, lines[0])

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InvalidInput, match=r"--history = '.*gates.jsonl': cannot be written: No space left on device"):
        append(file, lines[1])
    assert read(file) == ([lines[0]], 0)


def test_files_that_are_no_history_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file or directory"):
        read(tmp_path / "none")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"time": "2026", "found": 3}\nnot JSON\n')
    with pytest.raises(InvalidInput, match="has no line that --history of a gate wrote"):
        read(wrong)
    with pytest.raises(InvalidInput, match="cannot be written: Is a directory"):
        history.check(tmp_path)


def test_lines_of_other_versions(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    """What a later version adds does no harm. What cannot be a limit is not read."""
    file, [first, second] = tmp_path / "gates.jsonl", lines[0]["limits_found"]
    later = lines[0] | {"limits_found": [first | {"color": "blue"}, second], "more": 1}
    for line in (later, lines[0] | {"limits_found": [first | {"low": "0.9"}]}, lines[0] | {"limits_found": [3]}):
        append(file, line)
    assert read(file) == ([later], 2)
    ended = bestarm("history", str(file))
    assert (ended.code, "1 gate. 2 lines of the file cannot be read." in ended.out) == (0, True), ended


def test_the_table_for_otava_has_numbers_alone(lines: list[dict[str, Any]]) -> None:
    rows = list(csv.DictReader(io.StringIO(as_otava(lines))))
    assert list(rows[0]) == ["time", "commit", "time at most 1.3x the baseline", "time at most 2 s"]
    for row, line in zip(rows, lines, strict=True):
        relative, own = line["limits_found"]
        assert float(row["time at most 1.3x the baseline"]) == relative["ratio"]
        assert float(row["time at most 2 s"]) == own["candidate"]
    # A newest gate without a figure costs its own row and no column.
    relative, own = lines[0]["limits_found"]
    unknown = lines[-1] | {"limits_found": [relative | {"ratio": None}, own]}
    assert as_otava([*lines, unknown]) == as_otava(lines)
    assert as_otava([unknown]).splitlines()[0] == "time,commit,time at most 2 s"
    with pytest.raises(InvalidInput, match="takes one study a file"):
        as_otava([lines[0], lines[1] | {"study": "another"}])


def test_bencher_gets_the_latest_of_each_study(lines: list[dict[str, Any]]) -> None:
    found = json.loads(as_bencher([*lines, lines[0] | {"study": "another"}]))
    assert list(found) == ["old vs new", "another"]
    relative = lines[2]["limits_found"][0]
    assert found["old vs new"]["time at most 1.3x the baseline"] == {
        "value": relative["ratio"],
        "lower_value": relative["low"],
        "upper_value": relative["high"],
    }
    assert by_limit(lines).keys() == {("old vs new", limit) for limit in found["another"]}


def test_a_limit_has_a_verdict_of_its_own(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    refuted = lines[1]
    assert [verdict_on(refuted, limit) for limit in refuted["limits_found"]] == ["violated", "open"]
    assert verdict_on(refuted | {"found": "void"}, refuted["limits_found"][1]) == "void"
    append(tmp_path / "gates.jsonl", refuted)
    said = [line.split() for line in bestarm("history", str(tmp_path / "gates.jsonl")).out.splitlines()]
    assert [line[3:5] for line in said if "refuted" in line] == [["refuted", "violated"], ["refuted", "open"]]


def test_a_verdict_that_was_kept_is_no_new_one(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    for is_kept in (False, True):
        append(tmp_path / "gates.jsonl", lines[1] | {"is_decided_before": is_kept})
    said = bestarm("history", str(tmp_path / "gates.jsonl")).out
    assert (said.count("refuted"), said.count("refuted, as before")) == (4, 2)


def test_words_are_whole_in_a_narrow_table(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    for is_kept in (False, True):
        append(tmp_path / "gates.jsonl", lines[2] | {"is_decided_before": is_kept})
    said = bestarm("history", str(tmp_path / "gates.jsonl"), COLUMNS="60").out
    table = [line for line in said.splitlines() if not line.startswith("2 gates")]
    assert max(map(len, table)) <= 60
    time = lines[2]["time"]
    words = {*said.split()}
    assert {time[:10], time[11:16], "undecided,", "before", "open", "measured"} <= words


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_figure_is_written(tmp_path: Path, lines: list[dict[str, Any]], suffix: str) -> None:
    out = tmp_path / f"gates{suffix}"
    draw(lines, out)
    assert out.stat().st_size > 5000
    with pytest.raises(InvalidInput, match="must end in"):
        draw(lines, tmp_path / "gates.txt")
