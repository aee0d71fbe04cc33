"""The package as a user gets it: built, installed into an environment of its own, and tried there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import bestarm
from bestarm.storage.sql import schema

ROOT = Path(__file__).parents[2]
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
    hidden = ("PYTHONPATH", "BESTARM_DB", "BESTARM_CACHE_DIR")
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


def pythons() -> dict[str, Path]:
    """The Pythons of this machine that are new enough, by version: this one, those on the path, and those of pyenv."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {here: Path(sys.executable)}
    for minor in range(11, 30):
        on_path = shutil.which(f"python3.{minor}")
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for candidate in [*([Path(on_path)] if on_path else []), *reversed(kept)]:
            # A shim of pyenv may stand for a version that is not chosen.
            if f"3.{minor}" not in found and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
                found[f"3.{minor}"] = candidate
    return found


def install(wheel: Path, folder: Path, python: Path) -> Path:
    """A new environment of that Python with the wheel. This Python's borrows what the wheel depends on; others get it
    from the package index."""
    run(python, "-m", "venv", "--without-pip", folder, cwd=wheel.parent)
    is_this = python == Path(sys.executable)
    options = ["--no-deps", "--no-index"] if is_this else []
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    run(*pip, "install", "--quiet", "--disable-pip-version-check", *options, wheel, cwd=wheel.parent)
    if is_this:
        # Folders named in a .pth file come last. Their own .pth files, which would lead to this checkout, are not read.
        [site] = folder.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text("\n".join({sysconfig.get_path(kind) for kind in ("purelib", "platlib")}))
    return folder


PYTHONS = pythons()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str, str], None]) -> tuple[Path, Path]:
    for part in ("build", "hatchling"):
        if importlib.util.find_spec(part) is None:
            missing(part, part)
    return build(tmp_path_factory.mktemp("dist"))


def files() -> set[str]:
    """What the package consists of."""
    source = ROOT / "src"
    found = (source / "bestarm").rglob("*")
    return {path.relative_to(source).as_posix() for path in found if path.is_file() and "__pycache__" not in path.parts}


def test_a_wheel_would_hold_every_file(missing: Callable[[str, str], None]) -> None:
    """The short form of building, installing and trying it."""
    if importlib.util.find_spec("hatchling") is None:
        missing("hatchling", "hatchling")
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    wheel = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert wheel == files()
    # Of what tests use, only the conformance suites are shipped.
    suites = {name.split("/")[2] for name in wheel if name.startswith("bestarm/testing/")}
    parts = {"announcing.py", "error_rates.py", "noise_streams.py", "replays.py"}
    assert suites == {"__init__.py", "noises.py", "policies.py", "storages"} | parts
    sources = {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    # The description of the project is added when the archive is made.
    assert wanted() - {"pyproject.toml"} <= sources


def wanted() -> set[str]:
    return {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CITATION.cff",
        "tests/project/test_package.py",
        "docs/studies.md",
    }


@pytest.mark.torture
def test_the_archives_are_whole(built: tuple[Path, Path], missing: Callable[[str, str], None]) -> None:
    archive, wheel = built
    with tarfile.open(archive) as tar:
        sources = {name.partition("/")[2] for name in tar.getnames()}
    assert wanted() <= sources
    with zipfile.ZipFile(wheel) as zipped:
        shipped = {name for name in zipped.namelist() if not re.match(r"bestarm-[^/]*\.dist-info/", name)}
    assert shipped == files()
    assert {"bestarm/py.typed", "bestarm/web/static/index.html", "bestarm/web/static/js/main.js"} <= shipped
    if importlib.util.find_spec("twine") is None:
        missing("twine", "twine")
    run(sys.executable, "-m", "twine", "check", "--strict", archive, wheel, cwd=wheel.parent)


@pytest.mark.torture
@pytest.mark.parametrize("version", PYTHONS)
def test_built_installed_and_tried(
    version: str, tmp_path: Path, built: tuple[Path, Path], missing: Callable[[str, str], None]
) -> None:
    _, wheel = built
    if PYTHONS[version] != Path(sys.executable):
        _check_index(tmp_path, missing)
    home = install(wheel, tmp_path / "home", PYTHONS[version])
    program, python = home / "bin" / "bestarm", home / "bin" / "python"
    where = run(python, "-c", "import bestarm; print(bestarm.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    assert run(program, "--version", cwd=tmp_path) == f"bestarm {bestarm.__version__} (schema {schema.VERSION})\n"

    run(program, "race", "true", "--runs", "10", "--export-json", "race.json", cwd=tmp_path)
    [measured] = json.loads((tmp_path / "race.json").read_text())["results"]
    assert len(measured["times"]) == 10
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


def resolve(*wanted: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Let pip find versions of everything, given what is installed here, and install nothing."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--disable-pip-version-check", *wanted]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=600, check=False)


def _check_index(folder: Path, missing: Callable[[str, str], None]) -> None:
    if resolve("--ignore-installed", "--no-deps", "tomli-w", cwd=folder).returncode != 0:
        missing("index", "a package index that pip can reach")


@pytest.mark.torture
@pytest.mark.parametrize("left_out", ["cuda", "cuda12"])
def test_extras_resolve_together_and_so_does_each_alone(
    left_out: str, built: tuple[Path, Path], tmp_path: Path, missing: Callable[[str, str], None]
) -> None:
    """Versions that suit all of them suit each of them. Two releases of CUDA do not fit together."""
    _check_index(tmp_path, missing)
    _, wheel = built
    with zipfile.ZipFile(wheel) as zipped:
        [name] = [name for name in zipped.namelist() if name.endswith(".dist-info/METADATA")]
        extras = re.findall(r"^Provides-Extra: (.*)$", zipped.read(name).decode(), flags=re.MULTILINE)
    assert {"ax", "cuda", "cuda12", "dev", "examples", "optuna", "postgres", "web"} <= set(extras)
    # With the other release, what suits all has been found already: then only that release is looked at.
    chosen = "cuda12" if left_out == "cuda" else ",".join(extra for extra in extras if extra != left_out)
    done = resolve(f"bestarm[{chosen}] @ {wheel.as_uri()}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr
    # And a requirement that cannot be met is noticed.
    refused = resolve(f"bestarm[frame] @ {wheel.as_uri()}", "numpy<1.26", cwd=tmp_path)
    assert refused.returncode != 0
    assert "ResolutionImpossible" in refused.stderr


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


def test_the_conda_recipe_asks_for_the_same(missing: Callable[[str, str], None]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    file = ROOT / "deploy" / "conda" / "recipe.yaml"
    recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == bestarm.__version__
    wanted = [f"python {project['project']['requires-python']}", *project["project"]["dependencies"]]
    assert [Requirement(one) for one in recipe["requirements"]["run"]] == [Requirement(one) for one in wanted]
    assert {*project["build-system"]["requires"]} <= {one.replace(" ", "") for one in recipe["requirements"]["host"]}
    [(name, function)] = project["project"]["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {function}"]
    if importlib.util.find_spec("rattler_build") is None:
        missing("rattler_build", "py-rattler-build")
    from rattler_build import Stage0Recipe

    [rendered] = Stage0Recipe.from_file(file).render()
    assert (rendered.recipe.package.name, rendered.recipe.package.version) == ("bestarm", bestarm.__version__)
