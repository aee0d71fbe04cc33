"""A problem, and a plan: a problem and how it is to be decided. One file format for live studies and simulation."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bestarm.parsing import read_json, read_toml
from bestarm.problem.checks import check_question
from bestarm.problem.goals import Goal
from bestarm.problem.measurements import Measurement
from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.question import Arm, Question
from bestarm.texts import quoted
from bestarm.validation import (
    MOST_TESTS,
    InvalidInput,
    Name,
    Parameter,
    Positive,
    Probability,
    Share,
    dump,
    finite_number,
    parse,
    value,
)

DEFAULT_POLICY = "certify"
DEFAULT_BOUND = "paper"
NEWEST_RULES = 2

Order = Literal["issue", "arrival"]


def _rules(data: object) -> int:
    number = finite_number(data)
    if number not in range(1, NEWEST_RULES + 1):
        newer = "; a newer version of bestarm may know more" if number > NEWEST_RULES else ""
        raise ValueError(f"must be a whole number from 1 to {NEWEST_RULES}{newer}")
    return int(number)


Rules = Annotated[int, BeforeValidator(_rules)]

_FILE_ORDER = (
    *("name", "delta", "reserve", "policy", "options", "rules", "bound", "order", "budget", "goal", "top"),
    *("items", "repeats", "item_spreads", "objective", "constraints", "measurements", "baseline", "arms"),
)
_WITHOUT_EFFECT: dict[str, Any] = {
    "order": "issue",
    "options": {},
    "measurements": [],
    "repeats": False,
    "reserve": 0.0,
    "goal": "best",
    "top": 1,
}


@value
class Budget:
    """What a study may use up: a number of tests, a total cost, or both."""

    tests: Positive | None = None
    cost: Positive | None = None

    def __post_init__(self) -> None:
        if self.tests is None and self.cost is None:
            raise ValueError("a budget needs tests or cost")
        if self.tests is not None and self.tests != int(self.tests):
            raise InvalidInput("tests", self.tests, "must be a whole number")
        if self.tests is not None and self.tests > MOST_TESTS:
            raise InvalidInput("tests", self.tests, f"must be at most {MOST_TESTS:,}")


def _read_budget(budget: float | Budget | None) -> Budget | None:
    if budget is None or isinstance(budget, Budget):
        return budget
    try:
        return Budget(tests=budget)
    except InvalidInput as error:
        raise InvalidInput("budget", budget, error.complaints[0].reason, shown=quoted(budget)) from None


@value
class Problem(Question):
    """Which of these arms is best on the objective among those that satisfy every constraint?

    >>> from bestarm import Bernoulli, Gaussian, Problem, at_most, minimize
    >>> problem = Problem(
    ...     arms=["small cache", "large cache"],
    ...     objective=minimize("latency", noise=Gaussian(2.0)),
    ...     constraints=[at_most("crash rate", 0.01, noise=Bernoulli(), cost=5.0)],
    ... )
    >>> problem.metrics
    ('latency', 'crash rate')

    Each metric is measured on its own, unless `measurements` says that one test yields several. The same metric may
    have several limits, or be the objective and have limits: its one value then counts for all of them.

    With `items`, how many there are or their names, each measurement of an arm is made on an item, and all arms meet
    the items in the same random order. The question is then about the means over these items. With `repeats`, an item
    can be measured again and gives a fresh value; items are then drawn at random, again and again, and the question is
    about the mean over all items and over the scatter of each. `item_spreads` says by metric how much items differ
    (their standard deviation), for simulation.

    `goal` and `top` say what to find. "best" is the best feasible arm or, with `top` = m > 1, a short list of at most m
    arms that holds it; "top" are the m best feasible arms; "any feasible" is any arm that satisfies every constraint.

    `baseline` names the arm that constraints may be relative to. It meets such constraints by definition.
    """

    if TYPE_CHECKING:
        # What validation makes of it is narrower than what it takes.
        def __init__(
            self,
            arms: Iterable[Arm | str],
            objective: Objective,
            constraints: Iterable[Constraint] = (),
            *,
            measurements: Iterable[Measurement] = (),
            items: int | Iterable[str] | None = None,
            repeats: bool = False,
            item_spreads: Mapping[str, float] | None = None,
            goal: Goal = "best",
            top: int = 1,
            baseline: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_question(self)

    def with_spreads(self, spreads: Mapping[str, Mapping[str, float | Mapping[str, float]]]) -> Problem:
        """The same problem with true spreads (arm → metric → standard deviation, or shape with one), for simulation."""
        return self._with("spreads", spreads)

    def with_means(self, means: Mapping[str, Mapping[str, float]]) -> Problem:
        """The same problem with true means (arm → metric → mean), for simulation."""
        return self._with("means", means)

    def _with(self, field: str, given: Mapping[str, Mapping[str, Any]]) -> Problem:
        """The same problem, with a field of each arm extended by what is given for it."""
        known = set(self.arm_names)
        if missing := [name for name in given if name not in known]:
            reason = f"no such arm; the arms are {', '.join(map(repr, self.arm_names))}"
            sentence = f"{field} of {missing[0]!r}: {reason}"
            raise InvalidInput(field, missing[0], reason, self.arm_names, sentence=sentence)
        extend: Any = dataclasses.replace
        arms = tuple(
            extend(arm, **{field: {**(getattr(arm, field) or {}), **given.get(arm.name, {})}}) for arm in self.arms
        )
        return dataclasses.replace(self, arms=arms)

    def with_budget(self, tests: float | None = None, cost: float | None = None) -> Plan:
        """The same problem as a plan with a budget: a number of tests, a total cost, or both.

        >>> from bestarm import Gaussian, Problem, maximize
        >>> problem = Problem(arms=["a", "b"], objective=maximize("yield", noise=Gaussian(1)))
        >>> problem.with_budget(5000).budget
        Budget(tests=5000.0, cost=None)
        """
        return Plan.of(self, budget=Budget(tests, cost))


@value
class Plan(Problem):
    """A problem with a name, the probability of error `delta`, a policy, a confidence bound and perhaps a budget.

    >>> from bestarm import Gaussian, Plan, maximize
    >>> plan = Plan(arms=["a", "b"], objective=maximize("yield", noise=Gaussian(1)), name="trial", delta=0.1)
    >>> Plan.from_toml(plan.to_toml()) == plan
    True
    """

    name: Name = "study"
    delta: Probability = 0.05
    policy: Name = DEFAULT_POLICY
    bound: Name = DEFAULT_BOUND
    budget: Budget | None = None
    order: Order = "issue"
    """Results count in the order in which their tests were issued, or, if how long a test takes has nothing to do with
    its result, in the order in which they arrive."""
    reserve: Share = Field(default=0.0, kw_only=True)
    """The share of delta that is kept for arms that come later or are retired. Without any, arms stay as they are."""
    options: Mapping[str, Parameter] = Field(default_factory=dict, kw_only=True)
    """The policy's parameters, by name. What the policy takes, its class declares."""
    rules: Rules = Field(default=NEWEST_RULES, kw_only=True)
    """The edition of the policies' rules: which evidence, levels and choices of tests they use. A study keeps the
    edition that it began with, so that a newer version of bestarm does not change its certificates."""

    if TYPE_CHECKING:
        # What validation makes of it is narrower than what it takes.
        def __init__(
            self,
            arms: Iterable[Arm | str],
            objective: Objective,
            constraints: Iterable[Constraint] = (),
            name: str = "study",
            delta: float = 0.05,
            policy: str = DEFAULT_POLICY,
            bound: str = DEFAULT_BOUND,
            budget: Budget | None = None,
            order: Order = "issue",
            *,
            reserve: float = 0.0,
            options: Mapping[str, Parameter] = ...,
            rules: int = NEWEST_RULES,
            measurements: Iterable[Measurement] = (),
            items: int | Iterable[str] | None = None,
            repeats: bool = False,
            item_spreads: Mapping[str, float] | None = None,
            goal: Goal = "best",
            top: int = 1,
            baseline: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_changes()

    def _check_changes(self) -> None:
        """Whether arms that came later, or are retired, are as the plan allows."""
        if self.reserve and self.items is not None:
            reason = "cannot be stated with items: an arm that comes later could be made to fit the items seen so far"
            raise InvalidInput("reserve", self.reserve, reason)
        if self.reserve and any(part.relative_to_baseline for part in self.constraints):
            reason = (
                "cannot be stated with constraints relative to the baseline: an arm that comes later could be made to"
            )
            raise InvalidInput("reserve", self.reserve, f"{reason} suit how the baseline has turned out so far")
        if self.reserve and self.asks != "best":
            reason = "cannot be stated with a reserve, which shares delta for one best arm; leave out one"
            field = "top" if self.asks == "short list" else "goal"
            raise InvalidInput(field, getattr(self, field), reason)
        came = 0
        for index, arm in enumerate(self.arms):
            field = f"arms[{index}].{'retired' if arm.retired else 'added'}"
            if (arm.added or arm.retired) and not self.reserve:
                given = arm.retired or arm.added
                raise InvalidInput(field, given, "needs a reserve: the share of delta kept for arms that come or go")
            if (arm.added or came) and arm.added != came + 1:
                raise InvalidInput(
                    f"arms[{index}].added",
                    arm.added,
                    f"arms that came later count from 1, in order, after the others; this would be {came + 1}",
                )
            came = arm.added
        if all(arm.retired for arm in self.arms):
            raise InvalidInput("arms[0].retired", True, "not every arm can be retired")

    @property
    def max_tests(self) -> int:
        """How many tests the budget allows (10^12 without one)."""
        return MOST_TESTS if self.budget is None or self.budget.tests is None else int(self.budget.tests)

    @property
    def max_cost(self) -> float:
        """How much the budget allows the tests to cost."""
        return math.inf if self.budget is None or self.budget.cost is None else self.budget.cost

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        delta: float | None = None,
        bound: str | None = None,
        name: str | None = None,
        policy: str | None = None,
        options: Mapping[str, Parameter] | None = None,
        budget: float | Budget | None = None,
    ) -> Plan:
        """`problem` as a plan. Arguments replace the problem's own values; everything else has its default.

        A `budget` that is a number is one of tests. Options of a plan's policy do not apply to another policy.
        """
        if isinstance(problem, Plan):
            plan = problem
        else:
            fields = (field.name for field in dataclasses.fields(Problem))
            plan = cls(**{name: getattr(problem, name) for name in fields})
        changes: dict[str, Any] = {"delta": delta, "bound": bound, "name": name, "policy": policy}
        changes["budget"] = _read_budget(budget)
        is_other = policy is not None and policy != plan.policy
        changes["options"] = {} if is_other and options is None else options
        given = {name: choice for name, choice in changes.items() if choice is not None}
        return dataclasses.replace(plan, **given) if given else plan

    @classmethod
    def from_data(cls, data: Any) -> Plan:
        if not isinstance(data, dict):
            raise InvalidInput(f"a study is described by a table of fields, not by {type(data).__name__}")
        plan: Plan = parse(cls, data)
        return plan

    @classmethod
    def from_record(cls, data: Any) -> Plan:
        """The plan of a study that exists. Plans from before there were several rules have the first."""
        return cls.from_data({"rules": 1, **data} if isinstance(data, dict) else data)

    @classmethod
    def from_toml(cls, text: str) -> Plan:
        return cls.from_data(read_toml(text))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        return cls.from_data(read_json(text))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a study file, TOML or (by its ending) JSON."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InvalidInput(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}: cannot be read: {error}") from None
        try:
            return cls.from_json(text) if path.suffix == ".json" else cls.from_toml(text)
        except InvalidInput as error:
            raise error.about(str(path)) from None

    def to_data(self) -> dict[str, Any]:
        # Left out where they have no effect, so that files from before they existed stay the same.
        data = {key: entry for key, entry in dump(self).items() if _WITHOUT_EFFECT.get(key, ...) != entry}
        if self.measurements:
            data["measurements"] = [
                {"metrics": [*group.metrics], **({} if group.cost == 1.0 else {"cost": group.cost})}
                for group in self.measurements
            ]
        data["arms"] = [
            {key: entry for key, entry in arm.items() if entry or key not in ("added", "retired")}
            for arm in data["arms"]
        ]
        return {key: data[key] for key in _FILE_ORDER if key in data}

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.to_data())

    def to_json(self) -> str:
        return json.dumps(self.to_data(), indent=2, ensure_ascii=False)
