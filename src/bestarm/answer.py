"""What a study can conclude, with its confidence and its reasons."""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal

from bestarm.texts import html_table, listed
from bestarm.validation import exact

AnswerState = Literal["certified", "no_feasible_arm", "budget_spent", "void"]
Guarantee = Literal["holds", "void", "none"]

DECIDED = frozenset(("certified", "no_feasible_arm", "void"))
"""The states of a study whose policy has stopped. Whether its answer is guaranteed is another question."""

MOST_REASONS = 2
"""The most reasons why a guarantee is void that a sentence names."""

MOST_NAMES = 8
"""The most arms that a sentence names. Of more, it says how many there are."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """By how much, at least and at most, the leader performs better than another arm, in the objective's units.

    Negative numbers mean worse, and infinite ones that there is no limit yet. If the answer is certified and the other
    arm is out because of its performance, `low` is never below minus the tolerance. `docs/certify.md` says how sure the
    limits are.
    """

    low: float
    high: float
    estimate: float | None = None
    """What was measured: the difference of the means, on items of those that both have in common. None without
    results."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """The conclusion of a study.

    `state` says whether `arm` is certified to be feasible and best (or as good as `tolerance` and `slack` ask for), or
    it is certified that no arm is feasible, or the budget ended the study first: then `arm` is the leader (None if no
    arm looked feasible), and what is certain is in `candidates` and `feasible`. A certified answer is wrong with
    probability at most `delta`, as long as measurements are independent and scatter as stated, and so is what
    `candidates` and `feasible` say, taken together; `confidence` is how sure the evidence makes us of `arm`. If the
    results contradict what this rests on, `state` is "void": `arm` is what the study came to, without any guarantee.

    >>> print(Answer("certified", "150 mg", delta=0.05, confidence=0.953, tests=5211, cost=5211.0))
    150 mg: feasible and best, with 95% confidence, after 5,211 tests
    >>> print(Answer("certified", "150 mg", delta=0.05, confidence=0.95, tests=970, cost=970.0, tolerance=0.1))
    150 mg: feasible and within 0.1 of the best, with 95% confidence, after 970 tests
    >>> short = {"arms": ("75 mg", "150 mg"), "claim": "the best feasible arm is one of these"}
    >>> print(Answer("certified", "150 mg", delta=0.05, confidence=0.95, tests=611, cost=611.0, **short))
    75 mg and 150 mg: the best feasible arm is one of these, with 95% confidence, after 611 tests
    >>> print(Answer("budget_spent", "150 mg", delta=0.05, confidence=0.62, tests=2000, cost=2000.0))
    not certified: the budget is spent after 2,000 tests; 150 mg leads; nothing is certain yet
    >>> because = ("results are skewed (efficacy)",)
    >>> print(Answer("void", "150 mg", delta=0.05, confidence=0.953, tests=5211, cost=5211.0, void_because=because))
    150 mg leads after 5,211 tests; the guarantee is void, because results are skewed (efficacy)
    """

    state: AnswerState
    arm: str | None
    delta: float
    confidence: float
    tests: int
    cost: float
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Why each arm is or is not the answer, e.g. "infeasible: adverse event 0.61 > 0.5, evidence 1 : 4,300"."""
    tolerance: float = 0.0
    """A certified arm is within this of the best; in the units of the objective."""
    slack: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """By metric: a certified arm misses its threshold by less than this. Only metrics that have a slack are there."""
    candidates: tuple[str, ...] = ()
    """The arms that can still be the answer; a certified one is alone."""
    feasible: tuple[str, ...] = ()
    """The arms that are certified feasible (within the slack)."""
    regret_at_most: float | None = None
    """How far, at most, the performance of `arm` is below that of the best feasible arm, in the objective's units: 0 if
    it is certified best. None if there is no limit, or `arm` is not certified feasible."""
    differences: Mapping[str, Difference] = dataclasses.field(default_factory=dict)
    """By arm: how much better `arm` is than that one. These limits and the answer hold all at once, and at all times,
    with probability 1 - 2 `delta` where there are no constraints; `docs/certify.md` has the other cases."""
    known: str = ""
    """What is certain, in a sentence."""
    arms: tuple[str, ...] = ()
    """The arms that are certified: `arm` alone or, if the study has another goal than the best arm, the short list or
    the best few arms, which `arm` leads. Empty if nothing is certified of any."""
    claim: str = ""
    """What is certified of `arms`, in words; empty if it is that `arm` is feasible and best, or that no arm is feasible
    and all were asked about."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the results, in sentences with advice. Empty if nothing was found."""
    void_because: tuple[str, ...] = ()
    """The assumptions of the guarantee that the results contradict. If there are any, the guarantee is void."""
    guarantee: Guarantee = dataclasses.field(init=False)
    """Whether this is guaranteed: "holds", "void" if the results contradict what the guarantee rests on, and "none" if
    no answer is certified."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "guarantee", guarantee_of(self.state, self.void_because))

    def __str__(self) -> str:
        if self.state == "void":
            return f"{leads_words(self.arm)} after {self.tests:,} tests; {void_words(self.void_because)}"
        if self.state == "budget_spent":
            spent = f"the budget is spent after {self.tests:,} tests"
            return f"not certified: {spent}; {leads_words(self.arm)}; {known_words(self.known, self.void_because)}"
        conclusion = self.claim or "no arm is feasible"
        if self.arm is not None:
            claim = self.claim or good_words(self.tolerance, self.slack)
            conclusion = f"{all_names(self.arms or [self.arm])}: {claim}"
        return f"{conclusion}, with {promised(self.delta)} confidence, after {self.tests:,} tests"

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, and why each arm is or is not it."""
        heads = ("arm", "why", f"{self.arm} is better by") if self.differences else ("arm", "why")
        rows = [
            (arm, why, *([_better(self.differences.get(arm))] if self.differences else []))
            for arm, why in list(self.reasons.items())[:_MOST_ROWS]
        ]
        table = html_table(rows, heads) if rows else ""
        cut = f"<p>The first {_MOST_ROWS} of {len(self.reasons):,} arms.</p>" if len(self.reasons) > _MOST_ROWS else ""
        warnings = "".join(f"<p>Warning: {escape(sentence)}</p>" for sentence in self.warnings)
        return f"<p{void_style(self.guarantee)}><strong>{escape(str(self))}</strong></p>{warnings}{table}{cut}"


_MOST_ROWS = 60


def _better(limits: Difference | None) -> str:
    """How much better an arm is, in words."""
    if limits is None:
        return ""
    measured = [] if limits.estimate is None else [f"measured {limits.estimate:.3g}"]
    ends = [
        f"{word} {number:.3g}"
        for word, number in (("at least", limits.low), ("at most", limits.high))
        if math.isfinite(number)
    ]
    return ", ".join([*measured, *(ends or ["not certain yet by how much"])])


def promised(delta: float) -> str:
    """1 - delta in percent. It never reads 100%, however small delta is.

    >>> promised(0.05), promised(1e-12)
    ('95%', 'over 99.9999%')
    """
    percent = f"{100 * (1 - delta):.6g}"
    return "over 99.9999%" if percent == "100" else f"{percent}%"


def percent(share: float) -> str:
    """How sure we are, in percent. What is not certain never reads 100%.

    >>> percent(0.62), percent(0.9961), percent(0.99999)
    ('62%', '99.6%', 'over 99.9%')
    """
    if share >= 0.9995:
        return "100%" if share == 1.0 else "over 99.9%"
    return f"{100 * share:.{int(share >= 0.995)}f}%"


def odds(log_evidence: float) -> str:
    """Evidence as the odds against chance.

    >>> odds(math.log(4321)), odds(100.0)
    ('1 : 4,300', '1 : 10^43')
    """
    if log_evidence > 27.0:
        return f"1 : 10^{log_evidence / math.log(10):.0f}"
    return f"1 : {float(f'{math.exp(max(log_evidence, 0.0)):.2g}'):,.0f}"


def feasible_words(slack: Mapping[str, float]) -> str:
    """What an arm is whose constraints are certified."""
    return "feasible within its slack" if slack else "feasible"


def good_words(tolerance: float, slack: Mapping[str, float]) -> str:
    """What a certified arm is.

    >>> good_words(0.0, {}), good_words(0.5, {"crash rate": 0.01})
    ('feasible and best', 'feasible within its slack and within 0.5 of the best')
    """
    best = f"within {exact(tolerance)} of the best" if tolerance else "best"
    return f"{feasible_words(slack)} and {best}"


def leads_words(leader: str | None) -> str:
    """Who leads.

    >>> leads_words("b"), leads_words(None)
    ('b leads', 'no arm looks feasible')
    """
    return "no arm looks feasible" if leader is None else f"{leader} leads"


def known_words(known: str, void_because: Sequence[str] = ()) -> str:
    """The sentence on what is certain, within another sentence."""
    if void_because:
        return void_words(void_because)
    return f"{known[0].lower()}{known[1:]}" if known else "nothing is certain yet"


def guarantee_of(state: str, void_because: Sequence[str]) -> Guarantee:
    """Whether what a study in this state has come to is guaranteed.

    >>> guarantee_of("certified", ()), guarantee_of("running", ()), guarantee_of("running", ("results are skewed",))
    ('holds', 'none', 'void')
    """
    if void_because:
        return "void"
    return "holds" if state in DECIDED else "none"


def void_words(because: Sequence[str]) -> str:
    """That the guarantee is void, and why.

    >>> void_words(["results are skewed (a)"]), void_words(["x (a)", "x (b)", "x (c)", "x (d)"])
    ('the guarantee is void, because results are skewed (a)', 'the guarantee is void, because x (a); x (b); and 2 more')
    """
    more = [f"and {len(because) - MOST_REASONS:,} more"] if len(because) > MOST_REASONS else []
    return f"the guarantee is void, because {'; '.join([*because[:MOST_REASONS], *more])}"


def void_style(guarantee: Guarantee) -> str:
    """How a notebook marks what is not guaranteed: amber, on light and on dark."""
    return ' style="border-left:.4em solid #e69f00;padding-left:.6em"' if guarantee == "void" else ""


def all_names(names: Sequence[str]) -> str:
    """Names in a sentence, not too many of them.

    >>> all_names(["a", "b", "c"]), all_names("abcdefghijk")
    ('a, b and c', 'a, b, c, d, e, f, g and 4 more')
    """
    if len(names) <= MOST_NAMES:
        return listed(names)
    return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1:,} more"


def rounded_up(number: float) -> str:
    """A limit to two digits, never less than it is.

    >>> rounded_up(0.3211), rounded_up(12.0), rounded_up(1234.5)
    ('0.33', '12', '1300')
    """
    shown = decimal.Context(prec=2, rounding=decimal.ROUND_CEILING).create_decimal(repr(number))
    return f"{shown.normalize():f}"
