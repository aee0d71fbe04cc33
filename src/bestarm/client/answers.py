"""The service's answers as what a local study returns."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from bestarm.analysis.health.notes import Health, HealthNote
from bestarm.analysis.standing.arms import ArmStanding, MetricStanding
from bestarm.analysis.standing.knowledge import OpenQuestion
from bestarm.analysis.standing.terms import Share
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status, StudyState
from bestarm.analysis.status.waiting import Awaited
from bestarm.answer import Answer, Difference, Guarantee
from bestarm.storage.base import Event, Pending
from bestarm.study.intake.names import Test


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
    guarantee: Guarantee | None = None
    void_because: tuple[str, ...] = ()
    error: str | None = None


def read_status(data: dict[str, Any]) -> Status:
    known = (field.name for field in dataclasses.fields(Status) if field.init and field.name in data)
    plain = _costed({name: data[name] for name in known})
    awaited = None if data["awaited"] is None else Awaited(**data["awaited"])
    health = _health(data)
    lists = {"arms": tuple(map(_arm, data["arms"])), "open": tuple(map(_question, data["open"]))}
    lists["answered"] = tuple(data["answered"])
    return Status(**_listed(plain) | lists | {"awaited": awaited, "health": health})


def read_answer(status: dict[str, Any]) -> Answer | None:
    """What a study concludes, by its status; None while it is running."""
    if status["conclusion"] is None:
        return None
    reasons = {arm["name"]: f"{arm['verdict']}: {arm['reason']}" for arm in status["arms"]}
    data = _listed(_costed(status["conclusion"]))
    differences = {name: read_difference(limits) for name, limits in data["differences"].items()}
    # Advice is sent in the words of study files.
    names = {"warnings": _health(status).warnings, "arms": tuple(data["arms"])}
    names["void_because"] = tuple(data["void_because"])
    del data["guarantee"]
    return Answer(**data | names | {"differences": differences}, reasons=reasons)


def _health(status: dict[str, Any]) -> Health:
    names = [field.name for field in dataclasses.fields(HealthNote) if field.name != "door"]
    found = (HealthNote(**{name: note[name] for name in names}) for note in status["health"]["notes"])
    return Health(status["health"]["checks"], tuple(found))


def read_forecast(data: dict[str, Any]) -> Outlook:
    """Read a forecast. Figures that were not reached before the simulation or the budget ended come as null, and an
    older service sends fewer of them."""
    unknown = math.nan if data.get("state") == "too early" else math.inf
    names = {field.name for field in dataclasses.fields(Outlook)}
    whole: dict[str, Any] = {name: unknown if data[name] is None else data[name] for name in names & data.keys()}
    return Outlook(**whole)


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


def _costed(data: dict[str, Any]) -> dict[str, Any]:
    """A cost beyond all numbers comes as null."""
    return data | {"cost": math.inf if data["cost"] is None else data["cost"]}


def _listed(data: dict[str, Any]) -> dict[str, Any]:
    """With names in tuples, as they are in a local study."""
    return data | {name: tuple(data[name]) for name in ("candidates", "feasible")}


def _question(data: dict[str, Any]) -> OpenQuestion:
    """A question without an end in sight takes null tests."""
    return OpenQuestion(**data | {"tests": math.inf if data["tests"] is None else data["tests"]})


def read_difference(data: dict[str, Any]) -> Difference:
    """A limit that is not there comes as null."""
    low, high = data["low"], data["high"]
    # A service of an earlier version says nothing of what was measured.
    return Difference(-math.inf if low is None else low, math.inf if high is None else high, data.get("estimate"))


def _arm(data: dict[str, Any]) -> ArmStanding:
    return ArmStanding(data["name"], data["verdict"], data["reason"], tuple(map(_metric, data["metrics"])))


def _metric(data: dict[str, Any]) -> MetricStanding:
    """What JSON has no number for comes as null: a mean without results, and ends of intervals without bounds."""
    absent = {"mean": math.nan, "low": -math.inf, "high": math.inf}
    share = data["share"]
    if share is not None:
        unknown = {name: math.nan for name in ("value", "low", "high") if share[name] is None}
        share = Share(**share | unknown)
    return MetricStanding(**data | {"share": share} | {name: absent[name] for name in absent if data[name] is None})
