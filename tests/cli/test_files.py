"""Results from files and pipes, and into files: whole, or refused line by line."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from tests.cli.live import Program, everything, works


def test_export_and_import(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    Path("past.csv").write_text("arm,metric,value\n25 mg,efficacy,1\n150 mg,purity,30.5\n", encoding="utf-8")
    assert works(bestarm, "import", "dose", "past.csv") == "Recorded 2 results as tests 1 to 2 of dose.\n"
    again = bestarm("import", "dose", "past.csv")
    assert again.code == 2
    assert again.err.startswith("error: past.csv: is in this study already; `bestarm import --again`")
    assert bestarm("tell", "dose", "--csv", "past.csv").code == 2
    recorded = json.loads(works(bestarm, "import", "dose", "past.csv", "--again", "--json"))
    assert recorded == {"results": 2, "first": 3, "last": 4, "skipped": 0, "known": 0}
    works(bestarm, "ask", "dose")
    out = works(bestarm, "export", "dose")
    assert works(bestarm, "export", "dose", "-o", "out.csv") == "5 tests of dose written to out.csv.\n"
    assert Path("out.csv").read_text(encoding="utf-8") == out
    assert [row["value"] for row in csv.DictReader(io.StringIO(out))] == ["1.0", "30.5", "1.0", "30.5", ""]
    works(bestarm, "export", "dose", "-o", "out.json")
    data = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert (data["study"], len(data["tests"])) == ("dose", 5)
    assert json.loads(works(bestarm, "export", "dose", "--format", "json")) == data
    works(bestarm, "new", "dose.toml", "--name", "copy")
    said = works(bestarm, "import", "copy", "out.csv")
    assert said == "Recorded 4 results as tests 1 to 4 of copy; 1 test without a result left out.\n"
    statuses = [json.loads(works(bestarm, "status", name, "--json")) for name in ("dose", "copy")]
    assert statuses[0]["arms"] == statuses[1]["arms"]
    assert sorted(path.name for path in Path().iterdir() if path.suffix != ".toml") == [
        *("out.csv", "out.json", "past.csv", "s.db"),
        *(["s.db-shm", "s.db-wal"] if Path("s.db-wal").exists() else []),
    ]


def test_tell_takes_many_results_from_a_file_or_a_pipe(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3")
    Path("sheet.csv").write_text("test,value\n1,-0.5\n2,1\n3,99\n", encoding="utf-8")
    assert works(bestarm, "tell", "dose", "--csv", "sheet.csv") == "Recorded 3 results of dose.\n"
    again = works(bestarm, "tell", "dose", "--csv", "sheet.csv")
    assert again == "Nothing new: all its 3 results are in dose already.\n"
    piped = b"arm,metric,value\n25 mg,harm,0\n"
    for number in (4, 5):
        said = works(bestarm, "tell", "dose", "--csv", "-", stdin=piped)
        assert said == f"Recorded 1 result as test {number} of dose.\n"
    assert works(bestarm, "tell", "dose", "--arm", "25 mg", "--metric", "harm", "1") == (
        "Recorded as test 6: harm of 25 mg = 1.\n"
    )


def test_nothing_is_half_written(bestarm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    works(bestarm, "new", "dose.toml")
    Path("out.csv").write_text("precious", encoding="utf-8")
    Path("folder").mkdir()
    for out in ("folder", "no/such/out.csv"):
        ended = bestarm("export", "dose", "-o", out)
        assert ended.code == 2
        assert ended.err.startswith(f"error: out = '{out}': cannot be written: ")

    def power_cut(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", power_cut)
    ended = bestarm("export", "dose", "-o", "out.csv")
    assert (ended.code, ended.err) == (2, "error: out = 'out.csv': cannot be written: No space left on device\n")
    assert Path("out.csv").read_text(encoding="utf-8") == "precious"
    assert not list(Path().glob(".*"))
    # Devices are written to, never replaced; links keep pointing.
    works(bestarm, "export", "dose", "-o", os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_bad_file_is_refused_line_by_line(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    Path("bad.csv").write_text("arm,metric,value\n25 mg,efficacy,1\nx,harm,1\n25 mg,harm,2\n", encoding="utf-8")
    before = everything()
    for words in (("import", "dose", "bad.csv"), ("tell", "dose", "--csv", "bad.csv")):
        ended = bestarm(*words)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.splitlines() == [
            "error: bad.csv: 2 lines cannot be accepted; nothing was recorded",
            "  line 3: arm = 'x': no such arm; there are '25 mg', '150 mg'",
            "  line 4: value of 'harm' = 2.0: must be 0 or 1",
        ]
    assert everything() == before
