"""Tests and results as the service takes them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.noises.shares import is_share
from bestarm.study.intake.names import Test, number_of
from bestarm.study.intake.new_results import GivenResult, fields_of
from bestarm.study.intake.values import VERDICTS, RefusedValue
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput, is_boolean

MOST_AT_ONCE = 10_000
"""Tests or results that the service takes in one request."""


def named_test(test: Test | int) -> dict[str, Any]:
    """A test as requests name it. With its arm, metric and item, the service checks that it is the one meant."""
    if isinstance(test, Test):
        item = {} if test.item is None else {"item": test.item}
        return {"test": test.id, "arm": test.arm, "metric": test.metric} | item
    return {"test": number_of(test)}


def told_result(test: Test | int, result: object) -> dict[str, Any]:
    """A result of a test that was asked for, as the service takes it."""
    return named_test(test) | {"value": plain_result(result)}


def given_result(result: GivenResult) -> dict[str, Any]:
    """A result measured without asking, as the service takes it."""
    arm, metric, values, item = fields_of(result)
    given = {"values" if metric is None else "value": plain_result(values)}
    named = {} if metric is None else {"metric": metric}
    return {"arm": arm} | named | given | ({} if item is None else {"item": item})


def plain_result(result: object) -> float | str | dict[str, float | str]:
    """What a test yields, as JSON can carry it."""
    if isinstance(result, Mapping):
        for metric in result:
            if not isinstance(metric, str):
                raise RefusedValue("value", dict(result), "must have the names of metrics", shown=quoted(dict(result)))
        return {metric: _number(value) for metric, value in result.items()}
    return _number(result)


def _number(value: object) -> float | str:
    """A value as JSON can carry it. Whether the metric can take it is for the service to say."""
    if is_share(value) or (isinstance(value, str) and value in VERDICTS):
        return str(value)
    if is_boolean(value):
        return bool(value)
    if not isinstance(value, numbers.Real):
        raise RefusedValue("value", value, "must be a number", shown=quoted(value))
    if not math.isfinite(value):
        raise RefusedValue("value", value, "must be a finite number", shown=quoted(value))
    return float(value)


def checked_batch(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Refuse results that are too many for one request."""
    if len(rows) > MOST_AT_ONCE:
        raise InvalidInput("results", UNSTATED, f"at most {MOST_AT_ONCE:,} at a time, not {len(rows):,}")
    return rows


def in_parts(ids: Sequence[int]) -> list[Sequence[int]]:
    """Numbers of tests, as many at a time as one request may have."""
    return [ids[start : start + MOST_AT_ONCE] for start in range(0, len(ids), MOST_AT_ONCE)]
