"""The service's answers as what a local study returns."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from bestarm.analysis.health.notes import Health
from bestarm.analysis.standing.arms import MetricStanding
from bestarm.analysis.standing.knowledge import OpenQuestion
from bestarm.analysis.standing.terms import Share
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status, StudyState
from bestarm.answer import Answer, Difference, Guarantee
from bestarm.storage.base import Event, Pending
from bestarm.storage.projects import DEFAULT_PROJECT
from bestarm.storage.tokens import Role
from bestarm.study.intake.names import Test
from bestarm.texts import ARM

T = TypeVar("T")

NULLS: dict[type, dict[str, float]] = {
    Answer: {"cost": math.inf},
    Difference: {"low": -math.inf, "high": math.inf},
    MetricStanding: {"mean": math.nan, "low": -math.inf, "high": math.inf},
    OpenQuestion: {"tests": math.inf},
    Outlook: dict.fromkeys(("median_tests", "p90_tests", "median_cost", "p90_cost"), math.inf),
    Share: dict.fromkeys(("value", "low", "high"), math.nan),
    Status: {"cost": math.inf, "tests_left": math.inf},
}
"""JSON has no infinite and no unknown numbers. By data class and field: what null stands for."""


@dataclasses.dataclass(frozen=True)
class StudyLine:
    """A study in the list of studies. What its results say is None while the server computes it.

    `error` says why a study cannot be read; what its plan says is None then, if it is the plan that cannot be.
    """

    id: int
    name: str
    state: StudyState | None
    answer: str | None
    leader: str | None
    confidence: float | None
    tests: int | None
    cost: float | None
    pending: int | None
    created: float
    archived: float | None
    delta: float | None
    policy: str | None
    objective: str | None
    arms: int | None
    metrics: int | None
    tolerance: float | None = 0.0
    slack: bool | None = False
    left: int | None = None
    answered: tuple[str, ...] = ()
    claim: str = ""
    decided: str = ""
    guarantee: Guarantee | None = None
    void_because: tuple[str, ...] = ()
    error: str | None = None
    progress: float | None = None
    arm_word: str | None = ARM
    waiting: int | None = None
    project: str = DEFAULT_PROJECT


@dataclasses.dataclass(frozen=True)
class ProjectLine:
    """A project, the token's role in it, and how many studies it has that are not archived, and that are."""

    name: str
    role: Role
    studies: int
    archived: int


def read(kind: type[T], data: dict[str, Any]) -> T:
    """JSON data as a data class. Fields that it does not know, and those that are computed from others, do not count.

    >>> read(Difference, {"low": None, "high": 0.5})
    Difference(low=-inf, high=0.5, estimate=None)
    """
    found: T = _reader(kind)(data)  # type: ignore[arg-type] # a class is hashable
    return found


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Reads JSON data as a data class, or as what fields of data classes hold: tuples, mappings, optional values."""
    if dataclasses.is_dataclass(kind):
        return _class_reader(kind)
    parts = get_args(kind)
    if type(None) in parts:
        read_some = _reader(parts[0])
        return lambda data: None if data is None else read_some(data)
    if get_origin(kind) is tuple:
        read_item = _reader(parts[0])
        return lambda data: tuple(map(read_item, data))
    if len(parts) == 2 and parts[0] is str:
        read_value = _reader(parts[1])
        return lambda data: {name: read_value(value) for name, value in data.items()}
    return lambda data: data


def _class_reader(kind: Any) -> Callable[[Any], Any]:
    hints, nulls = get_type_hints(kind), NULLS.get(kind, {})
    readers = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind) if field.init}

    def read_fields(data: dict[str, Any]) -> Any:
        given = {name: reader(data[name]) for name, reader in readers.items() if name in data}
        return kind(**given | {name: null for name, null in nulls.items() if name in data and data[name] is None})

    return read_fields


def read_answer(status: dict[str, Any]) -> Answer | None:
    """What a study concludes, by its status; None while it is running."""
    if status["conclusion"] is None:
        return None
    reasons = {arm["name"]: f"{arm['verdict']}: {arm['reason']}" for arm in status["arms"]}
    # Advice is sent in the words of study files.
    warnings = read(Health, status["health"]).warnings
    return read(Answer, status["conclusion"] | {"reasons": reasons, "warnings": warnings})


def read_forecast(data: dict[str, Any]) -> Outlook:
    """Figures that were not reached before the simulation or the budget ended come as null, and so does everything that
    it is too early to say."""
    unknown = dict.fromkeys(NULLS[Outlook], math.nan) if data.get("state") == "too early" else {}
    return read(Outlook, data | unknown)


def read_test(data: dict[str, Any]) -> Test:
    """A test to make, or one that is out. What is usual is not said: one metric, and no item."""
    return Test(data["id"], data["arm"], data["metric"], tuple(data.get("metrics", ())), data.get("item"))


def read_pending(data: dict[str, Any], arm: int, metric: int) -> Pending:
    """A test that is its holder's until they tell it expires at null."""
    plain = {name: data[name] for name in Pending._fields if name in data}
    expires = math.inf if data["expires"] is None else data["expires"]
    return Pending(**plain | {"arm": arm, "metric": metric, "expires": expires, "item": data.get("place")})


def read_event(data: dict[str, Any], arm: int | None, metric: int | None) -> Event:
    """A line of the log."""
    plain = {name: data[name] for name in Event._fields if name in data}
    value, *more = (data.get("values") or {"": data["value"]}).values()
    told = {"value": value, "more": tuple(more)}
    return Event(**plain | told | {"arm": arm, "metric": metric, "item": data.get("place")})
