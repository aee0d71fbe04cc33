"""About how many tests a study still takes, from its open certificates alone; nothing is simulated.

Where continuations are simulated, their number is shown instead. Neither exceeds what items leave. A budget limits
only what is tested, not what an answer takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bestarm.kernel.state import Floats, Ints
from bestarm.policies.base import Policy
from bestarm.policies.findings import Findings
from bestarm.policies.open_certificates import MOST_SHOWN, OpenCertificate
from bestarm.problem import Plan


def most_to_come(plan: Plan, policy: Policy, found: Findings) -> float:
    """The most tests that items leave; infinite if there is no limit."""
    places = policy.places_of()
    if places is None:
        return math.inf
    # Arms that are out are not tested, unless others are compared with them.
    is_tested = ~found.excluded | np.array([name == plan.baseline for name in plan.arm_names])
    heads = [bundle[0] for bundle in plan.bundles]
    return float((places - policy.tests[is_tested][:, heads]).sum())


def _places(policy: Policy) -> Ints | None:
    """By metric: how often it can be measured; None if there is no limit."""
    found = [policy.places_of(metric) for metric in range(policy.metrics)]
    return None if None in found else np.array(found, np.int64)


def capped(policy: Policy, certificates: Sequence[OpenCertificate], most: float) -> list[OpenCertificate]:
    """The same, none of which takes more tests than there are items left for it, nor more than `most`."""
    items, counts = _places(policy), policy.streams.counts
    if items is None:
        return [one._replace(tests=min(one.tests, most)) if most < math.inf else one for one in certificates]
    left = items - counts
    limits = [
        left[one.arm, 0] + left[one.against, 0]
        if one.against is not None
        else left[one.arm, one.metric]
        if one.metric is not None
        else left[one.arm].max()
        for one in certificates
    ]
    return [one._replace(tests=min(one.tests, float(n), most)) for one, n in zip(certificates, limits, strict=True)]


def tests_to_come(
    plan: Plan, policy: Policy, found: Findings, certificates: Sequence[OpenCertificate], most: float
) -> float:
    """About how many tests it takes to close all of the certificates, which share the tests of the leader and of what
    is measured together; infinite if the measured means of some point the other way."""
    lacking = _lacking(policy, certificates)
    # Parts that are about the same items share their tests.
    shared = [np.array(plan.queues) == queue for queue in sorted({*plan.queues})]
    total = sum(float(lacking[:, parts].max(axis=1).sum()) for parts in shared)
    return min(total * _unlisted(found, certificates), most)


def in_whole_blocks(
    plan: Plan, policy: Policy, found: Findings, certificates: Sequence[OpenCertificate]
) -> tuple[list[OpenCertificate], float]:
    """The certificates by how many tests they take, and how many all of them take, where tests come in blocks.

    A block adds one result of each arm and metric in it, however few are left, and is made as a whole.
    """
    assert plan.blocks is not None
    places = plan.blocks.size
    size = policy.spent[0] / policy.blocks_made if policy.blocks_made else float(places)

    def tests(some: Sequence[OpenCertificate]) -> float:
        lacking = _lacking(policy, some)
        # If there are more arms than places, each is in some of the blocks only.
        kinds = sum(float(lacking[:, bundle].max(axis=1).sum()) for bundle in map(list, plan.bundles))
        blocks = max(float(lacking.max()), kinds * _unlisted(found, some) / places, 1.0)
        return float(np.ceil(blocks)) * size

    return [one._replace(tests=tests([one])) for one in certificates], tests(certificates)


def _unlisted(found: Findings, certificates: Sequence[OpenCertificate]) -> float:
    """How many times as many certificates there are as are listed. The others are taken to be like those."""
    return max(float(found.candidates.sum()) / len(certificates), 1.0) if len(certificates) >= MOST_SHOWN else 1.0


def _lacking(policy: Policy, certificates: Sequence[OpenCertificate]) -> Floats:
    """[arm, metric]: how many results more it takes to close all of the certificates."""
    counts = policy.streams.counts
    needed: Floats = counts.astype(float)
    for one in certificates:
        if one.against is None:
            metric = one.metric or 0
            needed[one.arm, metric] = max(needed[one.arm, metric], counts[one.arm, metric] + one.tests)
            continue
        # Both arms are to have the same number of tests in all.
        pair = [one.arm, one.against]
        fewer, more = sorted(counts[pair, 0].tolist())
        both = fewer + one.tests if fewer + one.tests <= more else 0.5 * (fewer + more + one.tests)
        needed[pair, 0] = np.maximum(needed[pair, 0], both)
    places = _places(policy)
    if places is not None:
        needed = np.minimum(needed, places)
    return needed - counts
