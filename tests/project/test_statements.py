"""The numbered statements in docs/certificates: each is there once, in order, and every reference leads to one.

A statement is "Lemma N.1": N is the letter of its page, which the table in index.md names. Numbers without a letter,
such as "Theorem 1", are those of papers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "certificates"
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
CODE = [path for name in ("src", "benchmarks", "tests", "tools") for path in sorted((ROOT / name).rglob("*.py"))]

KINDS = "Lemma|Theorem|Proposition"
DEFINITION = re.compile(rf'<a id="([^"]*)"></a>\*\*({KINDS}) ([A-Z]\.\d+)\*\* \([^)]+\)\. ')
LABEL = r"\[?[A-Z]\.\d+(?:\]\([^)]*\))?"
PLURAL = {"Lemmas": "Lemma", "Theorems": "Theorem", "Propositions": "Proposition"}
MENTION = re.compile(
    rf"\b(?P<kind>{KINDS}|{'|'.join(PLURAL)})\s+(?P<labels>{LABEL}(?:(?:,|,?\s+(?:and|or|to))\s+{LABEL})*)"
    r"(?:\]\([^)]*\))?(?:\s+in\s+`docs/certificates/(?P<page>\w+)\.md`)?"
)
LINK = re.compile(rf"\[(?:(?:{KINDS})\s+)?(?P<label>[A-Z]\.\d+)\]\((?P<page>[^)#]*)#(?P<anchor>[^)]*)\)")


@dataclass(frozen=True)
class Statement:
    kind: str
    page: Path
    anchor: str


def definitions(page: Path) -> list[tuple[str, Statement]]:
    found = DEFINITION.findall(page.read_text(encoding="utf-8"))
    return [(label, Statement(kind, page, anchor)) for anchor, kind, label in found]


PAGES = sorted(FOLDER.glob("*.md"))
STATEMENTS = dict(pair for page in PAGES for pair in definitions(page))


def references_that_fail(text: str, path: Path) -> Iterator[str]:
    """What is said of a statement that does not exist, of one of another kind, or of one on another page."""
    for match in MENTION.finditer(text):
        kind = PLURAL.get(match["kind"], match["kind"])
        for label in re.findall(r"\b[A-Z]\.\d+\b", re.sub(r"\]\([^)]*\)", "", match["labels"])):
            statement = STATEMENTS.get(label)
            if statement is None or statement.kind != kind:
                yield f"{path.name}: no {kind} {label}"
            elif match["page"] not in (None, statement.page.stem):
                yield f"{path.name}: {label} is in {statement.page.name}"
    for match in LINK.finditer(text):
        statement = STATEMENTS.get(match["label"])
        goal = Path(os.path.normpath(path.parent / match["page"])) if match["page"] else path
        if statement is None or (goal, match["anchor"]) != (statement.page, statement.anchor):
            yield f"{path.name}: {match.group()} leads elsewhere"


def test_there_are_statements() -> None:
    assert len(PAGES) > 12
    assert len(STATEMENTS) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_numbers_on_a_page_go_up_without_gaps(page: Path) -> None:
    found = definitions(page)
    letters = {label.partition(".")[0] for label, _ in found}
    assert len(letters) <= 1
    assert [label for label, _ in found] == [f"{letter}.{k}" for letter in letters for k in range(1, len(found) + 1)]
    for label, statement in found:
        assert statement.anchor == label.replace(".", "").lower()


def test_each_statement_is_there_once_and_each_letter_has_one_page() -> None:
    labels = [label for page in PAGES for label, _ in definitions(page)]
    assert len(labels) == len(set(labels)) == len(STATEMENTS)
    letters = {(label[0], statement.page) for label, statement in STATEMENTS.items()}
    assert len(letters) == len({letter for letter, _ in letters})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_looks_like_a_statement_is_numbered(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(rf"\*\*(?:{KINDS}|Claim|Corollary)\b", text)) == len(definitions(page))
    assert re.findall(r"\b(?:Lemma|Proposition|Claim)s? [0-9A-Z]\b(?!\.\d)", text) == []


def test_the_table_of_pages_has_every_page_with_its_letter() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]|–) \| \[[^]]+\]\((\w+)\.md\) \|", index, flags=re.MULTILINE)
    letters = {statement.page.stem: label[0] for label, statement in STATEMENTS.items()}
    assert {name: letter for letter, name in rows} == {
        page.stem: letters.get(page.stem, "–") for page in PAGES if page.stem != "index"
    }
    assert letters["index"] == "C"


def test_references_in_documents_are_links_to_statements() -> None:
    failed: list[str] = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        failed += references_that_fail(text, path)
        plain = LINK.sub("", DEFINITION.sub("", text))
        failed += (f"{path.name}: {match} is no link" for match in re.findall(rf"\b(?:{KINDS})s?\s+[A-Z]\.\d+", plain))
    assert failed == []


def test_references_in_code_lead_to_statements() -> None:
    failed: list[str] = []
    followed = 0
    for path in CODE:
        text = path.read_text(encoding="utf-8")
        if path == Path(__file__) or not re.search(rf"(?:{KINDS})s?\s+[A-Z]\.\d|docs/certificates/", text):
            continue
        followed += len(MENTION.findall(text))
        failed += references_that_fail(text, path)
        failed += [name for name in re.findall(r"docs/certificates/\w+\.md", text) if not (ROOT / name).exists()]
    assert failed == []
    assert followed > 20


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Lemma C.2", "no Lemma C.2"),
        ("Theorem X.1", "no Theorem X.1"),
        ("Propositions K.1, K.3 and\n    K.99 hold", "no Proposition K.99"),
        ("Propositions [K.1](known.md#k1) and [K.98](known.md#k98)", "no Proposition K.98"),
        ("Theorem C.2 in `docs/certificates/known.md`", "C.2 is in index.md"),
        ("[Theorem C.2](known.md#c2)", "leads elsewhere"),
        ("[Theorem C.2](index.md#c1)", "leads elsewhere"),
        ("Theorem C.2 in\n`docs/certificates/index.md`, Theorem 1 and [Theorem C.2](index.md#c2)", None),
    ],
)
def test_what_leads_nowhere_is_found(text: str, fault: str | None) -> None:
    failed = list(references_that_fail(text, FOLDER / "pairs.md"))
    assert any(fault in each for each in failed) if fault else failed == []
