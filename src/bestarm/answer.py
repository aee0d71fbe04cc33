"""What a study can conclude, with its confidence and its reasons."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from bestarm.texts import ARM, Noun, html_table, listed
from bestarm.validation import exact, pandas

if TYPE_CHECKING:
    import pandas as pd

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
    arm is out because of its performance, `low` is never below minus the tolerance. How sure the limits are is said by
    Propositions K.5 to K.7 in `docs/certificates/known.md`.
    """

    low: float
    high: float
    estimate: float | None = None
    """What was measured: the difference of the means, on items of those that both have in common. None without
    results."""


@dataclasses.dataclass(frozen=True)
class BlocksMade:
    """How many blocks have counted, and how many the budget allows: None if it does not limit them.

    >>> print(BlocksMade("plate", 3, 20), BlocksMade("plate", 1), sep="; ")
    3 of 20 plates; 1 plate
    """

    name: str
    made: int
    allowed: int | None = None

    def __str__(self) -> str:
        noun = Noun.of(self.name)
        return noun.counted(self.made) if self.allowed is None else f"{self.made:,} of {noun.counted(self.allowed)}"


@dataclasses.dataclass(frozen=True)
class Answer:
    """The conclusion of a study.

    `state` says whether `arm` is certified to be feasible and best (or as good as `tolerance` and `slack` ask for), or
    it is certified that no arm is feasible, or the budget ended the study first: then `arm` is the leader (None if no
    arm looked feasible), and what is certain is in `candidates` and `feasible`. If every feasible arm is asked for,
    those are the arms that are not rejected and those that are certified; an arm in the first alone is undecided. A
    certified answer is wrong with probability at most `delta`, as long as measurements are independent and scatter as
    stated, and so is what `candidates` and `feasible` say, taken together; `confidence` is how sure the evidence makes
    us of `arm`. If the results contradict what this rests on, `state` is "void": `arm` is what the study came to,
    without any guarantee.

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
    with probability 1 - 2 `delta` where there are no constraints: Proposition K.6 in `docs/certificates/known.md`,
    which has the other cases, too."""
    known: str = ""
    """What is certain, in a sentence."""
    arms: tuple[str, ...] = ()
    """The arms that are certified: `arm` alone or, if the study has another goal than the best arm, the short list, the
    best few arms or every feasible arm, which `arm` leads. Empty if nothing is certified of any."""
    claim: str = ""
    """What is certified of `arms`, in words; empty if it is that `arm` is feasible and best, or that no arm is feasible
    and all were asked about."""
    decided: str = ""
    """Where every feasible arm is asked for: how many arms are decided, in words. Empty for other goals."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the results, in sentences with advice. Empty if nothing was found."""
    void_because: tuple[str, ...] = ()
    """The assumptions of the guarantee that the results contradict. If there are any, the guarantee is void."""
    arm_word: str = ARM
    """What the study calls an arm."""
    blocks: BlocksMade | None = None
    """The blocks that have counted; None in a study without blocks."""
    unasked: str = dataclasses.field(default="", compare=False)
    """How many results were recorded that the study had not asked for, and what the guarantee assumes of them, in a
    sentence; empty if there are none. It does not count when answers are compared: they are about the same results."""
    guarantee: Guarantee = dataclasses.field(init=False)
    """Whether this is guaranteed: "holds", "void" if the results contradict what the guarantee rests on, and "none" if
    no answer is certified."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "guarantee", guarantee_of(self.state, self.void_because))

    def __str__(self) -> str:
        has_guarantee = self.guarantee != "void"
        return f"{self.headline}; {self.unasked}" if self.unasked and has_guarantee else self.headline

    @property
    def headline(self) -> str:
        """The conclusion, without what is assumed of results that the study had not asked for."""
        noun, tests = Noun.of(self.arm_word), counted_tests(self.tests)
        if self.blocks is not None:
            tests = f"{self.blocks} ({tests})"
        if self.state == "void":
            where = self.decided or leads_words(self.arm, noun)
            return f"{where} after {tests}; {void_words(self.void_because)}"
        if self.state == "budget_spent":
            where, known = self.decided or leads_words(self.arm, noun), known_words(self.known, self.void_because)
            return f"not certified: the budget is spent after {tests}; {where}; {known}"
        conclusion = self.claim or f"no {noun.one} is feasible"
        if self.arm is not None:
            claim = self.claim or good_words(self.tolerance, self.slack)
            conclusion = f"{all_names(self.arms or [self.arm])}: {claim}"
        return f"{conclusion}, with {promised(self.delta)} confidence, after {tests}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `bestarm run --json` and `status --json` print it under `conclusion`. What is unknown or
        infinite is None.

        >>> data = Answer("certified", "b", delta=0.05, confidence=0.95, tests=4, cost=math.inf).to_dict()
        >>> data["state"], data["arm"], data["cost"]
        ('certified', 'b', None)
        """
        data: dict[str, Any] = plain(self)
        return data

    def to_frame(self) -> pd.DataFrame:
        """A pandas data frame with a row for each arm: `arm`, `verdict`, `reason`; whether it is one of `arms`
        (`answer`), `candidates` (`candidate`) and `feasible`; and by how much the leader is better than it, at least,
        as measured and at most: `low`, `estimate` and `high`, NaN where that is not known.

        >>> limits = {"a": Difference(0.2, 1.4, estimate=0.8)}
        >>> reasons = {"a": "out: worse", "b": "best: feasible"}
        >>> said = {"reasons": reasons, "differences": limits, "arms": ("b",), "candidates": ("b",)}
        >>> answer = Answer("certified", "b", delta=0.05, confidence=0.95, tests=4, cost=4.0, **said)
        >>> print(answer.to_frame()[["arm", "verdict", "answer", "low"]].to_string(index=False))
        arm verdict  answer  low
          a     out   False  0.2
          b    best    True  NaN
        """
        rows = []
        for arm, why in self.reasons.items():
            verdict, _, reason = why.partition(": ")
            limits = self.differences.get(arm)
            low, estimate, high = (None,) * 3 if limits is None else (limits.low, limits.estimate, limits.high)
            rows.append(
                {
                    "arm": arm,
                    "verdict": verdict,
                    "reason": reason,
                    "answer": arm in self.arms,
                    "candidate": arm in self.candidates,
                    "feasible": arm in self.feasible,
                    "low": low,
                    "estimate": estimate,
                    "high": high,
                }
            )
        columns = ("arm", "verdict", "reason", "answer", "candidate", "feasible", "low", "estimate", "high")
        frame: pd.DataFrame = pandas().DataFrame(rows, columns=[*columns])
        return frame.astype(dict.fromkeys(("low", "estimate", "high"), float))

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, and why each arm is or is not it."""
        noun = Noun.of(self.arm_word)
        heads = (noun.one, "why", *([f"{self.arm} is better by"] if self.differences else []))
        rows = [
            (arm, why, *([_better(self.differences.get(arm))] if self.differences else []))
            for arm, why in list(self.reasons.items())[:_MOST_ROWS]
        ]
        table = html_table(rows, heads) if rows else ""
        cut = f"<p>The first {_MOST_ROWS} of {noun.counted(len(self.reasons))}.</p>"
        cut = cut if len(self.reasons) > _MOST_ROWS else ""
        warnings = "".join(f"<p>Warning: {escape(sentence)}</p>" for sentence in self.warnings)
        return f"<p{void_style(self.guarantee)}><strong>{escape(str(self))}</strong></p>{warnings}{table}{cut}"


def finite(number: float | None) -> float | None:
    """The number; None if it is unknown or infinite."""
    return number if number is not None and math.isfinite(number) else None


def plain(data: Any) -> Any:
    """Data classes as dictionaries of what JSON knows; what is unknown or infinite is None."""
    # A large study has millions of entries, which `dataclasses.asdict` would copy one by one.
    kind: Any = type(data)
    if kind is float:
        return data if math.isfinite(data) else None
    if kind is tuple or kind is list:
        return [plain(item) for item in data]
    if kind is dict:
        return {name: plain(item) for name, item in data.items()}
    names = _fields(kind)
    return {name: plain(getattr(data, name)) for name in names} if names else data


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


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


def counted_tests(number: int) -> str:
    """A number of tests.

    >>> counted_tests(1), counted_tests(1200)
    ('1 test', '1,200 tests')
    """
    return Noun("test", "tests").counted(number)


_ARM = Noun()


def leads_words(leader: str | None, noun: Noun = _ARM) -> str:
    """Who leads.

    >>> leads_words("b"), leads_words(None)
    ('b leads', 'no arm looks feasible')
    """
    return f"no {noun.one} looks feasible" if leader is None else f"{leader} leads"


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
    return _two_digits(number, decimal.ROUND_CEILING)


def rounded_down(number: float) -> str:
    """A limit to two digits, never more than it is.

    >>> rounded_down(0.3291), rounded_down(12.0), rounded_down(-0.3211)
    ('0.32', '12', '-0.33')
    """
    return _two_digits(number, decimal.ROUND_FLOOR)


def _two_digits(number: float, rounding: str) -> str:
    shown = decimal.Context(prec=2, rounding=rounding).create_decimal(repr(float(number)))
    return f"{shown.normalize():f}"
