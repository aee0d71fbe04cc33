"""Everything that writes to a study, each with a way to find in the record how often it was done.

A deed is marked by a number of its own. The number is in the name of whoever does it, and in the values that they tell.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import bestarm as ba
from bestarm.problem import Plan
from bestarm.storage.errors import NameTaken, SourceTaken
from bestarm.storage.opening import open_storage
from bestarm.study.files.backup import restore_backup, write_backup, write_backup_of_all
from bestarm.study.files.exchange import import_results
from tests.torture.seen import Seen

PROBLEM = ba.Problem(
    arms=("safe", "bold", "poor"),
    objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
    constraints=(ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0)),),
)
DECISIVE = {"safe": (5.0, -5.0), "bold": (9.0, 5.0), "poor": (0.0, -5.0)}
"""Results that make "safe" the answer. All others are so close to 0 that they decide nothing."""

LONG = 1000.0
"""Seconds that a test is held for: longer than any trial takes."""

TORN = -1
"""Only a part of something that should be done as a whole is there."""


class Place(Protocol):
    """Where deeds are done: a study here or on a server, the same study in another name, and a way to make another."""

    @property
    def study(self) -> Any: ...

    @property
    def other(self) -> Any: ...

    def create(self, name: str) -> object: ...


Facts = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Deed:
    """A call that writes."""

    name: str
    prepare: Callable[[Place, random.Random, int], Facts]
    """Prepares the deed. Returns what `do` and `found` need, as plain data."""
    do: Callable[[Place, Facts], object]
    """The call itself. If it is repeated with the same facts, it must count once."""
    found: Callable[[Seen, Facts], int]
    """How often it is in the record."""
    lasts: bool = True
    """Whether it is still found after other deeds."""
    has_own_key: bool = False
    """Whether the study itself makes up the key by which a repeat is recognized."""


def value(mark: int, place: int = 0) -> float:
    """A value that no other deed tells. It is too small to decide anything."""
    return mark * 1e-7 + place * 1e-10


def holder(mark: int) -> str:
    return f"worker {mark}"


def _same(counts: Sequence[int]) -> int:
    """How often several things that belong together were done."""
    return counts[0] if len(set(counts)) == 1 else TORN


def _asked(place: Place, count: int) -> list[int]:
    tests = place.study.ask(count, lease=LONG)
    assert tests, "a study that goes on must have tests to make"
    return [test.id for test in tests]


# ------------------------------------------------------------------------------------------------- one by one


def _prepare_create(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"name": f"made {mark}"}


def _create(place: Place, facts: Facts) -> object:
    try:
        return place.create(facts["name"])
    except NameTaken:
        # Whoever repeats it finds that it was made. That is an answer, too.
        return None


def _prepare_ask(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"n": rng.randint(1, 3), "key": f"key {mark}", "holder": holder(mark)}


def _ask(place: Place, facts: Facts) -> object:
    return [test.id for test in place.study.ask(facts["n"], lease=LONG, key=facts["key"])]


def _found_asked(seen: Seen, facts: Facts) -> int:
    held = sum(row.holder == facts["holder"] and row.expires > 0.0 for row in seen.pending)
    # As many as were asked for, or fewer if a round must end first. More would mean that it was done twice.
    return 0 if held == 0 else 1 if held <= facts["n"] else 2


def _prepare_tell(place: Place, rng: random.Random, mark: int) -> Facts:
    [test] = _asked(place, 1)
    return {"test": test, "value": value(mark)}


def _tell(place: Place, facts: Facts) -> object:
    return place.study.tell(facts["test"], facts["value"])


def _found_told(seen: Seen, facts: Facts) -> int:
    return seen.outcomes(facts["test"]).count(facts["value"])


def _prepare_many(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"results": [[test, value(mark, k)] for k, test in enumerate(_asked(place, 4))]}


def _tell_many(place: Place, facts: Facts) -> object:
    return place.study.tell_many([(test, number) for test, number in facts["results"]])


def _found_many(seen: Seen, facts: Facts) -> int:
    return _same([seen.outcomes(test).count(number) for test, number in facts["results"]])


def _prepare_add(place: Place, rng: random.Random, mark: int, count: int = 3) -> Facts:
    arms, metrics = PROBLEM.arm_names, PROBLEM.metrics
    rows = [[rng.choice(arms), rng.choice(metrics), value(mark, k)] for k in range(count)]
    return {"rows": rows, "key": f"key {mark}"}


def _add(place: Place, facts: Facts) -> object:
    return list(place.study.add([tuple(row) for row in facts["rows"]], key=facts["key"]))


def _found_added(seen: Seen, facts: Facts) -> int:
    return _same([seen.given[number] for _, _, number in facts["rows"]])


def _prepare_import(place: Place, rng: random.Random, mark: int) -> Facts:
    return _prepare_add(place, rng, mark, rng.choice([20, 60, 200]))


def _import(place: Place, facts: Facts) -> object:
    lines = [f"{arm},{metric},{number!r}" for arm, metric, number in facts["rows"]]
    try:
        return import_results(place.study, "\n".join(["arm,metric,value", *lines]).encode(), "a file").results
    except SourceTaken:
        return None


@functools.cache
def _backup() -> str:
    """A study of some hundred rows, as a file."""
    study = ba.Study.create(plan("copied", "certify", "issue"), storage=":memory:", seed=0)
    study.add([(arm, metric, 0.0) for arm in PROBLEM.arm_names for metric in PROBLEM.metrics for _ in range(25)])
    out = io.StringIO()
    write_backup(study.storage, study.record, out)
    return out.getvalue()


def _prepare_copy(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"name": f"copy {mark}"}


def _copy(place: Place, facts: Facts) -> object:
    try:
        return restore_backup(place.study.storage, io.BytesIO(_backup().encode()), "a file", name=facts["name"])
    except NameTaken:
        # All of it is there, or it would not be.
        return None


def _prepare_copies(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"names": [f"copy {mark} {which}" for which in ("one", "two")]}


def _copies(place: Place, facts: Facts) -> object:
    """Those that are there already are left out, so a repeat counts once."""
    with contextlib.closing(open_storage(":memory:", create=True)) as kept:
        for name in facts["names"]:
            restore_backup(kept, io.BytesIO(_backup().encode()), "a file", name=name)
        out = io.StringIO()
        write_backup_of_all(kept, out)
    return restore_backup(place.study.storage, io.BytesIO(out.getvalue().encode()), "a file")


def _found_copies(seen: Seen, facts: Facts) -> int:
    return _same([seen.names.count(name) for name in facts["names"]])


def _prepare_correct(place: Place, rng: random.Random, mark: int) -> Facts:
    [test] = _asked(place, 1)
    place.study.tell(test, value(mark, 1))
    return {"test": test, "value": value(mark)}


def _correct(place: Place, facts: Facts) -> object:
    return place.study.correct(facts["test"], facts["value"], "misread")


def _prepare_one(place: Place, rng: random.Random, mark: int) -> Facts:
    [test] = _asked(place, 1)
    return {"test": test, "holder": holder(mark), "reason": f"reason {mark}"}


def _abandon(place: Place, facts: Facts) -> object:
    return place.study.abandon(facts["test"], facts["reason"])


def _set_aside(place: Place, facts: Facts) -> object:
    return place.study.set_aside(facts["test"], facts["reason"])


def _fail(place: Place, facts: Facts) -> object:
    return place.study.fail(facts["test"], facts["reason"])


def _prepare_release(place: Place, rng: random.Random, mark: int) -> Facts:
    """Somebody else's test, because freeing one's own is not noted."""
    [test] = place.other.ask(1, lease=LONG)
    return {"test": test.id, "holder": holder(mark)}


def _release(place: Place, facts: Facts) -> object:
    return place.study.release([facts["test"]])


def _prepare_release_all(place: Place, rng: random.Random, mark: int) -> Facts:
    tests = place.other.ask(2, lease=LONG)
    return {"tests": [test.id for test in tests], "held_by": place.other.holder, "holder": holder(mark)}


def _release_all(place: Place, facts: Facts) -> object:
    return place.study.release_held_by(facts["held_by"])


def _found_released(seen: Seen, facts: Facts) -> int:
    return _same([seen.noted["released", test, facts["holder"]] for test in facts["tests"]])


def _renew(place: Place, facts: Facts) -> object:
    return place.study.renew([facts["test"]], lease=100 * LONG)


def _found_renewed(seen: Seen, facts: Facts) -> int:
    return sum(row.id == facts["test"] and row.expires > seen.now + 10 * LONG for row in seen.pending)


def _times(place: Place, kind: str) -> int:
    return sum(event.kind == kind for event in place.study.log())


def _prepare_extend(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"test": None, "holder": holder(mark)}


def _extend(place: Place, facts: Facts) -> object:
    return place.study.extend(tests=1)


def _prepare_archive(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"kind": "archived", "before": _times(place, "archived")}


def _prepare_move(place: Place, rng: random.Random, mark: int) -> Facts:
    return {"kind": "moved", "before": _times(place, "moved"), "project": f"project {mark}"}


def _prepare_restore(place: Place, rng: random.Random, mark: int) -> Facts:
    place.study.archive()
    return {"kind": "restored", "before": _times(place, "restored")}


def _found_since(seen: Seen, facts: Facts) -> int:
    before: int = facts["before"]
    return sum(count for (kind, _, _), count in seen.noted.items() if kind == facts["kind"]) - before


def _noted(kind: str) -> Callable[[Seen, Facts], int]:
    return lambda seen, facts: seen.noted[kind, facts["test"], facts["holder"]]


DEEDS = (
    Deed("create", _prepare_create, _create, lambda seen, facts: seen.names.count(facts["name"])),
    Deed("ask", _prepare_ask, _ask, _found_asked, lasts=False),
    Deed("tell", _prepare_tell, _tell, _found_told),
    Deed("tell many", _prepare_many, _tell_many, _found_many),
    Deed("add", _prepare_add, _add, _found_added),
    Deed("import", _prepare_import, _import, _found_added),
    Deed("copy", _prepare_copy, _copy, lambda seen, facts: seen.names.count(facts["name"])),
    Deed("copy all", _prepare_copies, _copies, _found_copies),
    Deed("correct", _prepare_correct, _correct, _found_told),
    Deed("abandon", _prepare_one, _abandon, lambda seen, facts: seen.outcomes(facts["test"]).count(None)),
    Deed("set aside", _prepare_one, _set_aside, _noted("set aside"), has_own_key=True),
    Deed("fail", _prepare_one, _fail, _noted("failed"), has_own_key=True),
    Deed("release", _prepare_release, _release, _noted("released"), has_own_key=True),
    Deed("release held by", _prepare_release_all, _release_all, _found_released, has_own_key=True),
    Deed("renew", _prepare_one, _renew, _found_renewed, lasts=False),
    Deed("extend", _prepare_extend, _extend, _noted("amended"), has_own_key=True),
    Deed("archive", _prepare_archive, lambda place, facts: place.study.archive(), _found_since, lasts=False),
    Deed("move", _prepare_move, lambda place, facts: place.study.move(facts["project"]), _found_since, lasts=False),
    Deed("restore", _prepare_restore, lambda place, facts: place.study.archive(undo=True), _found_since, lasts=False),
)


def plan(name: str, policy: str, order: str) -> Plan:
    # A budget that is never spent, and can be extended.
    made = Plan.of(PROBLEM, name=name, policy=policy, delta=1e-6, budget=10**6)
    return dataclasses.replace(made, order=order)  # type: ignore[arg-type]
