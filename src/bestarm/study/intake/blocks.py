"""Which tests make up the next block of a study, and to which blocks results belong that no test was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.state import ABSENT, Flags, Floats, Ints, Slices
from bestarm.problem import Plan
from bestarm.problem.blocks import MOST_TESTS_OF_BLOCK, BlockOrder, Blocks, replicates
from bestarm.problem.items import random_order
from bestarm.storage.base import Entries, Rounds
from bestarm.storage.errors import BlockTaken, BlockUnfinished
from bestarm.study.intake.items import MeasuredItems, Stream
from bestarm.validation import UNSTATED, InvalidInput


def measured_places(plan: Plan, seed: int) -> MeasuredItems | MeasuredBlocks | None:
    """What keeps the places of a study's tests, if they have any."""
    if plan.blocks is not None:
        return MeasuredBlocks(plan.blocks, seed)
    return None if plan.items is None else MeasuredItems(plan, seed)


def slices_in(items: MeasuredItems | MeasuredBlocks | None) -> Slices:
    """Where the items of slices stand in a study's order."""
    return ABSENT if items is None else items.slices


class MeasuredBlocks:
    """The blocks of a study so far."""

    slices: Slices = ABSENT

    def __init__(self, blocks: Blocks, seed: int) -> None:
        self.order = BlockOrder(blocks)
        self._blocks = blocks
        self._seed = seed
        self._next = 0

    def enter(self, entries: Entries) -> None:
        """Take in tests with their outcomes."""
        self._next = max(self._next, _after(entries.items.tolist()))

    def next_number(self, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries]) -> int:
        """The number of the next block, where `out` are tests without a result, and `late` have one that has not
        entered."""
        places = [place for _, place in out if place is not None]
        return max(self._next, _after([*places, *(place for part in late for place in part.items.tolist())]))

    def planned(self, rounds: Rounds, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries]) -> Rounds:
        """The block that makes these tests, the most important first: each as often as fits, in random places."""
        tests = [(arm, metric) for test in rounds for arm, metric, *_ in test]
        if not tests:
            return []
        often = replicates(len(tests), self._blocks)
        wells = [test for test, times in zip(tests, often, strict=False) for _ in range(times)]
        number = self.next_number(out, late)
        first = number * MOST_TESTS_OF_BLOCK
        order = random_order(self._seed, number, len(wells))
        return [[(*wells[well], first + position) for position, well in enumerate(order)]]


def blocks_out(out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries]) -> int:
    """How many blocks have tests without a result, or results that have not entered."""
    places = [place for _, place in out if place is not None]
    places += [place for part in late for place in part.items.tolist()]
    return len({place // MOST_TESTS_OF_BLOCK for place in places})


def _after(places: Iterable[int]) -> int:
    """The number of the block that follows all these places."""
    return 1 + max(places, default=-1) // MOST_TESTS_OF_BLOCK


class FreeBlocks:
    """The places of new results, in blocks of their own after all others."""

    def __init__(self, blocks: Blocks, number: int) -> None:
        self._blocks = blocks
        self._next = number
        self._own = {blocks.label(k) for k in range(number)}

    def assign(
        self, streams: Sequence[Stream], items: Sequence[str], skipped: Counter[Stream]
    ) -> list[int | InvalidInput]:
        """The place of each result, or what is wrong with it."""
        found: list[int | InvalidInput] = []
        seen: dict[str, int] = {}
        position = 0
        last = None
        for item in items:
            label = self._blocks.label_in(item)
            if label != last:
                position = 0
            if label != last and label in seen:
                reason = f"comes again after another {self._blocks.name}; the tests of one follow each other"
                found.append(InvalidInput("item", item, reason))
                continue
            last = label
            if label in self._own:
                reason = f"is the name of a {self._blocks.name} that this study has already; another has another name"
                found.append(InvalidInput("item", item, reason))
                continue
            seen.setdefault(label, len(seen))
            if position >= MOST_TESTS_OF_BLOCK:
                found.append(InvalidInput("item", item, f"has more than {MOST_TESTS_OF_BLOCK:,} tests"))
                continue
            found.append((self._next + seen[label]) * MOST_TESTS_OF_BLOCK + position)
            position += 1
        return found


def refused_block(blocks: Blocks, error: BlockTaken | BlockUnfinished) -> InvalidInput:
    """Why results of blocks are refused, in the study's words."""
    name = blocks.name
    if isinstance(error, BlockTaken):
        reason = (
            f"has been recorded already; all results of a {name} come in one go, and another {name} has another name"
        )
        return InvalidInput("item", error.name, reason)
    label = blocks.label(error.place // MOST_TESTS_OF_BLOCK)
    rest = f"{error.left:,} test{'' if error.left == 1 else 's'} of {label}"
    reason = (
        f"must wait: {rest} {'has' if error.left == 1 else 'have'} not been handed out; ask for the rest of it first"
    )
    return InvalidInput("results", UNSTATED, reason)


def ends_of_blocks(labels: Sequence[str]) -> list[int]:
    """The positions of the last result of each block."""
    return [k for k, label in enumerate(labels) if k + 1 == len(labels) or labels[k + 1] != label]


def whole_rounds(parts: Iterable[Entries]) -> Iterator[Entries]:
    """The same tests, up to the end of the last round that is complete: a block enters as a whole."""
    rest: Entries | None = None
    for part in parts:
        entries = part if rest is None else joined(rest, part)
        ends = np.flatnonzero(entries.ends)
        size = int(ends[-1]) + 1 if len(ends) else 0
        rest = some_of(entries, slice(size, None))
        if size:
            yield some_of(entries, slice(size))


def some_of(entries: Entries, rows: Any) -> Entries:
    """Some of the entries. Columns that are not there stay so."""
    columns: list[Any] = [column[rows] if len(column) else column for column in entries]
    return Entries(*columns)


def joined(first: Entries, second: Entries) -> Entries:
    """The tests of two pieces of a record, one after the other."""
    pairs: Any = zip(first, second, strict=True)
    columns: list[Any] = [np.concatenate(pair) for pair in pairs]
    return Entries(*columns)


def at_ends(parts: Sequence[Entries], looks: Ints) -> Ints:
    """The looks after so many tests, each put off to the end of its block."""
    ends = 1 + np.flatnonzero([end for part in parts for end in part.ends.tolist()])
    later: Ints = np.unique([0, *ends[np.searchsorted(ends, looks[1:])].tolist()])
    return later


def to_watch(blocks: Blocks, results: Entries) -> Entries:
    """The results that do not depend on each other: the first of each stream in each block or, if a block adds the same
    to all arms, all of them. Those of a block were issued together, and the n-th of all arms have the same place."""
    numbers = results.items // MOST_TESTS_OF_BLOCK
    known = np.flatnonzero(~np.isnan(results.values))
    _, stream = np.unique(np.column_stack([results.arms, results.metrics, numbers])[known], axis=0, return_inverse=True)
    rank = _ranks(stream.ravel())
    places, issued = results.items.copy(), numbers.astype(np.float64)
    places[known] = numbers[known] * MOST_TESTS_OF_BLOCK + rank
    watched = known if blocks.same_for_all else known[rank == 0]
    return some_of(results._replace(items=places, issued=issued), watched)


def _ranks(streams: Ints) -> Ints:
    """How many of the same stream come before each."""
    order = np.argsort(streams, kind="stable")
    counts = np.bincount(streams)
    ranks = np.zeros(len(streams), np.int64)
    ranks[order] = np.arange(len(streams)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


class Entering(NamedTuple):
    """Blocks that enter a study: the values that are compared, and the mean of each stream in each block, as one result
    of it."""

    compared: Ints
    """Rows are (arm, metric, place)."""
    values: Floats
    results: Ints
    """Rows are (arm, metric, where the places of the block end). The results of one test follow each other."""
    means: Floats
    ends: Flags
    """Whether a block ends with the result."""
    last: Ints
    """For each test that was made, where the places of its block end."""


def entering(blocks: Blocks, tests: Ints, values: Floats, begin: int) -> Entering:
    """How whole blocks enter, at the places from `begin` on: one place for each block, with means; or, if a block adds
    the same to all arms, one for the first tests of all arms in it, one for the second, and so on.

    Rows of `tests` are (arm, metric, place) of results, those of one test after the other.
    """
    numbers = tests[:, 2] // MOST_TESTS_OF_BLOCK
    keys = np.column_stack([tests[:, :2], numbers])
    # The first test of each kind has all its results side by side, so in the order of first rows they stay so.
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    stream = np.argsort(order)[inverse.ravel()]
    known = np.flatnonzero(~np.isnan(values))
    counts = np.bincount(stream[known], minlength=len(first))
    totals = np.bincount(stream[known], values[known], minlength=len(first))
    means = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
    results = keys[first[order]]
    # By block, how many places it has, and where they end.
    _, block = np.unique(results[:, 2], return_inverse=True)
    most = np.zeros(int(block.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, block, counts if blocks.same_for_all else np.minimum(counts, 1))
    last = begin + np.cumsum(most)
    start = (last - most)[block]
    if blocks.same_for_all:
        compared = np.column_stack([tests[known, :2], start[stream[known]] + _ranks(stream[known])])
        values = values[known]
    else:
        compared, values = np.column_stack([results[:, :2], start])[counts > 0], means[counts > 0]
    ends = np.append(results[1:, 2] != results[:-1, 2], True).astype(np.int8)
    results = np.column_stack([results[:, :2], last[block]])
    return Entering(compared, values, results, means, ends, last[block][stream])
