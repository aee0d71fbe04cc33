"""Campaigns: instances × policies × bounds × deltas, many runs each, on any executor. After a kill they continue."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import IO, Any

from bestarm.parsing import read_json
from bestarm.policies import all_policies, find_policy
from bestarm.policies.base import Policy
from bestarm.policies.from_file import description_of
from bestarm.problem import Plan
from bestarm.problem.goals import answers_sets
from bestarm.simulation.device import open_schedule
from bestarm.simulation.engine import Job
from bestarm.simulation.record import Record
from bestarm.simulation.simulate import DEFAULT_MAX_TESTS, Simulation, checked_limits
from bestarm.texts import cell as csv_cell
from bestarm.validation import InvalidInput, pandas

CHUNK_SECONDS = 1.0
"""How long a task should take: long enough to be worth sending, short enough that losing it does not matter."""

CampaignProgress = Callable[[int, int, float | None], None]
"""Called with (runs done, runs in all, seconds left or None)."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One square of the grid: an instance, a policy, a bound and a delta. `kind` is the policy's class, if it
    cannot be found by its name."""

    plan: Plan
    policy: str
    kind: type[Policy] | None = None

    @property
    def key(self) -> str:
        options = f" | {json.dumps(dict(self.plan.options))}" if self.plan.options else ""
        return f"{self.plan.name} | {self.policy} | {self.plan.bound} | {self.plan.delta!r}{options}"


@dataclasses.dataclass(frozen=True)
class Campaign:
    """A grid of simulations, `runs` of each cell.

    >>> import bestarm as ba
    >>> grid = Campaign.grid([ba.instance("exp1-a")], policies=["racing", "tf-lucb"], deltas=[0.1, 0.01], runs=10)
    >>> len(grid.cells)
    4
    """

    cells: tuple[Cell, ...]
    runs: int
    seed: int = 0
    max_tests: int = DEFAULT_MAX_TESTS

    def __post_init__(self) -> None:
        checked_limits(self.runs, self.seed, self.max_tests)
        if not self.cells:
            raise InvalidInput("a campaign needs at least one instance, policy, bound and delta")
        for plan in (cell.plan for cell in self.cells):
            if answers_sets(plan.asks):
                reason = f"{plan.name}: a campaign keeps one arm of each answer, and not a set; simulate it by itself"
                raise InvalidInput("goal", plan.goal, reason)
        keys = [cell.key for cell in self.cells]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise InvalidInput(f"the campaign names {twice[0]!r} twice (instance | policy | bound | delta | options)")

    @classmethod
    def grid(
        cls,
        plans: Sequence[Plan],
        *,
        policies: Sequence[str | type[Policy]],
        bounds: Sequence[str] | None = None,
        deltas: Sequence[float] | None = None,
        runs: int = 1000,
        seed: int = 0,
        max_tests: int = DEFAULT_MAX_TESTS,
    ) -> Campaign:
        """Every combination. Where no bounds or deltas are given, a plan's own apply. Policies are names or classes. A
        plan's options apply to its own policy only."""
        cells = tuple(
            Cell(Plan.of(plan, bound=bound, delta=delta, policy=name), name, kind)
            for plan in plans
            for name, kind in map(_named, policies)
            for bound in bounds or [plan.bound]
            for delta in deltas or [plan.delta]
        )
        return cls(cells, runs, seed, max_tests)

    def jobs(self) -> list[Job]:
        return [
            Job.of(cell.plan, find_policy(cell.kind or cell.policy), seed=self.seed, max_tests=self.max_tests)
            for cell in self.cells
        ]

    def description(self) -> dict[str, Any]:
        """What the numbers depend on, apart from how many runs there are."""
        own = {cell.policy: description_of(cell.kind) for cell in self.cells if cell.kind is not None}
        return {
            "seed": self.seed,
            "max_tests": self.max_tests,
            "cells": {cell.key: cell.plan.to_data() for cell in self.cells},
            **({"policies": own} if own else {}),
        }

    def run(
        self,
        folder: str | Path,
        *,
        executor: str | Executor | None = None,
        workers: int | None = None,
        device: str = "cpu",
        progress: CampaignProgress | None = None,
    ) -> CampaignResult:
        """Compute what is missing in `folder`, on a device as in `simulate`, and write the tables there.

        Chunks are written to disk as they finish. The same campaign in the same folder continues where it stopped, and
        ends with the same numbers.
        """
        *_, workers = checked_limits(self.runs, self.seed, self.max_tests, workers)
        jobs = self.jobs()
        keys = [cell.key for cell in self.cells]
        folder = _prepared(Path(folder), self.description())
        record = Record(folder / "chunks.jsonl", keys, self.runs)
        try:
            missing = [record.results[key].missing() for key in keys]
            left = sum(last - first for spans in missing for first, last in spans)
            total = self.runs * len(keys)
            if left:
                with open_schedule(
                    *(jobs, missing), device=device, executor=executor, workers=workers, chunk_seconds=CHUNK_SECONDS
                ) as schedule:
                    if progress is not None:
                        progress(total - left, total, None)
                    for done in schedule:
                        record.append(keys[done.piece.job], done)
                        left -= done.piece.runs
                        if progress is not None:
                            progress(total - left, total, schedule.seconds_left())
            result = CampaignResult(self, tuple(self._simulations(record)))
        except OSError as error:
            raise InvalidInput(f"{folder}: cannot be written: {error.strerror or error}") from error
        finally:
            record.close()
        result.save(folder)
        return result

    def _simulations(self, record: Record) -> Iterator[Simulation]:
        for cell in self.cells:
            results = record.results[cell.key]
            yield Simulation(
                plan=cell.plan,
                policy=cell.policy,
                seed=self.seed,
                max_tests=self.max_tests,
                answers=results.answers,
                tests=results.tests,
                cost=results.cost,
                tests_per_stream=None,
                seconds=max(record.seconds[cell.key], 1e-9),
            )


def _named(policy: str | type[Policy]) -> tuple[str, type[Policy] | None]:
    """A policy's name, and its class unless the name says which it is."""
    if isinstance(policy, str):
        return policy, None
    kind = find_policy(policy)
    return kind.name, None if all_policies().get(kind.name) is kind else kind


def _prepared(folder: Path, description: dict[str, Any]) -> Path:
    """The folder, created if need be, with its description. A folder with another campaign is refused."""
    path = folder / "campaign.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            there = read_json(path.read_bytes())
            if not isinstance(there, dict):
                raise InvalidInput("it holds no table of fields")
        else:
            there = description
            with replacing(path) as file:
                json.dump(description, file, indent=1)
    except InvalidInput as error:
        raise InvalidInput(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise InvalidInput(f"{folder}: cannot be written: {error.strerror or error}") from None
    for key in (*description, *there):
        if there.get(key) != description.get(key):
            raise InvalidInput(
                f"{folder} holds another campaign (its {key} differ): name another folder, or remove this one"
            )
    return folder


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A file that replaces `path` only once it is complete."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


@dataclasses.dataclass(frozen=True)
class CampaignResult:
    """The outcome of a campaign: a simulation per cell, and the same as tables."""

    campaign: Campaign
    simulations: tuple[Simulation, ...]

    def rows(self) -> Iterator[tuple[str, str, str, float, int, str, int, float]]:
        """A row per run: instance, policy, bound, delta, run, answer ("" if unfinished), tests, cost."""
        for simulation in self.simulations:
            plan = simulation.plan
            for run, answer in enumerate(simulation.answer_names()):
                yield (
                    *(plan.name, simulation.policy, plan.bound, plan.delta),
                    *(run, answer or "", int(simulation.tests[run]), float(simulation.cost[run])),
                )

    def summary(self) -> list[dict[str, Any]]:
        """A row per cell."""
        keys = [
            *("instance", "policy", "bound", "delta", "runs", "seed", "mean_tests", "sd_tests", "se_tests"),
            *("mean_cost", "error_rate", "unfinished"),
        ]
        return [{key: simulation.summary()[key] for key in keys} for simulation in self.simulations]

    def frame(self) -> Any:
        """A pandas data frame, a row per run."""
        return pandas().DataFrame(self.rows(), columns=list(COLUMNS))

    def find(self, instance: str, policy: str, **fields: Any) -> Simulation:
        """The simulation of one cell; `bound` or `delta` where the grid has several."""
        for s in self.simulations:
            if (
                s.plan.name == instance
                and s.policy == policy
                and all(getattr(s.plan, k) == v for k, v in fields.items())
            ):
                return s
        raise KeyError((instance, policy, fields))

    def save(self, folder: Path) -> None:
        """Write runs.csv, summary.csv and, if pyarrow is there, runs.parquet."""
        with replacing(folder / "runs.csv") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([csv_cell(item) if isinstance(item, str) else item for item in row] for row in self.rows())
        summary = self.summary()
        with replacing(folder / "summary.csv") as file:
            table = csv.DictWriter(file, list(summary[0]))
            table.writeheader()
            table.writerows({k: csv_cell(v) if isinstance(v, str) else v for k, v in row.items()} for row in summary)
        if importlib.util.find_spec("pyarrow") is not None:
            arrow: Any = importlib.import_module("pyarrow")
            parquet: Any = importlib.import_module("pyarrow.parquet")
            columns = zip(*self.rows(), strict=True)
            data = arrow.table({name: list(column) for name, column in zip(COLUMNS, columns, strict=True)})
            partial = folder / "runs.parquet.partial"
            parquet.write_table(data, partial)
            partial.replace(folder / "runs.parquet")


COLUMNS = ("instance", "policy", "bound", "delta", "run", "answer", "tests", "cost")
