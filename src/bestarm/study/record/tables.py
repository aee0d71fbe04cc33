"""A study's record as tables: its results as a pandas frame, any frame's results into it, and how it went."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from bestarm.analysis.standing.knowledge import Moment
from bestarm.storage.base import Entries
from bestarm.storage.errors import making_sense
from bestarm.study.intake.frames import read_frame
from bestarm.study.intake.names import Numbering
from bestarm.study.record.courses import course_of
from bestarm.study.record.far_values import FarValues
from bestarm.study.record.follower import Follower
from bestarm.validation import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pandas as pd

    from bestarm.storage.columns import Columns
    from bestarm.study.intake.placing import Placing


MOST_POINTS = 10_000


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise InvalidInput("a data frame needs pandas: pip install 'bestarm[frame]'") from None


class Tables(FarValues):
    """A study's record as tables."""

    _numbering: Numbering

    def _add(
        self,
        rows: Columns,
        source: str,
        ends: Collection[int],
        key: str | None,
        places: Callable[[Placing], Sequence[int]],
    ) -> Sequence[int]:
        """Record results by number."""
        raise NotImplementedError

    def course(self, points: int = 100) -> list[Moment]:
        """How the study went: what was certain and what was open at about this many moments, the first before any
        result.

        It reads the record once more, so on a long one it takes as long as opening the study.
        """
        if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= MOST_POINTS:
            raise InvalidInput("points", points, f"must be a whole number from 1 to {MOST_POINTS:,}")
        self._look_for_arms()
        return course_of(Follower(self._storage, self._record), points)

    def frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Every result as a pandas data frame, in the order of the record: test, arm, metric, value, holder, told.

        A test of several metrics has a row for each. With `wide` it has one row, and each metric has a column. In a
        study with items there is a column item. A test that was corrected has its present value. Tests without a result
        are left out.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> _ = study.add([("old", "yield", 1.0), ("new", "yield", 2.0)])
        >>> study.frame().groupby("arm").value.mean().to_dict()
        {'new': 2.0, 'old': 1.0}
        """
        pandas = _pandas()
        self._look_for_arms()
        names = ("test", "arm", *(["item"] if self.plan.items is not None else []), "holder", "told")
        if wide and (same := [metric for metric in self.plan.measured if metric in names]):
            raise InvalidInput("wide", wide, f"the metric {same[0]!r} is called like another column; leave out wide")
        key, by_arrival = self._record.key, self._record.by_arrival
        with making_sense(self._storage.url), self._storage.snapshot():
            read = self._storage.arrivals(key, 0) if by_arrival else self._storage.entries(key, 0, gaps=True)
            table = _Table(self, [*read])
        found: pd.DataFrame = pandas.DataFrame(table.wide(pandas) if wide else table.long(pandas))
        return found

    def add_frame(
        self,
        frame: Any,
        *,
        arm: str = "arm",
        metric: str = "metric",
        value: str = "value",
        item: str = "item",
        again: bool = False,
        key: str | None = None,
    ) -> list[int]:
        """Record the results of a data frame that were measured without asking, in its order, all or none.

        Either each row has one value, in the columns arm, metric and value; rows of one test of several metrics follow
        each other and have the same number in a column test. Or each metric has a column of its own, and a row has the
        values of one test, or of several. The arguments say what the columns are called. In a study with items, each
        row says the item. It may be a frame of pandas or polars, a table of pyarrow, or a dictionary of lists.

        Returns the ids of the tests. Give every result there is: picking some of them would bias the answer. The same
        results in the same order are taken for the same frame, and refused, unless you say `again`. A `key` is as in
        `Study.add`.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> study.add_frame({"arm": ["old", "new", "new"], "yield": [1.0, 2.0, 2.1]})
        [1, 2, 3]
        """
        self._look_for_arms()
        found = read_frame(self.plan, self._numbering, frame, arm=arm, metric=metric, value=value, item=item)
        source = "" if again else f"frame sha256:{found.digest}"
        with found.taken_once():
            return [*self._add(found.columns, source, (), key, found.places)]


class _Table:
    """The results of a study, test by test."""

    def __init__(self, study: Follower, parts: list[Entries]) -> None:
        self._plan = study.plan
        yields = study.plan.yields
        self._ids = np.concatenate([np.empty(0, np.int64), *(part.ids for part in parts)])
        arms = np.concatenate([np.empty(0, np.int64), *(part.arms for part in parts)])
        self._leads = np.concatenate([np.empty(0, np.int64), *(part.metrics for part in parts)])
        self._told = np.concatenate([np.empty(0), *(part.told for part in parts)])
        self._values = np.full((len(self._ids), max(map(len, yields.values()))), np.nan)
        self._values[:, 0] = np.concatenate([np.empty(0), *(part.values for part in parts)])
        more = [values or () for part in parts for values in (part.more if len(part.more) else [()] * len(part.ids))]
        for row, values in enumerate(more):
            self._values[row, 1 : 1 + len(values)] = values
        holders = [who for part in parts for who in (part.holders if len(part.holders) else [""] * len(part.ids))]
        items = [at for part in parts for at in (part.items.tolist() if len(part.items) else [-1] * len(part.ids))]
        self._arms = np.array(study.plan.arm_names, object)[arms]
        self._holders = np.array(holders, object)
        self._items = np.array([study.item_name(None if at < 0 else at) for at in items], object)
        # Tests that were given up have no value.
        self._rows = np.flatnonzero(~np.isnan(self._values[:, 0]))

    def _columns(self, pandas: Any, rows: Any) -> dict[str, Any]:
        item = {} if self._plan.items is None else {"item": self._items[rows]}
        told = pandas.to_datetime(self._told[rows], unit="s", utc=True)
        return {
            "test": self._ids[rows],
            "arm": self._arms[rows],
            "value": None,
            **item,
            "holder": self._holders[rows],
            "told": told,
        }

    def long(self, pandas: Any) -> dict[str, Any]:
        """A row for each value."""
        yields = self._plan.yields
        names = np.full((len(self._plan.parts), self._values.shape[1]), "", object)
        for lead, metrics in yields.items():
            names[lead, : len(metrics)] = metrics
        sizes = np.array([len(yields.get(lead, ())) for lead in range(len(names))])[self._leads[self._rows]]
        rows = np.repeat(self._rows, sizes)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found = self._columns(pandas, rows)
        found["value"] = self._values[rows, place]
        metric = {"metric": names[self._leads[rows], place]}
        return {"test": found.pop("test"), "arm": found.pop("arm"), **metric, **found}

    def wide(self, pandas: Any) -> dict[str, Any]:
        """A row for each test, a column for each metric; NaN where the test does not yield it."""
        rows = self._rows
        found = self._columns(pandas, rows)
        values = {metric: np.full(len(rows), np.nan) for metric in self._plan.measured}
        for lead, metrics in self._plan.yields.items():
            here = self._leads[rows] == lead
            for place, metric in enumerate(metrics):
                values[metric][here] = self._values[rows[here], place]
        ends = {"holder": found.pop("holder"), "told": found.pop("told")}
        del found["value"]
        return {**found, **values, **ends}
