"""Bytes of a SQLite file changed at random: what is read must be right, or refused in one honest line.

SQLite's pages have no checksums. A changed byte inside a stored number makes another number, which nobody can tell from
the right one. How often that happens is counted, but does not count as our fault.
"""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

import bestarm as ba
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.study.files.exchange import write_csv, write_json
from tests.torture.deeds import PROBLEM, plan
from tests.torture.results import Row

RESULTS = 300


def new_database(path: Path, rng: random.Random) -> None:
    """A closed database with a study of a few hundred results."""
    study = ba.Study.create(plan("damaged", "certify", "issue"), storage=path, seed=0)
    arms, metrics = PROBLEM.arm_names, PROBLEM.metrics
    for k in range(10):
        study.add([(rng.choice(arms), rng.choice(metrics), rng.gauss(0.0, 1.0)) for _ in range(RESULTS // 10)])
        study.tell(study.ask(1, lease=1000.0)[0], float(k))
    study.storage.close()


def reading(path: Path) -> str:
    """Everything that a study says, as text that can be compared."""
    storage = open_storage(path)
    try:
        study = ba.Study.open("damaged", storage=storage)
        key = study.record.key
        parts: list[object] = [study.status().to_dict(), study.answer, storage.studies(), storage.log(key)]
        parts += [list(storage.history(key)), study.pending(), study.unresolved(), study.awaited()]
        for write in (write_csv, write_json):
            out = io.StringIO()
            write(study, out)
            parts.append(out.getvalue())
        return repr(parts)
    finally:
        storage.close()


def changed(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some changed: a few anywhere, or a sector of zeros or of noise."""
    damaged = bytearray(data)
    kind = rng.randrange(3)
    if kind == 0:
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(len(damaged))] ^= rng.randint(1, 255)
    else:
        first = rng.randrange(len(damaged) // 512) * 512
        damaged[first : first + 512] = bytes(512) if kind == 1 else rng.randbytes(512)
    return bytes(damaged)


def run(row: Row, folder: Path, rng: random.Random, times: int, until: float) -> Counter[str]:
    """Damage a database again and again, and count the outcomes."""
    whole = folder / "whole.db"
    new_database(whole, rng)
    data, right = whole.read_bytes(), reading(whole)
    path, came = folder / "damaged.db", Counter[str]()
    while row.goes_on(times, until):
        row.times += 1
        for rest in folder.glob("damaged.db*"):
            rest.unlink()
        path.write_bytes(changed(data, rng))
        try:
            said = reading(path)
            came["read right" if said == right else "read as something else"] += 1
        except (StorageError, ba.InvalidInput) as error:
            came["refused"] += 1
            if "\n" in str(error):
                row.complain("stuck", f"not one line: {error}")
        except Exception as error:
            row.complain("stuck", f"{type(error).__name__}: {error}"[:300])
    return came
