"""A study's description: a problem and how it is to be decided. One file format for live studies and simulation."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from bestarm.goals import Goal
from bestarm.measurements import Measurement, written
from bestarm.parsing import read_json, read_toml
from bestarm.problem import Arm, Constraint, Objective, Problem
from bestarm.texts import quoted
from bestarm.validation import MOST_TESTS, InvalidInput, Name, Positive, Probability, Share, dump, parse, value

DEFAULT_POLICY = "certify"
DEFAULT_BOUND = "paper"

Order = Literal["issue", "arrival"]


@value
class Budget:
    """What a study may use up: so many tests, or tests of so much total cost, or either."""

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
        budget: float | Budget | None = None,
    ) -> Plan:
        """`problem` as a plan, with what is given here in place of its own; what nobody says stands at its default.

        A `budget` that is a number is one of tests.
        """
        if isinstance(problem, Plan):
            plan = problem
        else:
            fields = (field.name for field in dataclasses.fields(Problem))
            plan = cls(**{name: getattr(problem, name) for name in fields})
        changes: dict[str, Any] = {"delta": delta, "bound": bound, "name": name, "policy": policy}
        changes["budget"] = _read_budget(budget)
        given = {name: choice for name, choice in changes.items() if choice is not None}
        return dataclasses.replace(plan, **given) if given else plan

    @classmethod
    def from_data(cls, data: Any) -> Plan:
        if not isinstance(data, dict):
            raise InvalidInput(f"a study is described by a table of fields, not by {type(data).__name__}")
        plan: Plan = parse(cls, data)
        return plan

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
        data = dump(self)
        if self.order == "issue":
            # As it is in all studies unless somebody says otherwise, and in those made before anybody could.
            del data["order"]
        # What a study of single metrics does not say; those made before anybody could say it have the same file.
        data["measurements"] = written(self.measurements)
        for field in ("measurements", "repeats", "reserve"):
            if not data[field]:
                del data[field]
        for field, usual in (("goal", "best"), ("top", 1)):
            if data[field] == usual:
                del data[field]
        for arm in data["arms"]:
            for field in ("added", "retired"):
                if not arm[field]:
                    del arm[field]
        how = ("name", "delta", "reserve", "policy", "bound", "order", "budget", "goal", "top")
        what = ("items", "repeats", "item_spreads", "objective", "constraints", "measurements", "baseline", "arms")
        return {key: data[key] for key in (*how, *what) if key in data}

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.to_data())

    def to_json(self) -> str:
        return json.dumps(self.to_data(), indent=2, ensure_ascii=False)
