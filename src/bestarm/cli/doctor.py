"""`bestarm doctor`: what is installed, what works, and how to get what is missing."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

import bestarm
from bestarm.cli.shared.arguments import AsJson, Database
from bestarm.cli.shared.command import command
from bestarm.cli.shared.opening import Place
from bestarm.cli.shared.show import counted, new_table, plain_console, print_json
from bestarm.errors import InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PartState = Literal["ok", "absent", "broken"]
_SIGNS: dict[PartState, str] = {"ok": "✓", "absent": "–", "broken": "✗"}
_FOR_DEVELOPERS = ("dev", "docs")
_IMPORTED_AS = {"ax-platform": "ax", "numba-cuda": "numba.cuda", "scikit-learn": "sklearn"}
"""Distributions whose module is not named like them, with underscores."""


@command(place=70)
def doctor(db: Database = None, as_json: AsJson = False) -> None:
    """Say what is installed, what works, and how to get what is missing; status 1 if something is broken."""
    findings = list(examine(db))
    broken = sum(finding.state == "broken" for finding in findings)
    if as_json:
        parts = [dataclasses.asdict(finding) for finding in findings]
        print_json({"version": bestarm.__version__, "broken": broken, "parts": parts})
    else:
        table = new_table("", "part", "what was found")
        for finding in findings:
            remedy = "" if finding.remedy is None or finding.state == "ok" else f"\n→ {finding.remedy}"
            table.add_row(_SIGNS[finding.state], finding.part, shown(finding.detail) + remedy)
        console = plain_console()
        console.print(table)
        console.print(f"\n{broken} broken" if broken else "\nNothing that is installed is broken.")
    if broken:
        raise typer.Exit(1)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One part. Absent means never installed. Broken means installed but not working."""

    part: str
    state: PartState
    detail: str
    remedy: str | None = None


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]


def examine(db: str | None = None) -> Iterator[Finding]:
    """Every part in turn. No study is made or changed."""
    import platform
    from importlib.metadata import PackageNotFoundError, metadata

    from packaging.requirements import Requirement

    yield Finding("bestarm", "ok", f"{bestarm.__version__} in {Path(bestarm.__file__).parent}")
    yield Finding("Python", "ok", f"{platform.python_version()} ({platform.platform()}), {sys.executable}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("cores", "ok", f"{cores} of {os.cpu_count()} may be used")
    try:
        about = metadata("bestarm")
    except PackageNotFoundError:
        remedy = "pip install . in the folder with pyproject.toml"
        yield Finding("packages", "broken", "bestarm runs from a folder and is not installed", remedy)
    else:
        requirements = [Requirement(line) for line in about.get_all("Requires-Dist") or ()]
        # If something that bestarm itself needs is missing, bestarm is broken.
        yield from (_package(needed, if_missing="broken") for needed in _needed(requirements, extra=""))
        yield from _extras(requirements, about.get_all("Provides-Extra") or [])
    yield from _plugins()
    yield _dashboard()
    yield _card()
    yield _database(db)
    yield _kernels()


def _needed(requirements: list[Requirement], *, extra: str) -> list[Requirement]:
    """What an extra needs, or with "" what bestarm itself needs."""

    def applies(requirement: Requirement, extra: str) -> bool:
        return requirement.marker is None or requirement.marker.evaluate({"extra": extra})

    return [each for each in requirements if applies(each, extra) and not (extra and applies(each, ""))]


def _package(requirement: Requirement, *, if_missing: PartState = "absent") -> Finding:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    name, limits = requirement.name, str(requirement.specifier)
    remedy = f"pip install '{name}{limits}'"
    try:
        version = version_of(name)
    except PackageNotFoundError:
        return Finding(name, if_missing, "is not installed", remedy)
    if not requirement.specifier.contains(version, prereleases=True):
        return Finding(name, "broken", f"{version} is installed; {limits} is needed", remedy)
    try:
        importlib.import_module(_IMPORTED_AS.get(name, name.replace("-", "_")))
    except Exception as error:  # whatever a package that does not fit its neighbors raises
        reason = f"{version} is installed and cannot be loaded: {_first_line(error)}"
        return Finding(name, "broken", reason, f"pip install --force-reinstall {name}")
    return Finding(name, "ok", version)


def _extras(requirements: list[Requirement], names: list[str]) -> Iterator[Finding]:
    """What the extras need. Extras that need the same distributions (for two releases of CUDA) are reported as one."""
    alike: dict[tuple[tuple[str, str], ...], tuple[list[Requirement], list[str]]] = {}
    for extra in names:
        if extra not in _FOR_DEVELOPERS:
            needed = _needed(requirements, extra=extra)
            same = tuple((each.name, str(each.specifier)) for each in needed)
            alike.setdefault(same, (needed, []))[1].append(extra)
    for needed, extras in alike.values():
        part = "extra " + ", ".join(extras)
        remedy = " or ".join(f"pip install 'bestarm[{extra}]'" for extra in extras)
        found = [_package(each) for each in needed]
        missing = [each for each in found if each.state == "absent"]
        broken = [each for each in found if each.state == "broken"]
        if missing:
            # A neighbor that is too new is broken only for those who use the extra.
            yield Finding(part, "absent", f"without {', '.join(each.part for each in missing)}", remedy)
        elif broken:
            yield Finding(part, "broken", "; ".join(f"{each.part} {each.detail}" for each in broken), remedy)
        else:
            yield Finding(part, "ok", ", ".join(f"{each.part} {each.detail}" for each in found))


def _plugins() -> Iterator[Finding]:
    from bestarm.cli.app.discovery import command_plugins
    from bestarm.noises.registry import noise_plugins
    from bestarm.plugins import GROUPS, plugins
    from bestarm.policies import policy_plugins

    # These also check that it is a policy, a noise or a command.
    checked = {
        "bestarm.policies": policy_plugins,
        "bestarm.noises": noise_plugins,
        "bestarm.commands": command_plugins,
    }
    for group, kind in GROUPS.items():
        found = checked[group]() if group in checked else plugins(group)
        for name, plugin in found.items():
            if error := plugin.error:
                remedy = (
                    f"reinstall or fix the package that has {plugin.entry.value}, or uninstall it; nothing else is "
                    "affected"
                )
                yield Finding(f"{kind} {name}", "broken", f"{plugin.source} cannot be used: {error}", remedy)
            else:
                yield Finding(f"{kind} {name}", "ok", plugin.source)


def _dashboard() -> Finding:
    static = Path(bestarm.__file__).parent / "web" / "static"
    files = sum(path.is_file() for path in static.rglob("*"))
    if not (static / "index.html").is_file():
        return Finding("dashboard", "broken", f"no pages in {static}", "reinstall bestarm")
    return Finding("dashboard", "ok", f"{counted(files, 'file')} in {static}")


def _card() -> Finding:
    from bestarm.simulation.device import why_no_card

    reason = why_no_card()
    if reason is not None:
        remedy = None
        if importlib.util.find_spec("numba_cuda") is None:
            reason = "numba-cuda is not installed"
            remedy = "pip install 'bestarm[cuda]' (for CUDA 12: 'bestarm[cuda12]')"
        broken = reason.startswith("numba-cuda cannot")
        return Finding("GPU", "broken" if broken else "absent", reason, remedy)
    try:
        from numba import config, cuda

        if config.ENABLE_CUDASIM:
            return Finding("GPU", "ok", "simulated by plain Python (NUMBA_ENABLE_CUDASIM)")
        device = cuda.get_current_device()
        name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
        memory = cuda.current_context().get_memory_info()
        capability = ".".join(map(str, device.compute_capability))
        detail = (
            f"{name}, compute capability {capability}, {memory.free / 2**30:.0f} of {memory.total / 2**30:.0f} GiB free"
        )
    except Exception as error:  # a driver that is there and fails
        return Finding("GPU", "broken", f"a card was found and does not answer: {_first_line(error)}")
    return Finding("GPU", "ok", detail)


def _database(db: str | None) -> Finding:
    """Whether the database that commands use by default can be reached."""
    from bestarm.storage.address import shown_address
    from bestarm.storage.errors import NoStudiesYet, StorageError
    from bestarm.storage.opening import default_url, is_missing_file, is_service, open_storage
    from bestarm.study.record.checks import why_unreadable

    url = default_url() if db is None else db
    if is_service(url):
        return _service(url)
    try:
        if is_missing_file(url):
            folder = Path(url).absolute().parent
            if os.access(folder, os.W_OK):
                return Finding("database", "ok", f"{url} will be made by the first study")
            path = "give --db or set BESTARM_DB to a path in a folder of yours"
            return Finding("database", "broken", f"{url} is not there and {folder} cannot be written", path)
        with contextlib.closing(open_storage(url, upgrade=False)) as storage:
            records = storage.studies()
    except NoStudiesYet:
        return Finding("database", "ok", f"{shown_address(url)} can be reached and holds no studies yet")
    except (InvalidInput, StorageError) as error:
        return Finding("database", "broken", str(error), "see the message; --db or BESTARM_DB name another")
    holds = f"{storage.url} holds {counted(len(records), 'study', 'studies')}"
    # Archived studies do no harm.
    faults = [why for record in records if record.archived is None and (why := why_unreadable(record))]
    if faults:
        several = f", and {len(faults) - 3:,} more" if len(faults) > 3 else ""
        detail = f"{holds}, of which {len(faults):,} cannot be read: {'; '.join(faults[:3])}{several}"
        remedy = "`bestarm archive STUDY` puts such a study away; the others are not affected"
        return Finding("database", "broken", detail, remedy)
    return Finding("database", "ok", holds)


def _service(url: str) -> Finding:
    """Whether the service that commands use in place of a database can be reached, with the token at hand."""
    from bestarm.storage.errors import StorageError

    try:
        client = Place(db=url).client()
        assert client is not None
        with client:
            there = len(client.studies(archived=True))
    except (InvalidInput, StorageError) as error:
        return Finding("service", "broken", str(error), "check the address in BESTARM_DB, and BESTARM_TOKEN")
    return Finding("service", "ok", f"{url} can be reached and has {counted(there, 'study', 'studies')}")


def _kernels() -> Finding:
    """Where compiled kernels are kept. Without a place for them, every process compiles them again."""
    part = "compiled kernels"
    try:
        from bestarm.kernel.compile import cache_places
        from bestarm.simulation.loop import simulate_runs

        places = cache_places(simulate_runs)
    except Exception as error:  # llvmlite cannot be loaded
        return Finding(part, "broken", f"cannot be made: {_first_line(error)}", "reinstall bestarm")
    used = next((place for place in places if place.objection is None), None)
    if used is None:
        detail = f"nothing is kept, so every process compiles them again: {'; '.join(str(p.objection) for p in places)}"
        worst = next((place for place in places if place.is_open), places[-1])
        return Finding(part, "broken", detail, worst.remedy)
    kept = [path for path in used.folder.rglob("*.native") if path.is_file()]
    size = sum(path.stat().st_size for path in kept) / 1e6
    found = f"{used.folder} can be written; {counted(len(kept), 'file')}, {size:.1f} MB"
    unused = "".join(f"; nothing is kept in {p.folder}, because {p.objection}" for p in places if p.is_open)
    return Finding(part, "ok", f"{found}{unused}")
