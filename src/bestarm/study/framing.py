"""Results in data frames, taken in by a study here or on a server."""

from __future__ import annotations

import abc
from collections.abc import Collection, Sequence
from typing import Any

from bestarm.problem import Plan
from bestarm.storage.errors import SourceTaken
from bestarm.study.intake.frames import digest_of, read_frame, taken_already
from bestarm.study.intake.new_results import NewResults


class Framing(abc.ABC):
    """The part of a study that takes in data frames."""

    @abc.abstractmethod
    def _plan_now(self) -> Plan:
        """The plan, with arms that have come meanwhile."""

    @abc.abstractmethod
    def _add(self, found: NewResults, source: str, key: str | None) -> Sequence[int]:
        """Record results that have been checked. A `source` is accepted once."""

    def add_frame(
        self,
        frame: Any,
        *,
        arm: str = "arm",
        metric: str = "metric",
        value: str = "value",
        item: str = "item",
        ignore: Collection[str] = (),
        again: bool = False,
        key: str | None = None,
    ) -> list[int]:
        """Record the results of a data frame that were measured without asking, in its order, all or none.

        Either each row has one value, in the columns arm, metric and value; rows of one test of several metrics follow
        each other and have the same number in a column test. Or each metric has a column of its own, and a row has the
        values of one test, or of several. The arguments say what the columns are called, and `ignore` names columns to
        leave out, which the study does not know. In a study with items, each row says the item. It may be a frame of
        pandas or polars, a table of pyarrow, or a dictionary of lists.

        Returns the ids of the tests. Give every result there is, in an order that has nothing to do with the values:
        picking some of them would bias the answer. The study did not choose which arm was measured when, and its report
        says so. The same results in the same order are taken for the same frame, and refused, unless you say `again`.
        A `key` is as in `Study.add`.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> study.add_frame({"arm": ["old", "new", "new"], "yield": [1.0, 2.0, 2.1]})
        [1, 2, 3]
        """
        how: dict[str, Any] = {"arm": arm, "metric": metric, "value": value, "item": item, "ignore": ignore}
        found = read_frame(self._plan_now(), frame, **how)
        try:
            return [*self._add(found, "" if again else f"frame sha256:{digest_of(found)}", key)]
        except SourceTaken:
            raise taken_already(found) from None
