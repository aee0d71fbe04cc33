"""What the service returns, as the OpenAPI description states it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from bestarm import answer
from bestarm.analysis.health import notes
from bestarm.analysis.standing import knowledge
from bestarm.analysis.standing.arms import ArmStanding, MetricStanding
from bestarm.analysis.standing.terms import Share
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import UNSAID, Status
from bestarm.client import ProjectLine, StudyLine
from bestarm.client.answers import NULLS
from bestarm.storage.base import Event, Pending
from bestarm.storage.tokens import Role
from bestarm.web.access import Through
from bestarm.web.inputs import Values

Model = TypeVar("Model", bound=BaseModel)


class Complaint(BaseModel):
    """One thing that is wrong: the field at fault, what was given if that is short, why, and the choices.

    `sentence` has all of it, as people are shown it.
    """

    field: str | None
    value: str | float | bool | Values | None = None
    reason: str
    choices: list[str]
    sentence: str


class ErrorDetail(BaseModel):
    """What is wrong: the field at fault, if it is one, and the reason in a sentence.

    `kind` names the mistake for programs: "malformed" if the request is not as described here, whatever studies there
    are; "invalid" if the study or the plan does not go with it; "not found", "name taken", "already told", "refused
    value" …
    `complaints` splits the sentence, so that each part can be shown at its field.
    """

    field: str | None
    reason: str
    kind: str
    complaints: list[Complaint]


class Error(BaseModel):
    """The answer to a request that cannot be fulfilled."""

    error: ErrorDetail


class Visitor(BaseModel):
    """Who a caller is: the name of their token, if they have one, what it allows, and how they showed it.

    `role` is the highest that they have in any project; `/api/projects` has that in each.
    """

    name: str | None
    role: Role
    through: Through


class Nothing(BaseModel):
    """The request is fulfilled and there is nothing to add."""

    model_config = ConfigDict(extra="forbid")


class Released(BaseModel):
    """The tests that were freed."""

    model_config = ConfigDict(extra="forbid")

    released: list[int]


class Copied(BaseModel):
    """A study in a backup: its name, its rows, and the digest of its part of the file."""

    name: str
    rows: int
    digest: str


class Restored(BaseModel):
    """The studies that were restored. Of all studies, also those whose names were taken, which stay as they were, and
    those among them whose records are not as in the file."""

    studies: list[Copied]
    there: list[str]
    differ: list[str]


class Health(BaseModel):
    """That the service is there, its version, and whether it wants a token."""

    version: str
    token: bool


class Probe(BaseModel):
    """How the service is: `alive` or `ready`."""

    status: str


def _fields_of(
    kind: type, *, without: str = "", optional: Collection[str] = ()
) -> Callable[[type[Model]], type[Model]]:
    """Adds the fields of a data class or named tuple to a model that does not have them yet. All of them but
    `optional` ones are always there; where JSON has no number for what they say, they are null."""

    def add(model: type[Model]) -> type[Model]:
        known, nulls = {*model.model_fields, without}, NULLS.get(kind, {})
        fields: dict[str, Any] = {
            name: (hint | None, None) if name in optional else (hint | None if name in nulls else hint, ...)
            for name, hint in get_type_hints(kind).items()
            if name not in known
        }
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **fields)

    return add


@_fields_of(StudyLine)
class StudyRow(BaseModel):
    """One line of the list of studies. What the results say is null while it is being computed.

    `left` is how many arms can still be the answer; `answered` are those of the answer, and `claim` says what was
    certified of them, if it is not that one arm is feasible and best; `decided` says how many arms are decided, where
    every feasible arm is asked for; `slack` says whether any constraint has one.
    `guarantee` is "void" if the results contradict what it rests on, which `void_because` says. `error` says why a
    study cannot be read; what its plan says is null then, if it is the plan that cannot be.
    """


@_fields_of(ProjectLine)
class Project(BaseModel):
    """A project, the caller's role in it, and how many studies it has that are not archived, and that are."""


@_fields_of(Share)
class ShareBeyond(BaseModel):
    """The share of results beyond a quantile constraint's threshold, its interval, and what it must stay below."""


@_fields_of(MetricStanding)
class Metric(BaseModel):
    """One metric of one arm. `mean`, `low`, `high` and `threshold` are those of its `statistic`: mean or quantile."""

    share: ShareBeyond | None


@_fields_of(ArmStanding)
class Arm(BaseModel):
    """Where an arm stands, and why."""

    metrics: list[Metric]


@_fields_of(answer.Difference)
class Difference(BaseModel):
    """By how much the answer, or the leader, is better than an arm: measured, and at least and at most."""


@_fields_of(knowledge.OpenQuestion)
class OpenQuestion(BaseModel):
    """What the likeliest answer still lacks. `tests` is about how many more it takes; null if no end is in sight."""


@_fields_of(answer.Answer, without="reasons")
class Conclusion(BaseModel):
    """What the study concluded, as `bestarm.Answer` has it. Every arm has its reason under `arms` of the status."""

    differences: dict[str, Difference]


@_fields_of(notes.HealthNote, without="door")
class HealthNote(BaseModel):
    """What the results contradict, or a hint. `sentence` has all of it, and what to do."""

    sentence: str


@_fields_of(notes.Health)
class DataHealth(BaseModel):
    """How many things are checked in the results of a study, and what was found, the gravest first."""

    notes: list[HealthNote]


@_fields_of(Outlook)
class Forecast(BaseModel):
    """Tests and cost still to come; null where the simulation or the budget ended first, or it is too early to say.

    `at_budget` is the share of simulated studies that the budget ended without an answer.
    """


class ResultWords(BaseModel):
    """What results of a metric are: what to type, in a word or two, and what is assumed of them.

    They lie between `low` and `high`; null where there is no limit. `words` stand for 0 and 1 where people type them.
    """

    hint: str
    sentence: str
    low: float | None
    high: float | None
    words: dict[str, float] = {}


class Measured(BaseModel):
    """What one test of an arm yields: its name, its metrics, and their places, from 0, in the lists of each arm. Scores
    of judges have none."""

    name: str
    metrics: list[str]
    places: list[int]
    cost: float


@_fields_of(Status, without="outlook", optional=UNSAID)
class StudyStatus(BaseModel):
    """Where a study stands. `version` changes whenever something is recorded.

    `measured` has what tests there are of an arm, and `about_tests` says in sentences which of them yield several
    metrics, and what items they are made on. `seed` is that of the study's random choices, `items_seed` that of the
    random order of its items. `guarantee` is "void" if the results contradict what it rests on, which `void_because`
    says. Otherwise it "holds", or is "none" if no answer is certified.
    """

    id: int
    version: str
    arms: list[Arm]
    open: list[OpenQuestion]
    health: DataHealth
    seed: int
    plan: dict[str, Any]
    question: str
    about_tests: list[str]
    measured: list[Measured]
    results: dict[str, ResultWords]
    about_intervals: str
    about_means: str
    answer_text: str | None
    conclusion: Conclusion | None
    created: float
    archived: float | None
    project: str


_MORE: dict[str, Any] = {
    "metrics": Field(
        default_factory=list, description="What it yields. Only there if a test of the study yields several."
    ),
    "item": Field(default=None, description="What it is measured on. Only there in a study with items."),
    "place": Field(default=None, description="Of the item in the study's order, from 0. Only there with items."),
}
"""What is said of tests only in studies that need it, so that clients which know nothing of it can use the others."""


class TestToMake(BaseModel):
    """Measure `metric` of `arm` once, and tell the result under this id.

    If one test yields several metrics, `metrics` are their names, and `metric` names them all.
    """

    __test__ = False

    id: int
    arm: str
    metric: str
    metrics: list[str] = _MORE["metrics"]
    item: str | None = _MORE["item"]


class Asked(BaseModel):
    """Tests to make. None and not done: wait for results that are out."""

    tests: list[TestToMake]
    done: bool


class Done(BaseModel):
    """Whether the study has its answer, or has spent its budget."""

    done: bool


class Told(BaseModel):
    """How many results were recorded; of a file also how many the study had already, and tests without a value."""

    told: int
    known: int = 0
    skipped: int = 0


class Added(BaseModel):
    """The test ids assigned to the results."""

    ids: list[int]


@_fields_of(Pending)
class PendingTest(BaseModel):
    """A test without a result, and who holds it; times in epoch seconds.

    `expires` is 0 if it is free, null if its holder keeps it until they tell it, else when their next heartbeat is
    overdue. `aside` says how its attempt ended, as long as it is not known what that counts as.
    """

    arm: str
    metric: str
    expires: float | None
    metrics: list[str] = _MORE["metrics"]
    item: str | None = _MORE["item"]
    place: int | None = _MORE["place"]


class WaitingResult(TestToMake):
    """A result that is recorded, and counts when those of earlier tests or items, or of the rest of its block, are
    there."""

    place: int | None = _MORE["place"]
    held: bool = Field(default=False, description="Whether it waits for the turn of its item. Only there if it does.")
    values: dict[str, float] = Field(description="By metric.")


@_fields_of(Event, without="more")
class LogEntry(BaseModel):
    """Something that happened in a study. If a test has several metrics, `values` has the results and `value` none."""

    kind: str
    arm: str | None
    metric: str | None
    values: dict[str, float] | None = Field(
        default=None, description="By metric. Only there if a test of the study yields several."
    )
    metrics: list[str] = _MORE["metrics"]
    item: str | None = _MORE["item"]
    place: int | None = _MORE["place"]


class Allowed(BaseModel):
    """What a study may use in all; null for what is not limited."""

    tests: float | None
    cost: float | None
    blocks: float | None = None
    hours: float | None = None


class Progress(BaseModel):
    """Results and their cost, summed up over time (epoch seconds)."""

    time: list[float]
    tests: list[int]
    cost: list[float | None]
