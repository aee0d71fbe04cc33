"""`bestarm export --all` and `bestarm import FILE`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.program import bestarm
from tests.web.service import TOKEN

import bestarm as ba
from bestarm.web.server import running

PLAN = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Bernoulli()), name="cache")


def test_a_study_is_backed_up_and_restored(tmp_path: Path) -> None:
    study = ba.Study.create(PLAN, storage=tmp_path / "bestarm.db")
    for test in study.ask(4):
        study.tell(test, 1)
    made = bestarm("export", "cache", "--all", cwd=tmp_path)
    assert made.code == 0, made.err
    digest = re.search(r"sha256:[0-9a-f]{64}", made.err)
    assert digest
    (tmp_path / "cache.backup").write_text(made.out, encoding="utf-8")
    last = json.loads(made.out.splitlines()[-1])
    assert last["digest"] == digest[0]
    rows = last["rows"]
    there = ["--db", "other.db"]
    taken = bestarm("import", "cache.backup", *there, cwd=tmp_path)
    assert taken.code == 0, taken.err
    assert f"Restored cache with {rows} rows, {digest[0]}." in taken.out
    said = bestarm("export", "cache", "--all", "-o", "again.backup", *there, cwd=tmp_path)
    assert digest[0] in said.out
    assert (tmp_path / "again.backup").read_text(encoding="utf-8") == made.out
    again = bestarm("import", "-", "--as", "copy", "--json", *there, cwd=tmp_path, stdin=made.out.encode())
    assert json.loads(again.out) == {
        "studies": [{"name": "copy", "rows": rows, "digest": digest[0]}],
        "there": [],
        "differ": [],
    }


def test_all_studies_are_backed_up_and_restored(tmp_path: Path) -> None:
    """From a database, and from a service, into another database, and another service."""
    here, there = str(tmp_path / "here.db"), str(tmp_path / "there.db")
    for name in ("one", "two"):
        study = ba.Study.create(ba.Plan.of(PLAN, name=name), storage=here)
        study.tell(study.ask(1)[0], 1)
    with running(here, token=TOKEN) as service, running(there, token=TOKEN) as other:

        def run(*words: str, code: int = 0) -> str:
            ended = bestarm(*words, cwd=tmp_path, BESTARM_TOKEN=TOKEN)
            assert ended.code == code, ended
            return ended.out if code == 0 else ended.err

        said = run("export", "--all", "-o", "here.backup", "--db", here)
        assert said.startswith("2 studies: ")
        assert run("export", "--all", "-o", "service.backup", "--db", service).splitlines()[1] == said.splitlines()[1]
        whole = (tmp_path / "here.backup").read_bytes()
        assert (tmp_path / "service.backup").read_bytes() == whole
        piped = bestarm("export", "--all", "--db", service, BESTARM_TOKEN=TOKEN)
        assert (piped.out.encode(), "written to standard output" in piped.err) == (whole, True)
        assert "Restored two with" in run("import", "here.backup", "--db", str(tmp_path / "new.db"))
        done = json.loads(run("import", "here.backup", "--json", "--db", other))
        assert ([one["name"] for one in done["studies"]], done["there"]) == (["one", "two"], [])
        ba.Study.open("one", storage=there).ask(1)
        for place in (there, other):
            assert run("import", "service.backup", "--db", place).splitlines() == [
                "one is there already, and differs, if only by its project; it stays as it is.",
                "two is there already, with the same record.",
            ]
        run("export", "two", "--all", "-o", "two.backup", "--db", service)
        assert "Restored due with" in run("import", "two.backup", "--as", "due", "--db", other)
        assert "--as NAME restores a study under another" in run("import", "two.backup", "--db", other, code=2)
        assert "is not complete" in run("import", str(_cut(tmp_path / "here.backup")), "--db", other, code=2)
        assert "no such study" in run("export", "three", "--all", "--db", service, code=2)
        studies = [line["study"] for line in json.loads(run("list", "--json", "--db", other))]
        assert studies == ["one", "two", "due"]


def _cut(path: Path) -> Path:
    cut = path.with_suffix(".cut")
    cut.write_bytes(path.read_bytes()[:-1])
    return cut


def test_what_is_refused(tmp_path: Path) -> None:
    ba.Study.create(PLAN, storage=tmp_path / "bestarm.db")
    text = bestarm("export", "cache", "--all", cwd=tmp_path).out
    (tmp_path / "whole").write_text(text)
    (tmp_path / "all").write_text(bestarm("export", "--all", cwd=tmp_path).out)
    (tmp_path / "all").write_text(bestarm("export", "--all", cwd=tmp_path).out)
    (tmp_path / "half").write_text(text[: len(text) // 2])
    for words, said in (
        (["import", "whole"], "a study of this name exists already"),
        (["import", "half"], "half: is not complete"),
        (["import", "nowhere"], "nowhere: cannot be read"),
        (["import", "whole", "--again"], "--again: is for STUDY FILE"),
        (["import", "cache", "whole", "--as", "x"], "--as: is only for a backup"),
        (["export", "cache", "--all", "--format", "csv"], "--format: cannot be combined with --all"),
        (["export", "other", "--all"], "no such study"),
        (["export"], "export: needs the name of a STUDY, or --all"),
        (["import", "all", "--as", "x"], "is for the file of one study; all has all studies"),
        (["export"], "export: needs the name of a STUDY, or --all"),
        (["import", "all", "--as", "x"], "is for the file of one study; all has all studies"),
    ):
        ended = bestarm(*words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (2, True), ended
