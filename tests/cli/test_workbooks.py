"""Excel workbooks from the command line: asked for, filled in and told."""

from __future__ import annotations

from pathlib import Path

from tests.cli.live import Program, works
from tests.study.test_workbooks import filled, opened, to_fill

import bestarm as ba
from bestarm.study.intake.xlsx_file import LIST


def test_a_plate_from_asking_to_telling(lab: Program) -> None:
    said = works(lab, "ask", "two", "-n", "4", "-o", "plate 1.xlsx", "--days", "2", "--worker", "Ann")
    assert said == (
        "4 tests of two written to plate 1.xlsx. Fill in value, then give it back:\n"
        "bestarm tell two --from 'plate 1.xlsx'\n"
    )
    data = Path("plate 1.xlsx").read_bytes()
    cells = to_fill(opened(data)[LIST])
    Path("plate 1.xlsx").write_bytes(
        filled(data, {key: "0,5" if key[1] == "gain" else "no" for key in list(cells)[:3]})
    )
    told = "Recorded 3 results of two; 1 test without a result left out.\n"
    assert works(lab, "tell", "two", "--from", "plate 1.xlsx") == told
    piped = works(lab, "tell", "two", "--from", "-", stdin=Path("plate 1.xlsx").read_bytes())
    assert piped == "Nothing new: all its 3 results are in two already; 1 test without a result left out.\n"
    Path("plate 1.xlsx").write_bytes(filled(data, dict.fromkeys(cells, "x")))
    refused = lab("tell", "two", "--from", "plate 1.xlsx")
    assert (refused.code, refused.err.splitlines()[1]) == (2, "  D2: value = 'x': must be a number")
    # A name that says that a file is a workbook is for workbooks only.
    for words in (("export", "two", "-o", "r.xlsx"), ("ask", "two", "-o", "p.XLS"), ("export", "two", "-o", "r.ods")):
        refused = lab(*words)
        assert (refused.code, "what is written is no such workbook" in refused.err) == (2, True)
        assert not Path(words[-1]).exists()
    refused = lab("ask", "two", "-o", "p.xlsx", "--semicolons")
    assert (refused.code, "is for CSV" in refused.err) == (2, True)
    assert len(ba.Study.open("two", storage="s.db").pending()) == 1
