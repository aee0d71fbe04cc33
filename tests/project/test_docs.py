"""What the documents show, runs."""

from __future__ import annotations

import dataclasses
import linecache
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from benchmarks import figures, noises
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.study.files.exchange import tell_results
from bestarm.study.files.sheets import write_blank_sheet

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "examples").glob("**/*.md")),
]
ALONE = [ROOT / "docs" / "how-to" / "add-a-noise.md"]
"""They change what the rest of a process computes with: once used, a noise is known to its kernels for good."""


def code_blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_blocks_run_in_order(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if document in ALONE:
        program = tmp_path / "program.py"
        program.write_text("\n".join(code_blocks(document)), encoding="utf-8")
        subprocess.run([sys.executable, program], check=True, timeout=PATIENCE)
        return
    module = types.ModuleType("document")
    # What annotations name is looked up there.
    monkeypatch.setitem(sys.modules, "document", module)
    for number, block in enumerate(code_blocks(document)):
        # As notebooks do, so that the source of a kernel can be found.
        name = f"<{document.name} {number}>"
        linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
        exec(compile(block, name, "exec"), module.__dict__)


def test_there_are_code_blocks_to_run() -> None:
    assert sum(len(code_blocks(document)) for document in DOCUMENTS) >= 2


def type_tutorial(name: str, folder: Path) -> str:
    """Save the files of a tutorial and type its commands, as a reader would, and return what they print.

    Blocks with a title are files, or commands that are not typed here, such as those that install.
    """
    text = (ROOT / "docs" / "tutorials" / name).read_text(encoding="utf-8")
    for title, content in re.findall(
        r'^```\w+ title="([^"]+\.[^"]+)"\n(.*?)^```', text, flags=re.DOTALL | re.MULTILINE
    ):
        (folder / title).write_text(content, encoding="utf-8")
    commands = re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.torture
def test_the_python_tutorial_in_a_terminal(tmp_path: Path) -> None:
    said = type_tutorial("python.md", tmp_path)
    answer = ba.Study.open("cache", storage=tmp_path / "lab.db").answer
    assert answer is not None
    assert answer.arm in ("small", "large")
    assert str(answer) in said
    assert (tmp_path / "cache.html").exists()


@pytest.mark.torture
def test_the_tutorial_with_commands(tmp_path: Path) -> None:
    said = type_tutorial("commands.md", tmp_path)
    first, limited, gate = said.split("CERTIFIED: ")[1:]
    assert first.startswith("gzip -1 -c access.log has the lowest mean time")
    assert limited.startswith("xz -1 -c access.log has the lowest mean time of all that meet every limit")
    assert gate.startswith("gzip -1 -c access.log meets every limit")
    assert "exit status 0" in gate


def test_the_tutorial_in_a_lab(tmp_path: Path) -> None:
    said = type_tutorial("lab.md", tmp_path)
    assert "24 tests of buffers written to plate-2.csv" in said
    study = ba.Study.open("buffers", storage=tmp_path / "bestarm.db")
    assert study.status().tests == 48
    # The same again, until there is an answer.
    sheet = tmp_path / "next.csv"
    while tests := study.ask(24):
        with sheet.open("w", encoding="utf-8", newline="") as file:
            write_blank_sheet(study, tests, file)
        subprocess.run([sys.executable, "lab.py", sheet], cwd=tmp_path, check=True)
        tell_results(study, sheet.read_bytes(), sheet.name)
    assert study.answer is not None
    assert study.answer.arm == "HEPES"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in (*re.findall(r"\]\(([^)#]+)[^)]*\)", text), *re.findall(r'<img src="([^"]+)"', text)):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_the_readme_has_the_table_that_its_command_prints() -> None:
    """All of it but what only 2,000 studies of each kind could show."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    head, rule, *rows = figures.table(runs=2)
    assert f"{head}\n{rule}\n" in readme
    assert len(rows) == 5
    for row in rows:
        assert row.partition("**")[0] in readme  # the problem, its size and its bound


def test_what_each_noise_costs_is_as_its_command_prints_it() -> None:
    """The tables' heads and the first column: the figures take minutes."""
    page = (ROOT / "docs" / "how-to" / "state-your-problem.md").read_text(encoding="utf-8")
    for header, left in ((noises.STREAM_HEADER, 1), (noises.SHARE_HEADER, 1), (noises.STUDY_HEADER, 2)):
        assert f"{header}\n{noises.rule(header, left)}\n" in page
    assert f"{noises.ERROR_HEADER}\n" in page
    cases = [truth.label for truth in noises.TRUTHS]
    cases += [share[0] for share in noises.SHARES] + [case[0] for case in noises.ON_THE_THRESHOLD]
    assert [case for case in cases if f"\n| {case} |" not in page] == []


@pytest.mark.parametrize("page", ["measure-several-metrics.md", "compare-on-items.md"])
def test_what_measurements_and_items_save_is_in_the_words_of_its_command(page: str) -> None:
    """The columns' names and those of the rows: the figures take minutes."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    source = (ROOT / "benchmarks" / "measurements.py").read_text(encoding="utf-8")
    tables = re.findall(
        r"(?:^\|.*\n)+", text.partition("## What it saves")[2].partition("\n## ")[0], flags=re.MULTILINE
    )
    assert tables
    for table in tables:
        header, _, *rows = ([cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines())
        named = [*header, *(row[0] for row in rows if not row[0].isdecimal())]
        assert [name for name in named if f'"{name}"' not in source] == []


def test_the_readme_fits_a_screen() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 60
    [code] = code_blocks(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line]) <= 12


def test_the_study_file_page_has_every_key_and_no_other() -> None:
    page = (ROOT / "docs" / "study-file.md").read_text(encoding="utf-8")
    [file] = re.findall(r"^```toml\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    plan = ba.Plan.from_toml(file)
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    study, parts, arms = re.findall(r"^\| key \|.*?\n\n", page, flags=re.DOTALL | re.MULTILINE)

    def keys(table: str) -> set[str]:
        return {key for row in table.strip().splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])}

    def fields(*kinds: type) -> set[str]:
        return {field.name for kind in kinds for field in dataclasses.fields(kind)}

    assert keys(study) == fields(ba.Plan)
    assert keys(parts) == fields(type(plan.objective), type(plan.constraints[0]))
    assert keys(arms) == fields(ba.Arm)
