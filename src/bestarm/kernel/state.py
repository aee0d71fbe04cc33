"""What a policy is handed: the setting it works in, the streams' statistics, and the batch it fills.

The normal form that policies see: the objective is to be made large, and an arm is feasible when the mean of every
constraint lies below its threshold. Metric 0 is the objective, metrics 1 to N the constraints; stream (i, l)
is metric l of arm i. Policies do not see how the user stated the problem (minimize, at least, units).

A value in normal form is the user's value times the metric's sign, minus the metric's `reference`. Thresholds, ranges,
sums and means are relative to the reference too, so that values near 10^9 keep as many digits as values near 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel
from bestarm.kernel.packing import BASE, EACH, MOST_PACKED, PACKED, SCALE

NONE = -1
"""The answer "no arm is feasible"."""
UNFINISHED = -2
"""No answer: the run's limit of tests came first."""
EMPTY = -3
"""No answer: the policy proposed a batch without a test, which is a mistake in the policy."""

ROUNDING = 2.0**-53
"""The largest error of one floating-point operation, as a share of its result."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
"""Counts of tests, and numbers of arms or metrics."""
Flags = npt.NDArray[np.int8]
Batch = npt.NDArray[np.uint32]
"""Row k of a batch is one test to make: (arm, metric)."""


# Features that change what a claim rests on, by number. Kernels choose by them, and they share no number with a noise.
SEPARATE, ON_ITEMS = 1000, 1001
"""How arms are compared: by streams that do not depend on each other, or item by item."""
FIXED, RELATIVE = 1002, 1003
"""What limits constraints: thresholds alone, or for some metrics the mean of a baseline arm."""
SHARED, RESERVED = 1004, 1005
"""Among whom delta is shared: the arms there are, or also arms that come later."""
FIRST_RULES, SECOND_RULES = 1006, 1007
"""The edition of the rules that decide: `Plan.rules`."""
SEARCHING, TRACKING = 1008, 1009
"""How tests are chosen: for the open certificates of the likeliest answer, or in the proportions that are best for the
measured means, with evidence that grows as fast as theirs."""

UNJUDGED, JUDGED = 1010, 1011
"""Whether a judge has scored the items, for some metric, before the first is measured."""

ABSENT: Any = ()
"""The part of a setting or of streams that belongs to a feature which a study does not use."""


class Judge(NamedTuple):
    """What judges say of the items, in normal form. It is there before the first result."""

    scores: Floats
    """[arm, metric, place]: NaN where there is none."""
    means: Floats
    """[arm, metric]: the mean of the scores of all items."""


class Slices(NamedTuple):
    """Where the items stand that count for a metric, in the order of all items. A result on an item is kept at its
    rank among those that count."""

    sizes: Ints
    """By metric: how many items count."""
    places: Ints
    """[metric, rank]: the place of an item."""
    ranks: Ints
    """[metric, place]: the rank of the item there, or -1 if it does not count."""


class Items(NamedTuple):
    """What a setting has in addition where arms are compared item by item."""

    places: int
    """How often an arm can be measured at most."""
    differences: Setting
    """The setting of how much the leader is better than another arm on an item."""
    contrasts: Setting
    """The setting of how far an arm's value on an item exceeds the factor times the baseline's; absent where no
    constraint is relative."""
    capacity: int = 0
    """How many tests a block has, where items are blocks: each is there for one round of tests. Otherwise 0."""
    is_each_compared: int = 0
    """Whether, in blocks, the n-th tests of two arms in a block are compared. If not, their means are."""
    is_scatter_free: int = 0
    """Whether, in blocks, nothing is stated of how differences scatter: one at most doubles the evidence."""
    judge: Judge = ABSENT
    slices: Slices = ABSENT


class Relative(NamedTuple):
    """What a setting has in addition where constraints are relative to a baseline."""

    baseline: int
    factor: Floats
    """By metric: what the baseline's mean is multiplied with; 0 where the limit is a threshold."""
    margin: Floats
    """By metric: what is added to that."""


class Reserve(NamedTuple):
    """What a setting has in addition where arms may come later and be retired. Then `level` is what certificates about
    one arm alone must reach."""

    came: Ints
    """By arm: its number among those that came later, or 0."""
    is_retired: Flags
    rarity: Floats
    """By arm: the log of 1 / its share of delta."""
    is_reduced: int
    """Whether an arm that was there from the start is retired."""
    first_pairs: float
    later_pairs: float
    """Where the level of a pair begins: of two arms that were there from the start, if `is_reduced`, and of others."""
    first: Ints
    """By arm, on items: the place of its first test."""
    since: Ints
    """By arm, on items: the place from which on its results are evidence. Those before were met before it came."""


class Tracking(NamedTuple):
    """What a setting has in addition where tests are tracked: by metric, the logs of a constraint's weight in the
    product of the evidence that constraints are violated, and of the rest of 1. In the sum that goes with it they weigh
    what `log_weight` says."""

    log_part: Floats
    log_rest: Floats


class Setting(NamedTuple):
    """What is known before the first test. Entries are by metric; tables are by count, read through `slot`."""

    reference: Floats
    """What values, thresholds and ranges are relative to. Code that shows them adds it back; no kernel reads it."""
    threshold: Floats
    slack: Floats
    """How far a mean may miss its threshold and still count as feasible."""
    log_weight: Floats
    """log of a constraint's prior weight; the weights of the constraints add up to 1."""
    sigma: Floats
    inverse_sigma: Floats
    cost: Floats
    """[arm, metric]: the cost of a test, at the first metric of its bundle; 0 at the others, so that costs add up."""
    inverse_cost: Floats
    """[arm, metric]: 1 / the cost of a test that measures it."""
    lead: Ints
    """The first metric of its bundle: metrics that one test measures together. It stands for the bundle in a batch."""
    following: Ints
    """The next metric of its bundle, or -1."""
    queue: Ints
    """The first metric of its bundle that is about the same items: what the next test of it is called in a batch.
    Without slices, that is `lead`."""
    is_bundled: int
    """Whether any bundle has more than one metric."""
    kind: Ints
    low: Floats
    high: Floats
    width: Floats
    numbers: Floats
    """The noise of each metric, as a `bestarm.noises.streams.Stream` has it; `numbers` is [metric, k]."""
    level: Floats
    """By arm: the log of what the evidence must reach that a constraint of it holds, or that it is better than
    another."""
    rejecting: Floats
    """By arm: the log of what the evidence must reach that it is infeasible."""
    log_worse: float
    log_both: float
    """The logs of the weights of two ways to show that an arm is not better: that it is worse, and that together with
    evidence that it is infeasible; the weights add up to 1."""
    is_joint: int
    """Whether any constraint is measured together with the objective."""
    tolerance: float
    delta: float
    radius: Floats
    """Half-width of the confidence interval after n samples, for sigma = 1."""
    root_log: Floats
    """sqrt(2 log n)"""
    inverse_root: Floats
    """1 / sqrt(n)"""
    mixture: Floats
    """What `bestarm.noises.mixture` looks up: two entries for each n."""
    goal: int = 0
    """The place of what is asked for in `bestarm.problem.goals.ASKED`."""
    top: int = 1
    """How many arms the answer has at most."""
    aside: int = -1
    """The arm that only says what the limits of the others are: no certificate is about it. -1 if there is none."""
    log_members: float = 0.0
    """The log of how many arms of the answer each other arm has to be compared with."""
    pairing: int = SEPARATE
    limits: int = FIXED
    sharing: int = SHARED
    rules: int = SECOND_RULES
    sampling: int = SEARCHING
    judging: int = UNJUDGED
    items: Items = ABSENT
    relative: Relative = ABSENT
    reserve: Reserve = ABSENT
    tracking: Tracking = ABSENT
    pooled: Setting = ABSENT
    """The setting of results of several arms in one stream, where each arm is compared with its challengers."""
    options: Any = ABSENT
    """The policy's own parameters, if it has any: the named tuple that its class declares, in numbers."""
    is_hurried: int = 0
    """Whether long computations are left for later: then `propose` returns `conclude(UNFINISHED)`, and is asked again.
    Only an engine says so, for kernels that are `patient`."""


def features_of(setting: Setting) -> tuple[int, ...]:
    """The numbers of features by which kernels choose in a setting."""
    return setting.pairing, setting.limits, setting.sharing, setting.rules, setting.sampling, setting.judging


class ItemStreams(NamedTuple):
    """What streams have in addition where arms are compared item by item."""

    values: Floats
    """[arm, metric, place]: NaN where there is none."""
    reached: Ints
    """[arm, metric]: the results at the places before this one have entered. In a block, an arm may have none."""
    differences: Streams
    """How much leaders were better than each arm, in the row that `bestarm.evidence.items.row_of` tells."""
    against: Ints
    """[slot, arm]: the leader that the arm's differences are about."""
    compared: Ints
    """By row of the differences: they are known up to this place."""
    contrasts: Streams
    """By arm and metric: the excess over the factor times the baseline's value; absent where no constraint is
    relative."""
    contrasted: Ints
    """[arm, metric]: the contrasts are known up to this place."""
    adjusted: Floats
    """[arm, 0]: in blocks, the sum of the arm's performance less what its blocks added, by estimate; [arm, 1]: of how
    many."""
    adjusted_to: Ints
    """[0]: that is known up to this block."""


class Streams(NamedTuple):
    """The statistics of every stream, [arm, metric]."""

    counts: Ints
    means: Floats
    sums: Floats
    kept: Floats
    """[arm, metric, k]: further statistics that a metric's noise keeps."""
    items: ItemStreams = ABSENT


def new_streams(arms: int, metrics: int, kept: int = 0) -> Streams:
    """Streams without results, whose noises keep at most `kept` further numbers."""
    shape = (arms, metrics)
    return Streams(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape), np.zeros((*shape, kept)))


@kernel
def count_result(streams: Streams, arm: int, metric: int, value: float) -> None:
    """Add one observation to its stream's count and sum, or several that are packed into one number."""
    trials = 1
    if PACKED < value < MOST_PACKED:
        trials = int(value / EACH + 0.5)
        value = value / SCALE - BASE * trials
    n = streams.counts[arm, metric] + trials
    total = streams.sums[arm, metric] + value
    streams.counts[arm, metric] = n
    streams.sums[arm, metric] = total
    streams.means[arm, metric] = total / n


@kernel
def total_cost(setting: Setting, streams: Streams) -> float:
    """What all tests so far have cost."""
    cost = 0.0
    for arm in range(streams.counts.shape[0]):
        for metric in range(streams.counts.shape[1]):
            cost += setting.cost[arm, metric] * streams.counts[arm, metric]
    return cost


@kernel
def rounding_error(n: int, mean: float) -> float:
    """How uncertain rounding leaves the mean of n numbers. Additions round, as do the division and a step to a bound.

    This holds if no partial sum is much larger than the last one. It exceeds the stated noise only 10^15 sigmas away.
    """
    return ROUNDING * (n + 1.0) * abs(mean)


@kernel
def signed(word: Any) -> int:
    """An unsigned number as a signed one. The two kinds do not mix: numba, which compiles for cards, adds them to a
    float, which cannot be an index."""
    return int(np.int64(word))


@kernel
def add_test(batch: Batch, size: int, arm: int, metric: int) -> int:
    """Append a test to a batch of `size` tests; returns the new size."""
    batch[size, 0] = arm
    batch[size, 1] = metric
    return size + 1


@kernel
def gather(setting: Setting, covered: Flags, batch: Batch, size: int) -> int:
    """Turn the metrics a policy requests into tests; returns how many there are.

    A policy asks for metrics. A test is of a bundle, written as its first metric, and what it covers need not be asked
    for again. With slices, a test is on the next item that counts for a metric. It covers the metrics that are about
    the same items. `covered` [arm, metric] is all zeros before and after.
    """
    if setting.is_bundled == 0:
        return size
    tests = 0
    for row in range(size):
        arm = signed(batch[row, 0])
        metric = signed(batch[row, 1])
        if covered[arm, metric] > 0:
            covered[arm, metric] -= 1
        else:
            part = setting.lead[metric]
            tests = add_test(batch, tests, arm, setting.queue[metric])
            while part >= 0:
                if part != metric and setting.queue[part] == setting.queue[metric]:
                    covered[arm, part] += 1
                part = setting.following[part]
    for row in range(tests):
        arm = signed(batch[row, 0])
        part = setting.lead[signed(batch[row, 1])]
        while part >= 0:
            covered[arm, part] = 0
            part = setting.following[part]
    return tests


@kernel
def every_metric(streams: Streams, batch: Batch, size: int, arm: int) -> int:
    """Add one test of each metric of `arm`."""
    for metric in range(streams.counts.shape[1]):
        size = add_test(batch, size, arm, metric)
    return size


@kernel
def every_stream(streams: Streams, batch: Batch) -> int:
    """The first batch of the paper's algorithms: one test of every stream."""
    size = 0
    for arm in range(streams.counts.shape[0]):
        size = every_metric(streams, batch, size, arm)
    return size


@kernel
def conclude(answer: int) -> int:
    """What `propose` returns to end the run, instead of a batch's size: a negative number for every answer."""
    return EMPTY - 1 - answer


@kernel
def concluded(size: int) -> int:
    """The answer in what `propose` returned, if that is not the size of a batch; `EMPTY` for an empty batch."""
    return EMPTY - 1 - size if size < 0 else EMPTY
