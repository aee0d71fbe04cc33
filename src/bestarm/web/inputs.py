"""What the service takes, as the OpenAPI description states it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, StrictBool, Tag

from bestarm.noises.duel import Duel, Verdict
from bestarm.noises.shares import is_share
from bestarm.storage.base import Aside
from bestarm.storage.projects import LONGEST_PROJECT
from bestarm.study.record.checks import LONGEST_LEASE, MOST_DAYS
from bestarm.validation import LONGEST_NAME, MOST, MOST_TESTS, described

MOST_RESULTS = 10_000
"""Results or tests in one request."""

LARGEST_INTEGER = 2**53 - 1
"""The largest whole number that every program reads from JSON as it is."""


def _whole(data: Any) -> Any:
    # Some languages have one kind of number and write 3 as 3.0, which JSON schema takes for the same.
    return int(data) if isinstance(data, float) and data.is_integer() else data


WHOLE = BeforeValidator(_whole)
"""Comes last, so that the limits before it are described as such."""

TestId = Annotated[
    int, Field(ge=1, le=LARGEST_INTEGER, strict=True, description="The number of a test, as ask returned it."), WHOLE
]
FORM = "\0"
"""Prefixes of the alternatives that pydantic names in the location of an error."""


def _form(name: str) -> Tag:
    return Tag(FORM + name)


def _forms(choose: Callable[[Any], str]) -> Discriminator:
    return Discriminator(lambda data: FORM + choose(data))


def _form_of(data: Any) -> str:
    if isinstance(data, bool):
        return "yes or no"
    return "verdict" if data in [*Duel.words] else "share" if is_share(data) else "number"


ShareText = Annotated[str, Field(max_length=60, pattern="^ *[0-9]+ *(/|of) *[0-9]+ *$")]
Value = Annotated[
    Annotated[float, Field(strict=True, allow_inf_nan=False), _form("number")]
    | Annotated[bool, Field(strict=True), _form("yes or no")]
    | Annotated[Verdict, _form("verdict")]
    | Annotated[ShareText, _form("share")],
    _forms(lambda data: _form_of(data)),
]
"""True and False are natural results of a yes-or-no test, words of a duel, and k/n of several trials."""
Values = dict[str, Value]
"""Numbers by metric, of a test that yields several."""
AnyValue = Annotated[
    Annotated[Value, _form("one")] | Annotated[Values, _form("several")],
    _forms(lambda data: "several" if isinstance(data, dict) else "one"),
    Field(description="A number, or for a test of several metrics an object with a number for each."),
]
Holder = Annotated[
    str | None,
    Field(default=None, max_length=200, description="The holder's name; by default the client's address."),
]
Place = Annotated[int, Field(ge=0, lt=MOST_RESULTS, strict=True), WHOLE]
Remark = Annotated[str, Field(max_length=2000)]
Reason = Annotated[Remark, described(minLength=1)]
Lease = Annotated[float, Field(gt=0, le=LONGEST_LEASE, strict=True, allow_inf_nan=False, description="Seconds.")]
Days = Annotated[float, Field(gt=0, le=MOST_DAYS, strict=True, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=LONGEST_NAME), described(minLength=1)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_INTEGER, strict=True), WHOLE]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Action(_Input):
    holder: Holder


class Empty(_Input):
    """Nothing."""


class NewStudy(_Input):
    """A study to make. `plan` is what a study file holds; a name given here takes the place of the plan's own.

    `seed` is for random choices of the policy, `items_seed` for the random order of the items. Both are drawn at
    random unless they are stated. An `items_seed` that is used again for arms improved on the same items voids the
    guarantee.
    """

    plan: dict[str, Any]
    name: str | None = None
    seed: Seed | None = None
    items_seed: Seed | None = None
    project: Annotated[
        str | None,
        Field(max_length=LONGEST_PROJECT, description="By default the caller's only one, or else the default project."),
    ] = None


class Ask(_Action):
    """A request for tests to make. They are the holder's until they are told, failed or released.

    With `days` the status says so when the holder has not told them by then. With `lease` the holder promises to
    `renew` within that many seconds, and otherwise loses them. With `block` they are all tests of the next block of a
    study with blocks, and `n` does not count.
    """

    n: Annotated[int, Field(ge=1, le=MOST_RESULTS, strict=True), WHOLE] = 1
    block: StrictBool = False
    days: Days | None = None
    lease: Lease | None = None


class NamedTest(_Input):
    """Names a test. Its arm, metric and item are optional; if given, they must be right."""

    test: TestId
    arm: Name | None = None
    metric: Name | None = None
    item: Name | None = None


class Result(NamedTest):
    """The result of a test that was asked for: a number, or one for each of its metrics, all or none."""

    value: AnyValue


class Tell(_Action):
    """Results of tests that were asked for; all are recorded, or none."""

    results: Annotated[list[Result], Field(max_length=MOST_RESULTS)]


Item = Annotated[
    Annotated[Name, _form("name")]
    | Annotated[int, Field(ge=1, le=LARGEST_INTEGER, strict=True), WHOLE, _form("number")],
    _forms(lambda data: "number" if isinstance(data, int | float) else "name"),
    Field(description="What it was measured on, by name or number. In a study with items it must be said."),
]


class _NewTest(_Input):
    arm: Name
    item: Item | None = None


class NewResult(_NewTest):
    """A result of a metric that was measured without asking."""

    metric: Name
    value: AnyValue


class NewResults(_NewTest):
    """The results of a test of several metrics that was made without asking, all of them."""

    values: Values


AnyNewResult = Annotated[
    Annotated[NewResult, _form("one")] | Annotated[NewResults, _form("several")],
    _forms(lambda data: "several" if isinstance(data, dict) and "values" in data else "one"),
]


class Add(_Action):
    """Results measured without asking, in order; all are recorded, or none. A `source` is accepted once.

    Nothing is decided before the last of them, unless `ends` has the places, from 0, of results that end a round.
    """

    results: Annotated[list[AnyNewResult], Field(max_length=MOST_RESULTS)]
    source: Annotated[str, Field(max_length=200)] = ""
    ends: Annotated[list[Place], Field(max_length=MOST_RESULTS)] = []


class Typed(_Action):
    """Typed results: of tests, and measured without asking."""

    told: Annotated[list[Result], Field(max_length=MOST_RESULTS)] = []
    given: Annotated[list[AnyNewResult], Field(max_length=MOST_RESULTS)] = []


class Correct(NamedTest, _Action):
    """Replaces a result that was told wrongly. If there are several metrics, those not given stay as they are."""

    value: AnyValue
    reason: Reason


class EndedTests(_Action):
    """A test whose attempt failed, or that is given up, and why; or several, by their numbers, for the same reason."""

    test: TestId | None = None
    tests: Annotated[list[TestId], Field(max_length=MOST_RESULTS)] = []
    arm: Name | None = None
    metric: Name | None = None
    item: Name | None = None
    reason: Reason


class SetAside(NamedTest, _Action):
    """A test whose attempt ended this way, before it is known what that counts as."""

    reason: Remark = ""
    kind: Aside = "failed"


class FreedTests(_Action):
    """Tests to be freed, yours or others', or a holder whose tests are all to be freed."""

    tests: Annotated[list[TestId], Field(max_length=MOST_RESULTS)] = []
    held_by: Annotated[str, Field(max_length=200)] | None = None
    holder: Annotated[str, Field(max_length=200)]


class HeldTests(_Action):
    """Tests that `holder` holds for `lease` more seconds."""

    tests: Annotated[list[TestId], Field(max_length=MOST_RESULTS)]
    holder: Annotated[str, Field(max_length=200)]
    lease: Lease | None = None


class Extend(_Action):
    """How much more a study may use than before: tests, cost, whole blocks, or hours."""

    tests: Annotated[int, Field(gt=0, le=MOST_TESTS, strict=True), WHOLE] | None = None
    cost: Annotated[float, Field(gt=0, le=MOST, strict=True, allow_inf_nan=False)] | None = None
    blocks: Annotated[int, Field(gt=0, le=MOST_TESTS, strict=True), WHOLE] | None = None
    hours: Annotated[float, Field(gt=0, le=MOST, strict=True, allow_inf_nan=False)] | None = None


class NewArms(_Action):
    """Arms that come later, by name."""

    arms: Annotated[list[Name], Field(min_length=1, max_length=MOST_RESULTS)]


class NewReserve(_Action):
    """The share of delta to keep for arms that come later or are retired."""

    share: Annotated[float, Field(ge=0, lt=1, strict=True, allow_inf_nan=False)]


class RetiredArm(_Action):
    """An arm to be taken out, and why."""

    arm: Name
    reason: Remark = ""


class Archive(_Input):
    """Put the study away, or bring it back."""

    undo: Annotated[bool, Field(strict=True)] = False


class Move(_Input):
    """Put the study into another project."""

    project: Annotated[str, Field(max_length=LONGEST_PROJECT)]


class Delete(_Input):
    """Remove the study for good."""

    name: Annotated[str, Field(max_length=LONGEST_NAME, description="The study's name, so that no other is deleted.")]
