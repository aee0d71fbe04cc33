"""A problem, and a plan: a problem and how it is to be decided. One file format for live studies and simulation."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bestarm.noises.base import NoiseModel
from bestarm.parsing import read_json, read_text, read_toml
from bestarm.problem.arm import Arm
from bestarm.problem.blocks import Blocks
from bestarm.problem.budget import Budget, read_budget
from bestarm.problem.changing import check_arms_that_change
from bestarm.problem.checks import check_question, objective_of
from bestarm.problem.duels import limits_of_duels
from bestarm.problem.file_order import FILE_ORDER, WITHOUT_EFFECT, WITHOUT_EFFECT_OF_ARMS
from bestarm.problem.goals import Goal, ignores_performance
from bestarm.problem.measurements import Measurement
from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.question import Question
from bestarm.problem.slice_checks import one_by_one, read_fields
from bestarm.texts import ARM, stated
from bestarm.validation import (
    MOST_TESTS,
    InvalidInput,
    Name,
    Parameter,
    Probability,
    Share,
    described,
    dump,
    exact,
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


Rules = Annotated[int, BeforeValidator(_rules), described(minimum=1, maximum=NEWEST_RULES)]


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

    `attributes` say of each item what it is: {"topic": ["law", "law", …]}. Constraints with `where` or `for_each` are
    about the items that share a value. `items` may be a data frame that has names and attributes in columns.

    With `blocks`, tests come in blocks, such as plates or days, that share something unknown, and arms are compared
    within blocks. Then the noise of the objective, and of limits relative to the baseline, is that within a block; the
    noise of a fixed limit includes what blocks add. `block_spreads` says by metric how much blocks differ (the standard
    deviation of what they add), for simulation.

    `goal` and `top` say what to find. "best" is the best feasible arm or, with `top` = m > 1, a short list of at most m
    arms that holds it; "top" are the m best feasible arms; "any feasible" is any arm that satisfies every constraint;
    "every feasible" are all that do. The last two ask nothing of the objective, which can be left out: it is then the
    metric of the first constraint.

    `baseline` names the arm that constraints may be relative to. It meets such constraints by definition.

    `arm_word` is what people call an arm, such as "formulation". Answers, pages and reports then say that.
    """

    if TYPE_CHECKING:
        # What validation makes of it is narrower than what it takes.
        def __init__(
            self,
            arms: Iterable[Arm | str],
            objective: Objective = ...,
            constraints: Iterable[Constraint] = (),
            *,
            measurements: Iterable[Measurement] = (),
            items: Any = None,
            attributes: Mapping[str, Iterable[str]] | None = None,
            repeats: bool = False,
            item_spreads: Mapping[str, float] | None = None,
            blocks: Blocks | None = None,
            block_spreads: Mapping[str, float] | None = None,
            goal: Goal = "best",
            top: int = 1,
            baseline: str | None = None,
            arm_word: str = ARM,
        ) -> None: ...

    __repr__ = stated

    _with_items = model_validator(mode="before")(read_fields)

    def __post_init__(self) -> None:
        if self.blocks is not None:
            # A block is an item that is never met again.
            for field, only in (("items", 1), ("repeats", True)):
                if getattr(self, field) not in (None, False, only):
                    reason = "cannot be stated beside blocks: tests are compared within blocks, or on the same items"
                    raise InvalidInput(field, getattr(self, field), reason)
                object.__setattr__(self, field, only)
        object.__setattr__(self, "constraints", one_by_one(self))
        if self.objective is None:
            object.__setattr__(self, "objective", objective_of(self))
        object.__setattr__(self, "constraints", (*self.constraints, *limits_of_duels(self)))
        check_question(self)

    @property
    def item_word(self) -> str:
        """What people call that on which a test is made: an item, or a block by its name."""
        return "item" if self.blocks is None else self.blocks.name

    def noise_between(self, noise: NoiseModel, factor: float = 1.0) -> NoiseModel:
        """The noise of an arm's value minus `factor` times another's, on the same item or in the same block."""
        is_same = self.blocks is not None and self.blocks.same_for_all
        return noise.contrast_within_block(factor) if is_same else noise.contrast(factor)

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

    def with_budget(
        self,
        tests: float | None = None,
        cost: float | None = None,
        blocks: float | None = None,
        hours: float | None = None,
    ) -> Plan:
        """The same problem as a plan with a budget: a number of tests, a total cost, a number of blocks, hours, or
        several.

        >>> from bestarm import Gaussian, Problem, maximize
        >>> problem = Problem(arms=["a", "b"], objective=maximize("yield", noise=Gaussian(1)))
        >>> problem.with_budget(5000).budget
        Budget(tests=5000.0, cost=None, blocks=None, hours=None)
        """
        return Plan.of(self, budget=Budget(tests, cost, blocks, hours))


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
            objective: Objective = ...,
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
            items: Any = None,
            attributes: Mapping[str, Iterable[str]] | None = None,
            repeats: bool = False,
            item_spreads: Mapping[str, float] | None = None,
            blocks: Blocks | None = None,
            block_spreads: Mapping[str, float] | None = None,
            goal: Goal = "best",
            top: int = 1,
            baseline: str | None = None,
            arm_word: str = ARM,
        ) -> None: ...

    __repr__ = stated

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_changes()

    def _check_changes(self) -> None:
        """Whether what may change on the way is as the plan allows."""
        if self.budget is not None and self.budget.blocks is not None and self.blocks is None:
            reason = "needs blocks: state what is measured together, or give the budget as a number of tests"
            raise InvalidInput("budget.blocks", self.budget.blocks, reason, shown=exact(self.budget.blocks))
        if self.order != "issue" and self.blocks is not None:
            raise InvalidInput(
                "order", self.order, "must be 'issue' in a study with blocks: whole blocks count, in order"
            )
        if ignores_performance(self.asks) and self.rules == 1:
            raise InvalidInput("rules", self.rules, f"does not know the goal {self.goal!r}; it takes rules 2")
        check_arms_that_change(self, self.reserve)

    @property
    def max_tests(self) -> int:
        """How many tests the budget allows (10^12 without one)."""
        return MOST_TESTS if self.budget is None or self.budget.tests is None else int(self.budget.tests)

    @property
    def max_cost(self) -> float:
        """How much the budget allows the tests to cost."""
        return math.inf if self.budget is None or self.budget.cost is None else self.budget.cost

    @property
    def max_blocks(self) -> int:
        """How many whole blocks the budget allows (10^12 without such a limit)."""
        return MOST_TESTS if self.budget is None or self.budget.blocks is None else int(self.budget.blocks)

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
        changes["budget"] = read_budget(budget)
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
            text = read_text(path)
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
        data = {key: entry for key, entry in dump(self).items() if WITHOUT_EFFECT.get(key, ...) != entry}
        if self.blocks is not None:
            for implied in ("items", "repeats"):
                del data[implied]
        if self.measurements:
            data["measurements"] = [
                {"metrics": [*group.metrics], **({} if group.cost == 1.0 else {"cost": group.cost})}
                for group in self.measurements
            ]
        data["arms"] = [
            {key: entry for key, entry in arm.items() if WITHOUT_EFFECT_OF_ARMS.get(key, ...) != entry}
            for arm in data["arms"]
        ]
        return {key: data[key] for key in FILE_ORDER if key in data}

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.to_data())

    def to_json(self) -> str:
        return json.dumps(self.to_data(), indent=2, ensure_ascii=False)
