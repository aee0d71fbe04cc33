"""A study's results as a pandas data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.noises.shares import as_number
from bestarm.storage.errors import reporting_damage
from bestarm.study.record.follower import Follower
from bestarm.validation import InvalidInput
from bestarm.validation import pandas as pandas_package

if TYPE_CHECKING:
    import pandas as pd


def frame_of(study: Follower, *, wide: bool) -> pd.DataFrame:
    """Every result: with `wide` a row for each test and a column for each metric, otherwise a row for each value."""
    pandas = pandas_package()
    plan, storage, record = study.plan, study.storage, study.record
    item = [] if plan.items is None else ["item"]
    if wide and (same := [metric for metric in plan.measured if metric in ("test", "arm", *item, "holder", "told")]):
        raise InvalidInput("wide", wide, f"the metric {same[0]!r} is called like another column; leave out wide")
    columns: dict[str, list[Any]] = {name: [] for name in ("test", "arm", "metric", "value", *item, "holder", "told")}
    with reporting_damage(storage.url), storage.snapshot():
        for part in storage.arrivals(record.key, 0) if record.by_arrival else storage.entries(record.key, 0, gaps=True):
            # Tests that were given up have no value.
            rows = np.flatnonzero(~np.isnan(part.values))
            more = part.more[rows] if len(part.more) else [()] * len(rows)
            columns["test"] += part.ids[rows].tolist()
            columns["arm"] += [plan.arm_names[arm] for arm in part.arms[rows].tolist()]
            columns["metric"] += [plan.yields[lead] for lead in part.metrics[rows].tolist()]
            values = zip(part.values[rows].tolist(), more, strict=True)
            columns["value"] += [tuple(map(as_number, (first, *(others or ())))) for first, others in values]
            columns["holder"] += part.holders[rows].tolist() if len(part.holders) else [""] * len(rows)
            columns["told"] += part.told[rows].tolist()
            if item:
                columns["item"] += map(study.item_name, part.items[rows].tolist())
    if wide:
        told = [dict(zip(*row, strict=True)) for row in zip(columns.pop("metric"), columns.pop("value"), strict=True)]
        by_metric = {metric: [values.get(metric, np.nan) for values in told] for metric in plan.measured}
        ends = {name: columns.pop(name) for name in ("holder", "told")}
        frame = pandas.DataFrame({**columns, **by_metric, **ends}).astype(dict.fromkeys(plan.measured, float))
    else:
        frame = pandas.DataFrame(columns).explode(["metric", "value"], ignore_index=True).astype({"value": float})
    told_at = pandas.to_datetime(frame["told"].astype(float), unit="s", utc=True)
    found: pd.DataFrame = frame.astype({"test": "int64"}).assign(told=told_at)
    return found
