"""`bestarm gate --eval`: exit statuses, what is printed and written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.program import Ended, bestarm

DATA = Path(__file__).parents[1] / "race" / "logs" / "data"


def csv(path: Path, rights: list[int], **more: float) -> Path:
    head = ",".join(["item", "right", *more])
    rows = [",".join([f"q{k}", str(right), *map(str, more.values())]) for k, right in enumerate(rights)]
    path.write_text("\n".join([head, *rows]))
    return path


def gate(base: Path | str, new: Path | str, *words: str, cwd: Path | None = None) -> Ended:
    return bestarm("gate", "--eval", str(base), str(new), *words, cwd=cwd)


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, Path]:
    halves = [k % 2 for k in range(200)]
    return {
        "base": csv(tmp_path / "base.csv", halves),
        "better": csv(tmp_path / "better.csv", [1] * 200),
        "worse": csv(tmp_path / "worse.csv", [0] * 200),
        "short": csv(tmp_path / "short.csv", halves[:10]),
    }


def test_exit_statuses_are_those_of_a_gate(logs: dict[str, Path]) -> None:
    limit = ("--at-least", "right=-1pp", "--seed", "3")
    passed, failed = gate(logs["base"], logs["better"], *limit), gate(logs["base"], logs["worse"], *limit)
    assert (passed.code, failed.code) == (0, 3), passed.err + failed.err
    assert "CERTIFIED with 95% confidence after" in passed.out
    assert "REFUTED with 95% confidence after" in failed.out
    assert "The verdict and the intervals are about items like these" in passed.out
    assert "--seed 3 repeats it. To try seeds until one passes voids the verdict." in passed.out
    unclear = gate(logs["short"], logs["short"], *limit)
    assert unclear.code == 4
    assert "UNDECIDED after all 10 items" in unclear.out
    assert bestarm("gate", str(logs["better"]), "--eval", str(logs["base"]), *limit).out == passed.out


def test_files_of_other_programs() -> None:
    ended = gate(DATA / "openai-base.jsonl", DATA / "openai-new.jsonl", "--at-least=match=10%", "--delta=0.1")
    assert ended.code == 0, ended.err
    assert "(OpenAI evals)" in ended.out
    several = gate(DATA / "harness-base", DATA / "harness-new", "--at-most=acc=90%", "--at-most=acc_norm=90%")
    assert several.code == 0, several.err
    arms = gate(f"{DATA / 'promptfoo.json'}::1", f"{DATA / 'promptfoo.json'}::2", "--at-least=short=95%", "--delta=0.3")
    assert arms.code == 3, arms.err


def test_exports_and_going_on(logs: dict[str, Path], tmp_path: Path) -> None:
    few = csv(tmp_path / "few.csv", [k % 2 for k in range(20)])
    words = ("--at-least", "right=-5pp", "--export-json", "first.json", "--export-markdown", "table.md")
    assert gate(few, few, *words, cwd=tmp_path).code == 4
    first = json.loads((tmp_path / "first.json").read_text())
    assert (first["found"], len(first["items"]), first["limits"][0]["relative"]) == ("undecided", 20, True)
    assert (tmp_path / "table.md").read_text().startswith("| Limit | Verdict | Baseline |")
    after = ("--at-least", "right=-5pp", "--after", "first.json", "--export-json", "-")
    later = gate(logs["base"], logs["base"], *after, cwd=tmp_path)
    data = json.loads(later.out)
    assert data["items"][:20] == first["items"]
    assert "The first 20 items are those of the earlier verdict" in later.err
    (tmp_path / "other.json").write_text("{}")
    refused = gate(logs["base"], logs["base"], "--at-least=right=-5pp", "--after=other.json", cwd=tmp_path)
    assert "is not what --export-json of a gate on logs wrote" in refused.err


def test_columns_ranges_and_missing_items(tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("id,points\n" + "\n".join(f"{k},{5 + k % 3}" for k in range(150)))
    new.write_text("id,points\n" + "\n".join(f"{k},{7 + k % 3}" for k in range(149)))
    words = ["--map", "id=item", "--map", "points=score", "--at-least", "score=baseline-0.5"]
    assert "--range score=LOW..HIGH states it" in gate(old, new, *words).err
    words += ["--range", "score=0..10"]
    lacking = gate(old, new, *words)
    assert lacking.code == 2
    assert "1 of 150 items lack a result" in lacking.err
    assert "'149' is not in" in lacking.err
    assert gate(old, new, *words, "--missing", "leave-out").code == 0
    counted = gate(old, new, *words, "--missing", "score=0")
    assert counted.code == 0
    assert "Counted as stated, for want of a result: 1 items" in counted.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--at-least: say what passes"),
        (["--at-least=right=-1pp", "--prepare=true"], "--prepare: is for commands, and --eval compares logs"),
        (["--at-least=right=-1pp", "--runs=5"], "--runs: is for commands"),
        (["--at-least=right=-1pp", "--baseline=true"], "--baseline: state the command"),
        (["--at-least=right=-1pp", "--range=other=0..1"], "no limit on a mean is about this metric"),
        (["--at-least=right=-1pp", "--missing=much"], "must be METRIC=VALUE for each metric"),
        (["--at-least=right=-1pp", "--map=item"], "must be COLUMN=MEANING"),
        (["--at-least=right=-1pp", "--delta=0"], "must lie strictly between 0 and 1"),
        (["--at-least=wrong=-1pp"], "no such metric in both logs; they share 'right'"),
        (["--at-least=right=1pp"], "must be METRIC=LIMIT"),
        (["--at-least=right=-1pp", "--export-json=nowhere/x.json"], "there is no such folder"),
    ],
)
def test_mistakes(logs: dict[str, Path], words: list[str], said: str) -> None:
    ended = gate(logs["base"], logs["better"], *words)
    assert ended.code == 2
    assert said in ended.err


def test_options_of_logs_are_not_those_of_commands() -> None:
    ended = bestarm("gate", "true", "--baseline", "true", "--at-most", "time=2x", "--range", "accuracy=0..1")
    assert (ended.code, "--range: is for logs" in ended.err) == (2, True)
    assert "--baseline: state the command to compare with" in bestarm("gate", "true", "--at-most", "time=2x").err
