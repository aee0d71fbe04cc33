"""What is asked of a metric, in the user's words: which of its figures counts, and where it must lie."""

from __future__ import annotations

import dataclasses

from bestarm.problem import Constraint, Objective, Problem
from bestarm.validation import exact

MEAN = "mean"
WINS = "win rate"


@dataclasses.dataclass(frozen=True)
class Share:
    """The share of results beyond the threshold of a quantile constraint, its interval, and its limit."""

    value: float
    low: float
    high: float
    limit: float


def is_free(problem: Problem, part: Objective | Constraint) -> bool:
    """Whether nothing is assumed of how an arm's own values scatter, only of how differences do. So it is where arms
    are only compared: within blocks, or on one item again and again, which is only a place in the order, as in a race.
    """
    is_objective = part is problem.objective and "feasible" not in problem.asks
    is_relative = isinstance(part, Constraint) and part.relative_to_baseline
    if not (problem.repeats and problem.items == 1 and (is_objective or is_relative)):
        return False
    return problem.noise_between(part.noise).is_scatter_free


def percentage(share: float) -> str:
    """A share in percent, with as many digits as it takes; measured ones are rounded to three before."""
    return f"{100.0 * share:.10g}%"


def statistic(part: Objective | Constraint) -> str:
    """What of the metric counts: its mean, a quantile, or how often a duel is won.

    >>> import bestarm as ba
    >>> [statistic(ba.at_most("latency", 200, noise=ba.Quantile(q))) for q in (0.99, 0.999, 0.5)]
    ['99% quantile', '99.9% quantile', 'median']
    """
    if not (isinstance(part, Constraint) and part.noise.is_share):
        return WINS if part.noise.words else MEAN
    q = part.limit if part.at_most is None else round(1.0 - part.limit, 15)
    return "median" if q == 0.5 else f"{percentage(q)} quantile"


def share_name(part: Constraint) -> str:
    """Which results count against a quantile constraint."""
    return f"share {'below' if part.at_most is None else 'above'} {exact(part.threshold)}"


def share_words(part: Constraint, share: Share) -> str:
    """Where the share of results beyond the threshold stands.

    >>> import bestarm as ba
    >>> share_words(ba.at_most("latency", 200, noise=ba.Quantile(0.99)), Share(0.004, 0.001, 0.03, 0.01))
    'share above 200: 0.4% of at most 1%'
    """
    return f"{share_name(part)}: {percentage(float(f'{share.value:.3g}'))} of at most {percentage(share.limit)}"


def wins_in_words(share: float, problem: Problem) -> str:
    """An arm's win rate against the baseline, in which a tie counts half: one that always ties has won in no item.

    >>> import bestarm as ba
    >>> wins_in_words(0.6213, ba.Problem(["terse"], ba.duel("preference"), baseline="plain", items=200))
    'win rate 62.1% against plain'
    """
    return f"{WINS} {percentage(float(f'{share:.3g}'))} against {problem.baseline}"


def subject(metric: str, what: str) -> str:
    """What is measured of a metric.

    >>> subject("latency", "mean"), subject("latency", "99% quantile")
    ('latency', '99% quantile of latency')
    """
    return metric if what == MEAN else f"{what} of {metric}"


def wanted(part: Objective | Constraint) -> str:
    """What a metric must do, as the user said it."""
    if isinstance(part, Objective):
        return part.goal
    return f"at {'least' if part.at_most is None else 'most'} {part.bound}"


def relation(part: Constraint) -> str:
    """The same as a sign, for the heads of tables.

    >>> import bestarm as ba
    >>> relation(ba.at_most("time", 3, noise=ba.Symmetric()))
    '≤ 3'
    """
    return f"{'≥' if part.at_most is None else '≤'} {part.bound}"
