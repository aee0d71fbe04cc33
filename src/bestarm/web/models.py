"""What the service returns, as the OpenAPI description states it."""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from bestarm.analysis.health.notes import HealthKind, Severity
from bestarm.analysis.standing.arms import Verdict
from bestarm.analysis.standing.knowledge import OpenKind
from bestarm.analysis.status.status import StudyState
from bestarm.analysis.status.waiting import Awaited
from bestarm.answer import AnswerState, Guarantee
from bestarm.client import StudyLine
from bestarm.storage.base import Aside
from bestarm.web.inputs import Values


class Complaint(BaseModel):
    """One thing that is wrong: the field at fault, what was given if that is short, why, and what there is to choose.

    `sentence` has all of it, as people are shown it.
    """

    field: str | None
    value: str | float | bool | Values | None = None
    reason: str
    choices: list[str]
    sentence: str


class ErrorDetail(BaseModel):
    """What is wrong: the field at fault, if it is one, and the reason in a sentence.

    `kind` names the mistake for programs: "invalid", "not found", "name taken", "already told", "refused value" …
    `complaints` splits the sentence, so that each part can be shown at its field.
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
    """The tests that were freed."""

    model_config = ConfigDict(extra="forbid")

    released: list[int]


class Health(BaseModel):
    """That the service is there, its version, and whether it wants a token."""

    version: str
    token: bool


_ROW = """One line of the list of studies. What the results say is null while it is being computed.

`left` is how many arms can still be the answer; `answered` are those of the answer, and `claim` says what was certified
of them, if it is not that one arm is feasible and best; `slack` says whether any constraint has one. `guarantee` is
"void" if the results contradict what it rests on, which `void_because` says. `error` says why a study cannot be read;
what its plan says is null then, if it is the plan that cannot be."""

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


class Difference(BaseModel):
    """By how much the answer, or the leader, is better than an arm; null where there is no limit yet.

    `estimate` is what was measured; null without results."""

    low: float | None
    high: float | None
    estimate: float | None


class OpenQuestion(BaseModel):
    """What the likeliest answer still lacks: whether a constraint holds, whether an arm is worse than the leader
    (`against`), or infeasible. `tests` is about how many more tests it takes; null if there is no end in sight."""

    kind: OpenKind
    arm: str
    metric: str | None
    against: str | None
    share: float
    tests: float | None


class Conclusion(BaseModel):
    """What the study concluded. `candidates` can still be the answer; `feasible` are certified so, within the slack.

    `regret_at_most` is how far the arm can be below the best feasible one; null if there is no limit. `guarantee`
    "holds", or is "void" if the results contradict what it rests on (`void_because`), and then `state` is "void" unless
    the budget was spent first; it is "none" if no answer is certified.
    """

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
    regret_at_most: float | None
    differences: dict[str, Difference]
    known: str
    arms: list[str]
    claim: str
    warnings: list[str]
    void_because: list[str]
    guarantee: Guarantee


class ResultWords(BaseModel):
    """What results of a metric are: what to type, in a word or two, and what is assumed of them.

    They lie between `low` and `high`; null where there is no limit.
    """

    hint: str
    sentence: str
    low: float | None
    high: float | None


class HealthNote(BaseModel):
    """What the results contradict, or a hint: of what kind, how grave, where, what was seen, what that does.

    `arm` is null if it is not one arm alone. `sentence` has all of it, and what to do.
    """

    kind: HealthKind
    severity: Severity
    metric: str
    arm: str | None
    seen: str
    effect: str
    sentence: str


class DataHealth(BaseModel):
    """How many things are checked in the results of a study, and what was found, the gravest first."""

    checks: int
    notes: list[HealthNote]


class Measured(BaseModel):
    """What one test of an arm yields: its name, its metrics, and their places, from 0, in the lists of each arm."""

    name: str
    metrics: list[str]
    places: list[int]
    cost: float


class StudyStatus(BaseModel):
    """Where a study stands. `version` changes whenever something is recorded.

    `measured` has what tests there are of an arm, and `about_tests` says in sentences which of them yield several
    metrics, and what items they are made on. `seed` is that of the study's random choices, `items_seed` that of the
    random order of its items. `guarantee` is "void" if the results contradict what it rests on, which `void_because`
    says. Otherwise it "holds", or is "none" if no answer is certified.
    """

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
    regret_at_most: float | None
    known: str
    open: list[OpenQuestion]
    progress: float
    answered: list[str]
    claim: str
    awaited: Awaited | None
    health: DataHealth
    void_because: list[str]
    guarantee: Guarantee
    basis: str = Field(description="Changes when the study changes in kind: past, plan, state, or arms left.")
    plan: dict[str, Any]
    seed: int
    items_seed: int | None
    question: str
    about_tests: list[str]
    measured: list[Measured]
    results: dict[str, ResultWords]
    about_intervals: str
    answer_text: str | None
    conclusion: Conclusion | None
    created: float
    archived: float | None


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
    """The test ids that the results have got."""

    ids: list[int]


class PendingTest(BaseModel):
    """A test without a result, and who holds it; times in epoch seconds.

    `expires` is 0 if it is free, null if its holder keeps it until they tell it, else when their next heartbeat is
    overdue. `aside` says how its attempt ended, as long as it is not known what that counts as.
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
    metrics: list[str] = _MORE["metrics"]
    item: str | None = _MORE["item"]
    place: int | None = _MORE["place"]


class LogEntry(BaseModel):
    """Something that happened in a study. Of a test of several metrics, `values` has the results and `value` none."""

    time: float
    kind: str
    test: int | None
    holder: str
    detail: str
    arm: str | None
    metric: str | None
    value: float | None
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


class Progress(BaseModel):
    """Results and their cost, summed up over time (epoch seconds)."""

    time: list[float]
    tests: list[int]
    cost: list[float | None]


class Forecast(BaseModel):
    """Tests and cost still to come; null where the simulation, or the budget, ended first, or where it is too early
    to say."""

    runs: int
    median_tests: float | None
    p90_tests: float | None
    median_cost: float | None
    p90_cost: float | None
    answers: dict[str, float]
    state: Literal["simulated", "too early"]
    after: int = Field(description="The number of tests whose results it knows: compare it with the status.")
    basis: str = Field(description="If the status has another, the study has changed in kind since.")
    made: float = Field(description="When it was made, in epoch seconds.")
