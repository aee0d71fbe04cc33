"""A check of noises: comparing a stream with so many times another, as constraints relative to a baseline need it."""

from __future__ import annotations

import math

import numpy as np

from bestarm.evidence.pairs import pair_evidence, product, scaled_pair_ceiling, scaled_pair_evidence, scaled_range
from bestarm.noises.base import NoiseModel
from bestarm.testing.noise_streams import drawn, spread_of, stream_of_values


def check_comparisons_with_a_multiple(noise: NoiseModel, mean: float) -> None:
    """The evidence that one stream's mean is above so many times another's is at most the product of evidence at every
    c, and not much less than the least of them."""
    spread = spread_of(noise, mean)
    for n, others in ((12, 30), (200, 150)):
        values = drawn(noise, mean, n + others, seed=n)
        ahead, behind = stream_of_values(noise, values[:n]), stream_of_values(noise, values[n:])
        for factor in (0.6, 1.0, 1.7):
            for margin in (0.0, (factor - 1.0) * mean + 0.4 * spread, (factor - 1.0) * mean + 2.0 * spread):
                found = scaled_pair_evidence(ahead, behind, margin, factor)
                first, last = scaled_range(ahead, behind, margin, factor)
                if not first <= last:
                    continue
                if factor == 1.0:
                    assert found == pair_evidence(ahead, behind, margin), "once another mean is the other mean"
                reach = 8.0 * spread
                points = np.linspace(max(first, factor * mean - reach), min(last, factor * mean + margin + reach), 401)
                products = [product(ahead, behind, c - margin, c / factor)[0] for c in points]
                least = min(products, default=math.inf)
                at = f"after {n} and {others} results, margin {margin}, factor {factor}"
                assert found <= least + 1e-9 * (1.0 + abs(least)), at
                assert scaled_pair_ceiling(ahead, behind, margin, factor) >= found, at
                if found > 1.0:
                    assert found >= min(least, 30.0) - 1.0, f"{found} where {least} could be: {at}"
