"""The manuscript in `paper/`: its sources fit together, its tables can be made anew, and with TeX it is built."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from benchmarks import paper
from tests.parts import missing

import bestarm

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "paper"
pytestmark = pytest.mark.skipif(not PAPER.is_dir(), reason="the source archive has no manuscript")
PARTS = ("main", "supplement")
SOURCES = sorted(PAPER.rglob("*.tex"))
FIGURES = sorted(PAPER.rglob("*.pdf"))


def source(path: Path) -> str:
    r"""What TeX reads of a file: without comments. `\%` is no comment."""
    return re.sub(r"(?<!\\)%.*", "", path.read_text(encoding="utf-8"))


def everything() -> str:
    return "".join(map(source, SOURCES))


def arguments(command: str, text: str) -> list[str]:
    r"""What stands in the braces of `\command{a,b}`, also with options before them."""
    found = re.findall(rf"\\{command}\*?(?:\[[^]]*\])*\{{([^}}]*)\}}", text)
    return [part.strip() for one in found for part in one.split(",")]


def unbalanced(text: str) -> Iterator[str]:
    """Braces and environments that are closed though they were not opened, or the other way round."""
    opened: list[str] = []
    for found in re.finditer(r"\\begin\{([^}]*)\}|\\end\{([^}]*)\}|\\.|([{}])", text):
        begins, ends, brace = found.groups()
        if begins or brace == "{":
            opened.append(begins or brace)
        elif (ends or brace) and (not opened or opened.pop() != (ends or "{")):
            yield found[0]
    yield from opened


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_what_is_opened_is_closed(path: Path) -> None:
    assert list(unbalanced(source(path))) == []
    assert source(path).replace(r"\$", "").count("$") % 2 == 0


@pytest.mark.parametrize("text", ["{", "}", r"\begin{a}{}", r"\begin{a}\end{b}", r"\begin{a}{\end{a}}", r"{\}"])
def test_what_is_unbalanced_is_found(text: str) -> None:
    assert list(unbalanced(text))


def test_references_have_one_label_and_labels_are_used_once() -> None:
    labels = Counter(arguments("label", everything()))
    assert [label for label, times in labels.items() if times > 1] == []
    wanted = {*arguments("ref", everything()), *arguments("eqref", everything())}
    assert wanted - labels.keys() == set()


def test_statements_of_the_documentation_exist() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "certificates").glob("*.md"))
    named = set(re.findall(r"\b[A-Z]\.\d+\b", source(PAPER / "supplement.tex")))
    assert len(named) > 10
    assert {number for number in named if f'<a id="{number.replace(".", "").lower()}"></a>' not in pages} == set()


def test_citations_have_an_entry_and_entries_are_cited() -> None:
    entries = re.findall(r"^@\w+\{([^,]+),", (PAPER / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(entries) == len(set(entries))
    in_tex = {key for command in ("cite", "citet", "citep") for key in arguments(command, everything())}
    journal = (PAPER / "paper.md").read_text(encoding="utf-8")
    in_markdown = set(re.findall(r"(?<=[\s\[])@(\w+)", journal.partition("# Summary")[2]))
    assert in_markdown - set(entries) == set()
    assert in_tex | in_markdown == set(entries)


def test_bibliography_is_balanced_and_complete() -> None:
    text = (PAPER / "paper.bib").read_text(encoding="utf-8")
    assert list(unbalanced(text)) == []
    for entry in text.split("\n@")[1:]:
        assert re.search(r"^  author +=", entry, re.MULTILINE)
        assert re.search(r"^  title +=", entry, re.MULTILINE)
        assert re.search(r"^  year +=", entry, re.MULTILINE)


def test_what_is_taken_in_exists_and_is_taken_in() -> None:
    text = everything()
    inputs = {(PAPER / name).with_suffix(".tex") for name in arguments("input", text)}
    pictures = {(PAPER / name).with_suffix(".pdf") for name in arguments("includegraphics", text)}
    assert inputs | {PAPER / f"{part}.tex" for part in PARTS} == set(SOURCES)
    assert pictures == set(FIGURES)


def test_the_benchmark_writes_what_is_taken_in(tmp_path: Path) -> None:
    """The quickest experiment, twice: the same files, of the form that is committed."""
    texts = []
    for place in ("once", "again"):
        paper.main(["--runs", "2", "--only", "scatter", "--out", str(tmp_path / place)])
        texts.append((tmp_path / place / "tables" / "scatter.tex").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert shape(texts[0]) == shape((PAPER / "tables" / "scatter.tex").read_text(encoding="utf-8"))


def shape(table: str) -> str:
    """A table without its figures."""
    return re.sub(r"[\d.,{}]+|--", "0", table)


@pytest.mark.torture
def test_all_experiments_run(tmp_path: Path) -> None:
    paper.main(["--runs", "2", "--out", str(tmp_path)])
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.*")}
    assert written == {path.relative_to(PAPER) for path in PAPER.rglob("*.*") if path.parent != PAPER}


def test_the_citation_file_says_what_the_changelog_says() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == bestarm.__version__
    heading = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
    date = citation.get("date-released", "unreleased")
    assert heading == f"{bestarm.__version__} ({date})"


@pytest.mark.parts("pdflatex")
def test_the_manuscript_is_built(tmp_path: Path) -> None:
    for program in ("bibtex", "make"):
        if shutil.which(program) is None:
            missing("pdflatex", program)
    made = subprocess.run(
        ["make", "paper", f"MANUSCRIPT={tmp_path}"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    for part in PARTS:
        assert (tmp_path / f"{part}.pdf").stat().st_size > 100_000
        log = (tmp_path / f"{part}.log").read_text(encoding="latin-1")
        assert [line for line in log.splitlines() if re.match(r"Overfull|.*(undefined|multiply)", line)] == []
