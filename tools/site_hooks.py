"""What the documentation site has beside the files in docs/: generated pages, and pages for links that leave docs/.

Documents link to each other, to the examples and to source files by relative paths, as a code host shows them. Here the
examples become pages, and so does a source file that a page links to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from site_reference import command_page, http_page, names_page

ROOT = Path(__file__).resolve().parent.parent
_EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
MOVED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/dose_finding.ipynb": "examples/dose-finding.md",
    **{f"examples/{page.parent.name}/README.md": f"examples/{page.parent.name}.md" for page in _EXAMPLES},
}
"""Documents outside of docs/, and the pages that they become."""

GENERATED: dict[str, Callable[[], str]] = {
    "reference/command-line.md": command_page,
    "reference/http.md": http_page,
    "reference/python.md": names_page,
}
_LANGUAGES = {".py": "python", ".toml": "toml", ".js": "javascript", ".css": "css", ".sh": "sh", ".md": "markdown"}
_LINK = re.compile(r"(\]\()([^)#\s]+)([^)]*\))")


def page_of(path: Path) -> str:
    """The page, relative to docs/, on which a file or folder of the repository is shown.

    >>> page_of(ROOT / "docs" / "studies.md"), page_of(ROOT / "CHANGELOG.md"), page_of(ROOT / "tests" / "conftest.py")
    ('studies.md', 'changelog.md', 'source/tests/conftest.py.md')
    """
    name = path.relative_to(ROOT).as_posix()
    if name in MOVED:
        return MOVED[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"source/{name}.md"


def relinked(text: str, path: Path, linked: set[Path] | None = None) -> str:
    """The text of the document at `path`, with links that lead to where files are on the site.

    What lies outside of docs/ and is no document is added to `linked`.
    """
    here = Path(page_of(path)).parent

    def change(match: re.Match[str]) -> str:
        target = match.group(2)
        goal = (path.parent / target).resolve()
        if re.match(r"\w+:", target) or not goal.exists() or not goal.is_relative_to(ROOT):
            return match.group()
        page = page_of(goal)
        if page.startswith("source/") and linked is not None:
            linked.add(goal)
        return f"{match.group(1)}{os.path.relpath(page, here)}{match.group(3)}"

    return _LINK.sub(change, text)


def document(path: Path) -> str:
    """A document as Markdown: a notebook with what its cells printed and drew."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """The richest form of what a cell gave that a page can hold."""
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if "text/html" in data:
        return f"<div>{data['text/html']}</div>"
    if "image/png" in data:
        return f'<img alt="{data["text/plain"].strip("<>")}" src="data:image/png;base64,{data["image/png"].strip()}">'
    return f"```text\n{''.join(output.get('text', ())).rstrip()}\n```"


def source_page(path: Path) -> str:
    """A file, or what a folder holds."""
    name = path.relative_to(ROOT).as_posix()
    # Sources are for those who follow a link, not for the search.
    title = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if path.is_dir():
        return title + "".join(f"- [`{each.name}`]({path.name}/{each.name}.md)\n" for each in _files_in(path))
    text = path.read_text(encoding="utf-8")
    return f"{title}````{_LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n````\n"


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _LANGUAGES)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    linked: set[Path] = set()
    for file in files.documentation_pages():
        relinked(file.content_string, Path(str(file.abs_src_path)), linked)
    for name, page in MOVED.items():
        text = relinked(document(ROOT / name), ROOT / name, linked)
        files.append(File.generated(config, page, content=text))
    for page, make in GENERATED.items():
        files.append(File.generated(config, page, content=make()))
    sources = linked | {each for path in linked if path.is_dir() for each in _files_in(path)}
    for path in sorted(sources):
        files.append(File.generated(config, page_of(path), content=source_page(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links of documents in docs/, which the generated ones have already."""
    if page.file.generated_by is not None:
        return markdown
    return relinked(markdown, Path(page.file.abs_src_path))
