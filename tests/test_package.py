"""The package as somebody gets it: built, installed into an environment of its own, and tried there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import bestarm

ROOT = Path(__file__).parent.parent
STUDY = """
name = "caches"
[objective]
metric = "latency"
goal = "minimize"
noise = { gaussian = 2.0 }
[[constraints]]
metric = "crash"
at_most = 0.2
noise = "bernoulli"
[[arms]]
name = "small"
[[arms]]
name = "large"
"""


def environment() -> dict[str, str]:
    """Without what would let the installed program find this checkout."""
    hidden = ("PYTHONPATH", "BESTARM_DB", "NUMBA_CACHE_DIR")
    return {**{name: value for name, value in os.environ.items() if name not in hidden}, "COLUMNS": "120"}


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """The source archive, and the wheel that is made from it alone. Without isolation nothing is downloaded."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    [archive], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel; what it depends on is borrowed from this one."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check")
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        *quiet,
        "--no-deps",
        "--no-index",
        wheel,
        cwd=wheel.parent,
    )
    # Folders named in a .pth file come last, and their own .pth files, which would lead to this checkout, are not read.
    [site] = folder.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text("\n".join({sysconfig.get_path(kind) for kind in ("purelib", "platlib")}))
    return folder


def test_built_installed_and_tried(tmp_path: Path, needs: Callable[[str], None]) -> None:
    needs("build")
    needs("hatchling")
    archive, wheel = build(tmp_path)

    with tarfile.open(archive) as tar:
        sources = {name.partition("/")[2] for name in tar.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "tests/test_package.py", "docs/studies.md"}
    assert wanted <= sources
    with zipfile.ZipFile(wheel) as zipped:
        shipped = {name for name in zipped.namelist() if not re.match(r"bestarm-[^/]*\.dist-info/", name)}
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "bestarm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == ours
    assert {"bestarm/py.typed", "bestarm/web/static/index.html", "bestarm/web/static/js/main.js"} <= shipped

    home = install(wheel, tmp_path / "home")
    program, python = home / "bin" / "bestarm", home / "bin" / "python"
    where = run(python, "-c", "import bestarm; print(bestarm.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    assert run(program, "--version", cwd=tmp_path) == f"bestarm {bestarm.__version__}\n"

    simulated = json.loads(run(program, "simulate", "exp1-a", "--runs", "5", "--json", cwd=tmp_path))
    assert simulated["answers"] == {"arm 5": 5}

    (tmp_path / "caches.toml").write_text(STUDY)
    run(program, "new", "caches.toml", "--db", "lab.db", cwd=tmp_path)
    tests = json.loads(run(program, "ask", "caches", "-n", "4", "--db", "lab.db", "--json", cwd=tmp_path))
    assert {(test["arm"], test["metric"]) for test in tests} <= {
        (a, m) for a in ("small", "large") for m in ("latency", "crash")
    }
    for test in tests:
        value = "0" if test["metric"] == "crash" else "7.5"
        run(program, "tell", "caches", str(test["id"]), value, "--db", "lab.db", cwd=tmp_path)
    status = json.loads(run(program, "status", "caches", "--db", "lab.db", "--json", cwd=tmp_path))
    assert (status["state"], status["tests"]) == ("running", len(tests))

    health = json.loads(run(program, "doctor", "--db", "lab.db", "--json", cwd=tmp_path))
    assert health["broken"] == 0
    details = {part["part"]: part["detail"] for part in health["parts"]}
    assert details["bestarm"].startswith(f"{bestarm.__version__} in {home}")
    assert details["database"] == "lab.db holds 1 study"
    assert details["dashboard"].endswith(str(Path(where.strip()).parent / "web" / "static"))


def test_metadata_says_what_there_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for extra, needed in extras.items():
        for own in re.findall(r"bestarm\[([\w,-]+)\]", " ".join(needed)):
            assert set(own.split(",")) <= set(extras), extra
    assert "Typing :: Typed" in project["classifiers"]
    assert project["classifiers"] == sorted(project["classifiers"])
    assert (ROOT / "src" / "bestarm" / "py.typed").is_file()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {bestarm.__version__}\n" in citation
    assert "cff-version: 1.2.0\n" in citation
