"""`bestarm export --all` and `bestarm import FILE`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.program import bestarm

import bestarm as ba

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
    assert json.loads(again.out) == {"name": "copy", "rows": rows, "digest": digest[0]}


def test_what_is_refused(tmp_path: Path) -> None:
    ba.Study.create(PLAN, storage=tmp_path / "bestarm.db")
    text = bestarm("export", "cache", "--all", cwd=tmp_path).out
    (tmp_path / "whole").write_text(text)
    (tmp_path / "half").write_text(text[: len(text) // 2])
    for words, said in (
        (["import", "whole"], "a study of this name exists already"),
        (["import", "half"], "half: is not complete"),
        (["import", "nowhere"], "nowhere: cannot be read"),
        (["import", "whole", "--again"], "--again: is for STUDY FILE"),
        (["import", "cache", "whole", "--as", "x"], "--as: is only for a backup"),
        (["export", "cache", "--all", "--format", "csv"], "--format: cannot be combined with --all"),
        (["export", "other", "--all"], "no such study"),
    ):
        ended = bestarm(*words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (2, True), ended
