"""`python -m tests.torture`: try everything, print the table; status 1 if anything was lost or doubled."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.tools.postgres import PostgresServer, find_postgres
from tests.torture import crashes, damage, disks, files, kills, workers
from tests.torture.deeds import DEEDS
from tests.torture.results import Row, table, write
from tests.torture.trials import Trials

KILLS = 1000
MINUTES = 30.0
SHORT = 1.1
_LEAST = 20.0
_PAGE = Path("docs/reliability.md")


class Part(NamedTuple):
    """One fault on one database: its share of the time, how often it is tried, and how."""

    row: Row
    share: float
    times: int
    run: Callable[[Row, int, float], str | None]


def _lots(seed: int, row: Row) -> random.Random:
    return random.Random(f"{seed} {row.fault} {row.database}")


def _workers(row: Row, url: str, folder: Path, seed: int, times: int, until: float) -> None:
    seconds = until - time.monotonic()
    if seconds < _LEAST:
        print("  too short a time to bring a study to its answer")
        return
    found = workers.run(url, folder / "acknowledged", times, seed=seed, seconds=seconds, patience=seconds + 600.0)
    row.times = found.killed
    for kind, text in found.wrong:
        row.complain(kind, text)


def _disks(row: Row, folder: Path, rng: random.Random, times: int, until: float) -> None:
    kinds: list[disks.Kind] = ["limit"]
    (folder / "mounted").mkdir(parents=True)
    if disks.can_mount(folder / "mounted"):
        kinds.append("full")
    else:
        print("  no small file system can be mounted here: a limit on the size of files stands for it")
    while row.goes_on(times, until):
        place = folder / str(row.times)
        place.mkdir()
        wrong = disks.run(kinds[row.times % len(kinds)], place, 600.0, rng.randrange(120_000, 250_000))
        row.times += 1
        for kind, text in wrong:
            row.complain(kind, text)


def parts(folder: Path, server: PostgresServer | None, kill_count: int, seed: int) -> list[Part]:
    """Everything that is tried, in order."""

    def trials(row: Row, url: str, remote: bool = False) -> Trials:
        return Trials(row, url, _lots(seed, row), crashes.REMOTE if remote else DEEDS)

    def path(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name

    def lite_in(name: str) -> str:
        return str(path(name) / "studies.db")

    def damaged(row: Row, times: int, until: float) -> str:
        came = damage.run(row, path("damage"), _lots(seed, row), times, until)
        return ", ".join(f"{what} {count:,} times" for what, count in sorted(came.items()))

    lite, post = "SQLite", "PostgreSQL"
    few = max(kill_count // 10, 5)
    found = [
        Part(
            Row("process killed in a call", lite), 0.25, kill_count,
            lambda row, times, until: kills.run(trials(row, lite_in("kills")), times, until),
        ),
        Part(
            Row("one of four workers killed", lite), 0.05, kill_count // 5,
            lambda row, times, until: _workers(row, lite_in("workers"), folder / "workers", seed, times, until),
        ),
        Part(
            Row("campaign killed as it writes", "files"), 0.03, kill_count,
            lambda row, times, until: files.run(row, path("files"), _lots(seed, row), times, until),
        ),
        Part(
            Row("disk full", lite), 0.07, few // 2,
            lambda row, times, until: _disks(row, folder / "disks", _lots(seed, row), times, until),
        ),
        Part(Row("bytes of the file changed", lite), 0.05, kill_count, damaged),
        Part(
            Row("request cut off", "HTTP service on SQLite"), 0.06, 2 * few,
            lambda row, times, until: crashes.break_requests(
                trials(row, lite_in("http"), remote=True), times, until, silent=False
            ),
        ),
        Part(
            Row("service silent", "HTTP service on SQLite"), 0.04, few,
            lambda row, times, until: crashes.break_requests(
                trials(row, lite_in("silent"), remote=True), times, until, silent=True
            ),
        ),
    ]  # fmt: skip
    if server is None:
        return found

    def new_trials(row: Row) -> Trials:
        return trials(row, server.new_database())

    return [
        *found,
        Part(
            Row("process killed in a call", post), 0.25, kill_count,
            lambda row, times, until: kills.run(new_trials(row), times, until),
        ),
        Part(
            Row("one of four workers killed", post), 0.05, kill_count // 5,
            lambda row, times, until: _workers(row, server.new_database(), path("workers pg"), seed, times, until),
        ),
        Part(
            Row("connection cut", post), 0.05, 2 * few,
            lambda row, times, until: crashes.break_lines(new_trials(row), server, times, until, silent=False),
        ),
        Part(
            Row("server silent", post), 0.04, few,
            lambda row, times, until: crashes.break_lines(new_trials(row), server, times, until, silent=True),
        ),
        Part(
            Row("server killed or stopped at once", post), 0.06, few,
            lambda row, times, until: crashes.crash_servers(new_trials(row), server, times, until),
        ),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help="on each database; other faults in proportion")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="at most, shared out among the faults")
    parser.add_argument("--short", action="store_true", help=f"the same with {SHORT:g} minutes, for every change")
    parser.add_argument("--seed", type=int, default=None, help="to try the same again")
    parser.add_argument("--only", default="", help="faults whose names hold this text")
    parser.add_argument("--write", type=Path, nargs="?", const=_PAGE, default=None, help=f"into a page, {_PAGE}")
    options = parser.parse_args()
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    minutes = SHORT if options.short else options.minutes
    programs = find_postgres()
    print(f"seed {seed}, at most {minutes:g} minutes" + ("" if programs else "; no PostgreSQL server on this machine"))
    began = time.monotonic()
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bestarm-torture-") as name:
        server = None if programs is None else PostgresServer(programs)
        try:
            chosen = [part for part in parts(Path(name), server, options.kills, seed) if options.only in part.row.fault]
            _run(chosen, began + 60.0 * minutes, notes)
        finally:
            if server is not None:
                server.close()
    rows = [part.row for part in chosen]
    text = "\n".join([table(rows), "", *notes])
    print(f"\n{text}\n\n{time.monotonic() - began:.0f} s, seed {seed}")
    for complaint in [complaint for row in rows for complaint in row.complaints][:50]:
        print(complaint, file=sys.stderr)
    if options.write is not None:
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        write(options.write, f"{text}\n\nMeasured on {day} in {time.monotonic() - began:,.0f} s, seed {seed}.")
    return int(any(row.is_bad for row in rows))


def _run(chosen: list[Part], end: float, notes: list[str]) -> None:
    """One after the other. Time that one does not use goes to the next ones."""
    shares = sum(part.share for part in chosen)
    for part in chosen:
        now = time.monotonic()
        until = now + max(end - now, 0.0) * part.share / shares
        shares -= part.share
        print(f"{part.row.fault}, {part.row.database} …", flush=True)
        note = part.run(part.row, part.times, until)
        if note:
            notes.append(f"{part.row.fault.capitalize()}: {note}.")
        print(f"  {part.row.times:,} times in {time.monotonic() - now:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
