"""What a gate on logs came to, in words, and as JSON and Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bestarm.analysis.health.checks import has_wide_range
from bestarm.analysis.health.watch import WIDE_RANGE
from bestarm.analysis.standing.arms import MetricStanding
from bestarm.answer import finite, void_words
from bestarm.race.logs.gate import BASELINE, CANDIDATE, LogGate
from bestarm.race.logs.limits import label
from bestarm.race.tables import markdown_table
from bestarm.texts import first_ten, listed, quoted, side_by_side

_POPULATION = "items like these"


def verdict(gate: LogGate) -> str:
    """The conclusion in one sentence."""
    after = f"after {gate.used:,} of {len(gate.pairs.items):,} items"
    sure = f"with {100 * (1 - gate.delta):g}% confidence"
    if gate.found == "void":
        return f"VOID: nothing is guaranteed {after}; {void_words(gate.status.void_because)}."
    if gate.found == "certified":
        return f"CERTIFIED {sure} {after}: the candidate meets every limit on {_POPULATION}."
    if gate.found == "refuted":
        return f"REFUTED {sure} {after}: the candidate does not meet every limit on {_POPULATION}."
    return f"UNDECIDED after all {len(gate.pairs.items):,} items: they leave it open whether every limit is met."


def rows(gate: LogGate) -> Iterator[tuple[str, str, str, str, str, str]]:
    """For each limit: what it says, its verdict, the means, ratios or quantiles on exactly these items, the candidate's
    minus the baseline's (times the factor of the limit), and between what that lies for the population.
    """
    for limit, stands, base, ends in zip(gate.limits, gate.standings, gate.baseline, gate.apart, strict=True):
        known = {"holds": "met", "violated": "violated"}.get(stands.verdict or "", "open")
        if not limit.relative_to_baseline:
            old, new, low, high = side_by_side(base.mean, stands.mean, stands.low, stands.high)
            yield label(limit), known, old, new, "", _between(low, high, stands)
        else:
            means = gate.means(limit.metric)
            old, new = side_by_side(*means)
            apart = side_by_side(means[1] - limit.threshold * means[0], *ends)
            signed = [text if text.startswith("-") else f"+{text}" for text in apart]
            yield label(limit), known, old, new, signed[0], f"{signed[1]} to {signed[2]}"


def _between(low: str, high: str, stands: MetricStanding) -> str:
    if math.isinf(stands.low) and math.isinf(stands.high):
        return "unknown"
    if math.isinf(stands.high):
        return f"{low} or more"
    return f"{high} or less" if math.isinf(stands.low) else f"{low} to {high}"


def notes(gate: LogGate) -> Iterator[str]:
    """What the verdict rests on, and what it says nothing about."""
    pairs, count = gate.pairs, len(gate.pairs.items)
    if gate.more_items is not None:
        yield more_words(gate)
    yield (
        f"On these {count:,} items themselves nothing is uncertain: their figures are those shown. The verdict and the "
        f"intervals are about {_POPULATION}: they are taken for a random sample, and neither log's model was made or "
        "chosen by its results on them."
    )
    yield (
        f"Items entered in a random order, drawn before anything was compared; --seed {gate.seed} repeats it. To try "
        "seeds until one passes voids the verdict."
    )
    if pairs.seen_before:
        yield f"The first {pairs.seen_before:,} items are those of the earlier verdict, in its order."
    epochs = max(log.epochs for log in gate.logs)
    if epochs > 1:
        yield f"There are up to {epochs} epochs of an item; it counts with its mean over them."
    for metric in pairs.metrics:
        noises = [limit.noise for limit in gate.limits if metric in limit.measures and not limit.noise.is_share]
        if noises:
            yield f"Assumed of {metric}: {noises[0].sentence()}."
    if pairs.left_out:
        yield (
            f"Left out: {len(pairs.left_out):,} items that lack a result ({first_ten(pairs.left_out)}). That is right "
            "only if why they lack it has nothing to do with how well they would have done."
        )
    if pairs.filled:
        yield f"Counted as stated, for want of a result: {len(pairs.filled):,} items ({first_ten(pairs.filled)})."
    yield from gate.status.health.warnings


def more_words(gate: LogGate) -> str:
    """How many more items would settle it, as far as that can be known."""
    more = gate.more_items
    assert more is not None
    basis = f"{more.runs} continuations simulated from the pairs seen"
    if math.isinf(more.half):
        why = _wide_range(gate) or "The candidate is too close to a limit; another limit, or another candidate, would."
        return (
            f"More items like these are unlikely to settle it: of {basis}, {more.open} were still open at "
            f"{more.limit:,} items. {why}"
        )
    most = f"nine in ten within {_rounded(more.most)}" if math.isfinite(more.most) else f"{more.open} did not"
    ends = [f"{more.certified} certified", f"{more.refuted} refuted", f"{more.open} open at {more.limit:,} items"]
    return (
        f"About {_rounded(more.half)} more items would settle it: half of {basis} ended within so many, {most} "
        f"({', '.join(ends)}). They must be new items, drawn as these were; --after goes on from here."
    )


def _wide_range(gate: LogGate) -> str:
    """What to do if the values of an open limit use a small share of the range that was stated of them."""
    for limit, stands in zip(gate.limits, gate.standings, strict=True):
        if stands.verdict in ("holds", "violated") or len(limit.measures) > 1 or not has_wide_range(limit.noise):
            continue
        values, (low, high) = gate.pairs.values[:, :, gate.pairs.metrics.index(limit.metric)], limit.noise.range
        if np.ptp(values) * WIDE_RANGE < high - low:
            return (
                f"The values of {limit.metric} lie between {values.min():.6g} and {values.max():.6g}, a small share of "
                f"their stated range of {low:.6g} to {high:.6g}, and what is certain goes by that range. State a "
                "narrower one that no value can leave."
            )
    return ""


def _rounded(number: float) -> str:
    """Two digits are all that a simulation knows."""
    return f"{float(f'{number:.1e}'):,.0f}"


def as_json(gate: LogGate) -> str:
    return json.dumps(to_dict(gate), indent=2, ensure_ascii=False)


def to_dict(gate: LogGate) -> dict[str, Any]:
    pairs, more = gate.pairs, gate.more_items
    limits = []
    then = [arm.metrics[1:] for arm in gate.status.arms]
    all_of = zip(gate.limits, gate.baseline, gate.standings, gate.apart, *then, strict=True)
    for limit, base, stands, apart, base_then, stands_then in all_of:
        means = gate.means(limit.metric)
        ends = apart if limit.relative_to_baseline else (stands.low, stands.high)
        limits.append(
            {
                "limit": label(limit),
                "verdict": stands.verdict,
                "metric": limit.metric,
                "means_of_these_items": dict(zip((BASELINE, CANDIDATE), means, strict=True)),
                "relative": bool(limit.relative_to_baseline),
                # What the limit is about: a mean, a quantile or a ratio.
                "of_these_items": {BASELINE: finite(base.mean), CANDIDATE: finite(stands.mean)},
                "when_decided": {BASELINE: finite(base_then.mean), CANDIDATE: finite(stands_then.mean)},
                # The limits of the difference to the baseline, if it is relative.
                "interval": [*map(finite, ends)],
            }
        )
    return {
        "found": gate.found,
        "decided": gate.decided,
        "verdict": verdict(gate),
        "void_because": [*gate.status.void_because],
        "delta": gate.delta,
        "seed": gate.seed,
        "logs": {word: log.name for word, log in zip((BASELINE, CANDIDATE), gate.logs, strict=True)},
        "programs": [log.program for log in gate.logs],
        "limits": limits,
        "used": gate.used,
        "more_items": more
        and {
            "continuations": more.runs,
            "half_within": finite(more.half),
            "nine_in_ten_within": finite(more.most),
            "given_up_at": more.limit,
            "certified": more.certified,
            "refuted": more.refuted,
            "open": more.open,
        },
        "notes": [*notes(gate)],
        "left_out": [*pairs.left_out],
        "counted_as_stated": [*pairs.filled],
        "metrics": [*pairs.metrics],
        "items": [*pairs.items],
        "digest": pairs.digests[-1],
    }


def as_markdown(gate: LogGate) -> str:
    """A table of the limits, and the verdict below it."""
    heads = ["Limit", "Verdict", "Baseline", "Candidate", "Apart", "Items like these"]
    lines = markdown_table(heads, rows(gate), {0, 1})
    return "\n".join([*lines, "", verdict(gate), *([more_words(gate)] if gate.more_items else []), ""])


EXPORTS = {"json": as_json, "markdown": as_markdown}


def sides(gate: LogGate) -> str:
    """Which logs are compared."""
    names = [
        f"{word} {quoted(log.name)[1:-1]} ({log.program})"
        for word, log in zip((BASELINE, CANDIDATE), gate.logs, strict=True)
    ]
    return listed(names)
