"""Whether this checkout is fit to be released: `python tools/release.py 1.0.0`. Prints all that is in the way.

It changes nothing and publishes nothing. Exit status 0 if nothing is in the way, else 1.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]

FIGURES = ("README.md", "docs/peers.md", "docs/delta-table.md", "docs/gpu.md", "docs/reproduction", "docs/pictures")
"""Files of measured figures and pictures of screens."""

MOST_DAYS = 180
"""Days after which figures are measured anew, or looked at and committed again."""

BUILT = (
    ("the documents", [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", "{folder}/site"]),
    ("the packages", [sys.executable, "-m", "build", "--no-isolation", "--outdir", "{folder}/dist"]),
    ("the packages' descriptions", [sys.executable, "-m", "twine", "check", "--strict", "{folder}/dist/*"]),
)


def faults_in_files(root: Path, version: Version, today: datetime.date) -> Iterator[str]:
    """What the files say that does not suit a release of that version."""
    source = (root / "src/bestarm/__init__.py").read_text(encoding="utf-8")
    [named] = re.findall(r'^__version__ = "(.*)"$', source, flags=re.MULTILINE)
    if named != str(version):
        yield f"src/bestarm/__init__.py: __version__ is {named!r}"
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading, _, rest = changes.partition("\n## ")[2].partition("\n")
    dated = re.fullmatch(r"(\S+) \((\d{4}-\d{2}-\d{2})\)", heading)
    if dated is None or dated[1] != str(version):
        yield f"CHANGELOG.md: the first heading is {heading!r}; it must be '{version} (YYYY-MM-DD)'"
    elif datetime.date.fromisoformat(dated[2]) > today:
        yield f"CHANGELOG.md: {dated[2]} is in the future"
    if "\n### Upgrading" not in rest.partition("\n## ")[0]:
        yield "CHANGELOG.md: the release has no section 'Upgrading'"
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    cited = citation.get("version"), str(citation.get("date-released"))
    if dated is not None and cited != (str(version), dated[2]):
        yield f"CITATION.cff: version and date-released are {cited[0]} and {cited[1]}"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = "5 - Production/Stable" if version.major else "3 - Alpha"
    if f"Development Status :: {wanted}" not in project["classifiers"]:
        yield f"pyproject.toml: the classifiers do not say {wanted!r}"


def faults_in_history(root: Path, version: Version, today: datetime.date) -> Iterator[str]:
    """What stands in the way in the repository: work that is not committed, a later release, old figures."""
    if changed := _git(root, "status", "--porcelain"):
        yield f"git: {len(changed.splitlines())} files are not committed"
    if (branch := _git(root, "branch", "--show-current")) != "main":
        yield f"git: the branch is {branch!r}; releases are made from main"
    for tag in _git(root, "tag").split():
        try:
            if Version(tag) >= version:
                yield f"git: there is a release {tag}"
        except InvalidVersion:
            continue
    for figures in FIGURES:
        changed = _git(root, "log", "-1", "--format=%cs", "--", figures)
        age = (today - datetime.date.fromisoformat(changed)).days if changed else None
        if age is None or age > MOST_DAYS:
            yield f"{figures}: {'is not in git' if age is None else f'its figures are {age} days old'}"


def faults_in_builds(root: Path) -> Iterator[str]:
    """What cannot be built."""
    with tempfile.TemporaryDirectory() as folder:
        for what, command in BUILT:
            words = [word.replace("{folder}", folder) for word in command]
            if words[-1].endswith("*"):
                words[-1:] = [str(path) for path in Path(words[-1]).parent.glob("*")]
            done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
            if done.returncode:
                yield f"{what}: {' '.join(words[1:4])} failed\n{done.stdout}{done.stderr}"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        print("usage: python tools/release.py MAJOR.MINOR.PATCH", file=sys.stderr)
        return 2
    version, today = Version(sys.argv[1]), datetime.datetime.now(tz=datetime.UTC).date()
    faults = [*faults_in_files(ROOT, version, today), *faults_in_history(ROOT, version, today)]
    faults += faults_in_builds(ROOT)
    for fault in faults:
        print(fault)
    if not faults:
        tags = f"git tag {version}, git tag --force v{version.major} for workflows"
        print(f"{version} can be released: .ci/run, {tags}, and upload what `python -m build` makes.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
