"""The documentation site: built with warnings as errors; every link leads somewhere; nothing comes from elsewhere.

Whether a page or a link is missing, `make docs` says too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import bestarm as ba
from bestarm.cli.app.discovery import own_commands

ROOT = Path(__file__).parents[2]
PAGES = (
    *("index", "tutorials/commands", "tutorials/python", "tutorials/lab", "concepts", "troubleshooting", "glossary"),
    *("certificates/index", "theory", "delta-table", "examples", "examples/compressors"),
    *("reference/command-line", "reference/http", "reference/python", "reproduction/paper", "how-to/resume"),
    *("examples/database", "examples/models", "examples/judges", "examples/dose-finding", "tuners", "peers"),
)
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
"""What a browser fetches by itself. (A canonical address would be no such link, and there is none.)"""


class Page(HTMLParser):
    """The links, the anchors and the text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                if (tag, name) in LOADED:
                    self.loaded.append(value)


def build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # Not --quiet: what is not said does not count as a warning either.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\nA [link](nowhere.md).\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nhooks: []\nplugins: []\nnav: [index.md]\n")
    done = build(config, tmp_path / "site")
    assert done.returncode != 0
    assert "'nowhere.md', but the target is not found" in done.stderr


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


@pytest.mark.torture
def test_every_link_leads_to_a_page_and_an_anchor(site: Path, pages: dict[Path, Page]) -> None:
    assert {f"{name}.html" for name in PAGES} <= {path.relative_to(site).as_posix() for path in pages}
    lost = []
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            # The page for addresses that are not found is served under any address, so its links are absolute.
            if parts.scheme or path.name == "404.html":
                continue
            followed += 1
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            fragment = unquote(parts.fragment)
            if not goal.is_file() or (fragment and goal in pages and fragment not in pages[goal].anchors):
                lost.append(f"{path.relative_to(site)}: {link}")
    assert lost == []
    assert followed > 1000


@pytest.mark.torture
def test_nothing_is_loaded_from_another_host(pages: dict[Path, Page]) -> None:
    foreign = {link for page in pages.values() for link in page.loaded if urlsplit(link).netloc}
    assert foreign == set()


@pytest.mark.torture
def test_style_sheets_load_nothing_from_another_host(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


@pytest.mark.torture
def test_the_references_are_complete(site: Path, pages: dict[Path, Page]) -> None:
    commands = pages[site / "reference" / "command-line.html"]
    assert {f"bestarm-{name}" for name in own_commands()} <= commands.anchors
    anchors = pages[site / "reference" / "python.html"].anchors
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert [name for name in ba.__all__ if f"ba.{name}" not in python] == []
    assert {f"bestarm.integrations.{name}" for name in ("optuna.from_optuna", "ax.to_ax")} <= anchors
    assert "&gt;&gt;&gt;" in python
    assert "<blockquote>" not in python
    http = (site / "reference" / "http.html").read_text(encoding="utf-8")
    assert all(f"{route}</code>" in http for route in ("POST /api/studies/{study}/tell", "GET /api/health"))


@pytest.mark.torture
def test_the_notebook_is_a_page_with_what_it_showed(site: Path) -> None:
    page = (site / "examples" / "dose-finding.html").read_text(encoding="utf-8")
    assert "150 mg: feasible and best, with 95% confidence" in page
    assert "data:image/png;base64," in page
    assert "ask_patient" in page
