"""What the service takes and returns, as the OpenAPI description states it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from bestarm.analysis.health.notes import HealthKind, Severity
from bestarm.analysis.standing import Verdict
from bestarm.analysis.status import StudyState
from bestarm.analysis.waiting import Awaited
from bestarm.answer import AnswerState
from bestarm.client import StudyLine
from bestarm.storage.base import Aside
from bestarm.study.checks import LONGEST_LEASE, MOST_DAYS
from bestarm.validation import LONGEST_NAME

MOST_RESULTS = 10_000
"""Results or tests in one request."""

WHOLE = 2**53 - 1
"""The largest whole number that every program reads from JSON as it is."""

TestId = Annotated[int, Field(ge=1, le=WHOLE, strict=True, description="The number of a test, as ask returned it.")]
Value = Annotated[float, Field(strict=True, allow_inf_nan=False)] | Annotated[bool, Field(strict=True)]
"""True and False are natural results of a yes-or-no test."""
Holder = Annotated[
    str | None,
    Field(default=None, max_length=200, description="In whose name; the client's address unless it is said."),
]
Place = Annotated[int, Field(ge=0, lt=MOST_RESULTS, strict=True)]
Reason = Annotated[str, Field(max_length=2000)]
Lease = Annotated[float, Field(gt=0, le=LONGEST_LEASE, strict=True, allow_inf_nan=False, description="Seconds.")]
Days = Annotated[float, Field(gt=0, le=MOST_DAYS, strict=True, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewStudy(_Input):
    """A study to make. `plan` is what a study file holds; a name given here takes the place of the plan's own."""

    plan: dict[str, Any]
    name: str | None = None
    seed: Annotated[int, Field(ge=0, le=WHOLE, strict=True)] = 0


class Ask(_Input):
    """A wish for tests to make. They are the holder's until they are told, failed or released.

    With `days` the status says so when the holder has not told them by then. With `lease` the holder promises to
    `renew` before so many seconds have passed, and loses them by silence.
    """

    n: Annotated[int, Field(ge=1, le=MOST_RESULTS, strict=True)] = 1
    days: Days | None = None
    lease: Lease | None = None
    holder: Holder


class _OfTest(_Input):
    """Says something of a test. Its arm and metric need not be given; if they are, they must be right."""

    test: TestId
    arm: Name | None = None
    metric: Name | None = None


class Result(_OfTest):
    """The result of a test that was asked for."""

    value: Value


class Tell(_Input):
    """Results of tests that were asked for; all are recorded, or none."""

    results: Annotated[list[Result], Field(max_length=MOST_RESULTS)]
    holder: Holder


class NewResult(_Input):
    """A result that was measured without asking."""

    arm: Name
    metric: Name
    value: Value


class Add(_Input):
    """Results measured without asking, in order; all are recorded, or none. A `source` is accepted once.

    Nothing is decided before the last of them, unless `ends` has the places, from 0, of results that end a round.
    """

    results: Annotated[list[NewResult], Field(max_length=MOST_RESULTS)]
    source: Annotated[str, Field(max_length=200)] = ""
    ends: Annotated[list[Place], Field(max_length=MOST_RESULTS)] = []
    holder: Holder


class Correct(_OfTest):
    """A result that was told wrongly, as it should have been."""

    value: Value
    reason: Reason = ""
    holder: Holder


class OneTest(_OfTest):
    """A test whose attempt failed, or that is given up, and why."""

    reason: Reason = ""
    holder: Holder


class SetAside(OneTest):
    """A test whose attempt ended so, when nobody has said yet what that counts."""

    kind: Aside = "failed"


class FreedTests(_Input):
    """Tests to be freed, whoever holds them, or the one who holds all that are to be freed."""

    tests: Annotated[list[TestId], Field(max_length=MOST_RESULTS)] = []
    held_by: Annotated[str, Field(max_length=200)] | None = None
    holder: Annotated[str, Field(max_length=200)]


class HeldTests(_Input):
    """Tests that `holder` holds for `lease` more seconds."""

    tests: Annotated[list[TestId], Field(max_length=MOST_RESULTS)]
    holder: Annotated[str, Field(max_length=200)]
    lease: Lease | None = None


class Archive(_Input):
    """Put the study away, or bring it back."""

    undo: Annotated[bool, Field(strict=True)] = False


# ------------------------------------------------------------------------------------------------------ returned


class Complaint(BaseModel):
    """One thing that is wrong: the field at fault, what was given if that is short, why, and what there is to choose.

    `sentence` has all of it, as people are shown it.
    """

    field: str | None
    value: str | float | bool | None = None
    reason: str
    choices: list[str]
    sentence: str


class ErrorDetail(BaseModel):
    """What is wrong: the field at fault, if it is one, and the reason in a sentence.

    `kind` names the mistake for programs: "invalid", "not found", "name taken", "already told", "refused value" …
    `complaints` takes the sentence apart, for who wants to show each thing at its field.
    """

    field: str | None
    reason: str
    kind: str
    complaints: list[Complaint]


class Error(BaseModel):
    """The answer to a request that cannot be fulfilled."""

    error: ErrorDetail


class Nothing(BaseModel):
    """The request is fulfilled and there is nothing to add."""

    model_config = ConfigDict(extra="forbid")


class Released(BaseModel):
    """The tests that were named, or that were held by whom that was said of."""

    model_config = ConfigDict(extra="forbid")

    released: list[int]


class Health(BaseModel):
    """That the service is there, its version, and whether it wants a token."""

    version: str
    token: bool


_ROW = """One line of the list of studies. What the results say is null while it is being computed.

`left` is how many arms can still be the answer; `slack` says whether any constraint has one. `error` says why a
study cannot be read; what its plan says is null then, if it is the plan that cannot be."""

# As the client has it, and every field of it is always there.
_row_fields: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(StudyLine).items()}
StudyRow: type[BaseModel] = create_model("StudyRow", __doc__=_ROW, **_row_fields)


class ShareBeyond(BaseModel):
    """The share of results beyond a quantile constraint's threshold, its interval, and what it must stay below."""

    value: float | None
    low: float | None
    high: float | None
    limit: float


class Metric(BaseModel):
    """One metric of one arm; what is not known or infinite is null.

    `statistic` says what `mean`, `low`, `high` and `threshold` are of: "mean", or a quantile such as "99 % quantile".
    """

    metric: str
    tests: int
    mean: float | None
    low: float | None
    high: float | None
    threshold: float | None
    verdict: Literal["holds", "violated", "open"] | None
    statistic: str
    share: ShareBeyond | None


class Arm(BaseModel):
    """Where an arm stands, and why."""

    name: str
    verdict: Verdict
    reason: str
    metrics: list[Metric]


class Conclusion(BaseModel):
    """What the study concluded. `candidates` can still be the answer; `feasible` are certified so, within the slack."""

    state: AnswerState
    arm: str | None
    delta: float
    confidence: float
    tests: int
    cost: float | None
    tolerance: float
    slack: dict[str, float]
    candidates: list[str]
    feasible: list[str]
    warnings: list[str]


class ResultWords(BaseModel):
    """What results of a metric are: what to type, in a word or two, and what is assumed of them."""

    hint: str
    sentence: str


class HealthNote(BaseModel):
    """What the results contradict, or a hint: of what kind, how grave, where, and in a sentence what to do.

    `arm` is null if it is not one arm alone.
    """

    kind: HealthKind
    severity: Severity
    metric: str
    arm: str | None
    sentence: str


class DataHealth(BaseModel):
    """How many things are checked in the results of a study, and what was found, the gravest first."""

    checks: int
    notes: list[HealthNote]


class StudyStatus(BaseModel):
    """Where a study stands. `version` changes whenever something is recorded."""

    id: int
    version: str
    study: str
    state: StudyState
    answer: str | None
    leader: str | None
    confidence: float
    tests: int
    cost: float | None
    pending: int
    waiting: int
    arms: list[Arm]
    tolerance: float
    slack: dict[str, float]
    candidates: list[str]
    feasible: list[str]
    awaited: Awaited | None
    health: DataHealth
    plan: dict[str, Any]
    question: str
    results: dict[str, ResultWords]
    about_intervals: str
    answer_text: str | None
    conclusion: Conclusion | None
    created: float
    archived: float | None


class TestToMake(BaseModel):
    """Measure `metric` of `arm` once, and tell the result under this id."""

    __test__ = False

    id: int
    arm: str
    metric: str


class Asked(BaseModel):
    """Tests to make. None and not done: wait for results that are out."""

    tests: list[TestToMake]
    done: bool


class Done(BaseModel):
    """Whether the study has its answer, or has spent its budget."""

    done: bool


class Told(BaseModel):
    """How many results were recorded."""

    told: int


class Added(BaseModel):
    """The test ids that the results have got."""

    ids: list[int]


class PendingTest(BaseModel):
    """A test without a result, and who holds it; times in epoch seconds.

    `expires` is 0 if nobody holds it, null if it is its holder's until they tell it, else when their next heartbeat is
    overdue. `aside` says how its attempt ended, as long as nobody has said what that counts.
    """

    id: int
    arm: str
    metric: str
    holder: str
    expires: float | None
    attempts: int
    since: float
    due: float | None
    aside: Aside | None
    reason: str


class LogEntry(BaseModel):
    """Something that happened in a study."""

    time: float
    kind: str
    test: int | None
    holder: str
    detail: str
    arm: str | None
    metric: str | None
    value: float | None


class Progress(BaseModel):
    """Results and their cost, summed up over time (epoch seconds)."""

    time: list[float]
    tests: list[int]
    cost: list[float | None]


class Forecast(BaseModel):
    """Tests and cost still to come; null where the simulation, or the budget, ended first."""

    runs: int
    median_tests: float | None
    p90_tests: float | None
    median_cost: float | None
    p90_cost: float | None
    answers: dict[str, float]
