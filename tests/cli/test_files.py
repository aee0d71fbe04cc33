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


def test_columns_of_past_results_may_have_other_names(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    Path("past.csv").write_text("Dose;Effect\n25 mg;1\n150 mg;0\n", encoding="utf-8")
    assert "is not a header" in bestarm("import", "dose", "past.csv").err
    mapped = ("--map", "dose=arm", "--map", "Effect=efficacy")
    assert works(bestarm, "import", "dose", "past.csv", *mapped) == "Recorded 2 results as tests 1 to 2 of dose.\n"
    Path("long.csv").write_text("Dose,what,x\n25 mg,Effect,1\n", encoding="utf-8")
    works(bestarm, "import", "dose", "long.csv", *mapped[:2], "--map=what=metric", "--map=x=value", *mapped[2:])
    rows = list(csv.DictReader(io.StringIO(works(bestarm, "export", "dose"))))
    assert [(row["arm"], row["metric"], row["value"]) for row in rows] == [
        *(("25 mg", "efficacy", "1.0"), ("150 mg", "efficacy", "0.0"), ("25 mg", "efficacy", "1.0"))
    ]
    absent = bestarm("import", "dose", "past.csv", "--again", *mapped, "--map", "weight=value")
    assert "has no column 'weight', which was said to mean 'value'" in absent.err
    unknown = bestarm("import", "dose", "past.csv", "--again", "--map", "Dose=colour")
    assert "column 'Dose' cannot mean that; it can mean test, arm, metric, value, efficacy" in unknown.err
    assert "--map: is for STUDY FILE" in bestarm("import", "past.csv", "--map", "Dose=arm").err


def test_columns_that_the_study_does_not_know_are_left_out_by_name(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    Path("past.csv").write_text(",arm,Efficacy,my notes,Lot\n0,25 mg,1,late,7\n1,150 mg,0,,\n", encoding="utf-8")
    refused = bestarm("import", "dose", "past.csv")
    assert refused.code == 2
    assert "columns '', 'my notes', 'Lot': are not known; there are test, arm, metric" in refused.err
    assert refused.err.endswith("ignore them by name: --ignore '' --ignore 'my notes' --ignore Lot\n")
    ignored = ("--ignore", "", "--ignore", "my notes", "--ignore", "lot")
    assert works(bestarm, "import", "dose", "past.csv", *ignored) == "Recorded 2 results as tests 1 to 2 of dose.\n"
    new = Path("past.csv").read_bytes() + b"2,25 mg,0,,\n"
    told = works(bestarm, "tell", "dose", "--from", "-", *ignored[:4], "--ignore=Lot", stdin=new)
    assert told == "Recorded 3 results as tests 3 to 5 of dose.\n"
    rows = list(csv.DictReader(io.StringIO(works(bestarm, "export", "dose"))))
    assert [row["value"] for row in rows] == ["1.0", "0.0", "1.0", "0.0", "0.0"]
    for more, said in (
        (("--ignore", "efficacy"), "column 'Efficacy': is one of the study's, which cannot be ignored"),
        (("--ignore", "ARM"), "column 'arm': is one of the study's, which cannot be ignored"),
        (("--ignore", "weight"), "has no column 'weight', which was to be ignored"),
    ):
        assert said in bestarm("import", "dose", "past.csv", "--again", *ignored, *more).err
    assert "--ignore: is for STUDY FILE" in bestarm("import", "past.csv", "--ignore", "Dose").err
    assert "--ignore: goes with --from" in bestarm("tell", "dose", "1", "1", "--ignore", "Dose").err


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
            "  line 4: value of 'harm' = 2.0: must be 0 or 1, or k/n: k of n independent trials",
        ]
    assert everything() == before
