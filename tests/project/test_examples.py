"""The examples run, in a short form: every part of them is real but the number of tests."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bestarm as ba

EXAMPLES = Path(__file__).parents[2] / "examples"
Needs = Callable[[str], None]


def run(example: str, *options: str, folder: Path, warnings: str = "error") -> str:
    """What the example says; it must end well."""
    ended = subprocess.run(
        [sys.executable, "-W", warnings, str(EXAMPLES / example), *options],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parts("postgresql")
def test_database(tmp_path: Path) -> None:
    plan = ba.Plan.load(EXAMPLES / "database" / "indexes.toml")
    (tmp_path / "short.toml").write_text(dataclasses.replace(plan, budget=ba.Budget(tests=18)).to_toml())
    said = run("database/indexes.py", "--rows", "1000", "--plan", "short.toml", folder=tmp_path)
    assert "bestarm serve --db indexes.db" in said
    study = ba.Study.open("indexes", storage=tmp_path / "indexes.db")
    assert study.done
    assert str(study.answer) in said
    tests = {row.name: [metric.tests for metric in row.metrics] for row in study.state}
    assert all(min(row) > 0 for row in tests.values()), tests
    assert not [event for event in study.log() if event.kind == "failed"]
    assert "query latency" in (tmp_path / "indexes.html").read_text(encoding="utf-8")


@pytest.mark.parts("sklearn")
def test_models(tmp_path: Path) -> None:
    said = run("models/choose.py", "--tests", "24", folder=tmp_path)
    study = ba.Study.open("models", storage=tmp_path / "models.db")
    assert study.done
    assert str(study.answer) in said
    assert not [event for event in study.log() if event.kind == "failed"]


@pytest.mark.parametrize(
    ("example", "study", "answer", "out"),
    [
        ("compressors/compressors.py", "compressors", "bzip2 -9", {"gzip -1", "gzip -6", "xz -1"}),
        ("plates/plates.py", "plates", "F3", set()),
        ("prompts/prompts.py", "prompts", "with examples", {"step by step"}),
        ("signup-page/signup_page.py", "signup page", "shorter form", {"countdown"}),
        pytest.param(
            *("hyperparameters/hyperparameters.py", "hyperparameters", "80 trees", {"1,000 trees"}),
            marks=pytest.mark.parts("sklearn"),
        ),
    ],
)
def test_small_ones(tmp_path: Path, example: str, study: str, answer: str, out: set[str]) -> None:
    """Wrong, and so a false failure, hardly ever: what is asked is far from its limits."""
    said = run(example, folder=tmp_path)
    [database] = tmp_path.glob("*.db")
    found = ba.Study.open(study, storage=database)
    assert found.answer is not None
    assert str(found.answer) in said
    # Also where the machine is so busy that times drift, which voids the guarantee of those that are measured.
    assert found.answer.arm == answer
    assert {row.name for row in found.state if row.verdict == "infeasible"} >= out
    lines = (EXAMPLES / example).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60


def test_formulations(tmp_path: Path) -> None:
    said = run("formulations/formulations.py", "--tests", "120", folder=tmp_path)
    answer = ba.Study.open("formulations", storage=tmp_path / "formulations.db").answer
    assert answer is not None
    assert answer.state == "budget_spent"
    assert str(answer) in said
    assert " of 8 arms are decided" in str(answer)


@pytest.mark.torture
@pytest.mark.parametrize(("delta", "confidence"), [("0.0001", "99.99")])
def test_judges(tmp_path: Path, delta: str, confidence: str) -> None:
    said = run("judges/judges.py", "--seconds", "0", "--delta", delta, folder=tmp_path)
    assert "simulated" in said.splitlines()[0]
    assert f"feasible within its slack and within 0.1 of the best, with {confidence}% confidence" in said
    # Wrong, and so a false failure, with probability at most 0.0001.
    assert "large, long prompt: feasible" in said
    study = ba.Study.open("assistants", storage=tmp_path / "judges.db")
    told = [event for event in study.log() if event.kind == "told"]
    assert {len(event.more) for event in told} == {2}  # beside the first of three values
    assert {event.item is None for event in told} == {False}


@pytest.mark.parts("inspect_ai")
def test_judges_on_inspect(tmp_path: Path) -> None:
    # inspect_ai itself uses what is deprecated.
    said = run("judges/with_inspect.py", "--budget", "40", folder=tmp_path, warnings="default")
    study = ba.Study.open("assistants on inspect_ai", storage=tmp_path / "judges.db")
    assert study.done
    assert str(study.answer) in said
    assert (study.status().tests, study.status().pending) == (40, 0)


@pytest.mark.torture
@pytest.mark.parametrize("delta", ["0.05"])
def test_what_the_same_questions_save(tmp_path: Path, delta: str) -> None:
    said = run("judges/judges.py", "--compare", "--studies", "1", "--delta", delta, folder=tmp_path)
    _, head, _, *table = said.splitlines()
    readme = (EXAMPLES / "judges" / "README.md").read_text(encoding="utf-8")
    assert head in readme
    assert [row for row in table if row.split(" | ")[0] not in readme] == []
    assert len(table) == 3


@pytest.mark.parts("nbclient", "ipykernel")
def test_dose_finding(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(EXAMPLES / "dose_finding.ipynb", as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if cell.cell_type == "code"
    )
    assert "150 mg: feasible and best, with 95% confidence" in printed
