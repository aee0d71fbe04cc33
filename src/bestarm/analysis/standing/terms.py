"""What is asked of a metric, in the user's words: which of its figures counts, and where it must lie."""

from __future__ import annotations

import dataclasses

from bestarm.problem import Constraint, Objective
from bestarm.validation import exact

MEAN = "mean"


@dataclasses.dataclass(frozen=True)
class Share:
    """The share of results beyond the threshold of a quantile constraint, its interval, and its limit."""

    value: float
    low: float
    high: float
    limit: float


def percentage(share: float) -> str:
    """A share in percent, with as many digits as it takes; measured ones are rounded to three before."""
    return f"{100.0 * share:.10g}%"


def statistic(part: Objective | Constraint) -> str:
    """What of the metric counts: its mean or a quantile.

    >>> import bestarm as ba
    >>> [statistic(ba.at_most("latency", 200, noise=ba.Quantile(q))) for q in (0.99, 0.999, 0.5)]
    ['99% quantile', '99.9% quantile', 'median']
    """
    if not (isinstance(part, Constraint) and part.noise.is_share):
        return MEAN
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


def required(part: Constraint) -> str:
    """Which side of its threshold a metric must lie on: the threshold itself is only allowed if nothing varies.

    >>> import bestarm as ba
    >>> required(ba.at_most("size", 3, noise=ba.Exact())), required(ba.at_most("time", 3, noise=ba.Symmetric()))
    ('at most 3', 'below 3')
    """
    if part.noise.is_exact:
        return wanted(part)
    return f"{'above' if part.at_most is None else 'below'} {part.bound}"


def relation(part: Constraint) -> str:
    """The same as a sign, for the heads of tables."""
    signs = ("≥", "≤") if part.noise.is_exact else (">", "<")
    return f"{signs[part.at_most is not None]} {part.bound}"
