"""Streams made from sums, for tests of evidence."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.state import Streams, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import most_kept, record
from bestarm.noises.streams import Stream, stream_of
from bestarm.policies.setting import new_setting
from bestarm.testing.noise_streams import problem_with


def summed_stream(noise: NoiseModel, n: int, total: float) -> Stream:
    """A stream of n equal results that add up to `total`, for noises whose streams keep only sums."""
    setting = new_setting(problem_with(noise), 0.05, "paper")
    counts, sums = np.array([[n]]), np.array([[total]])
    streams = new_streams(1, 1, most_kept(setting))
    record(setting, streams, 0, 0, total / n)
    return stream_of(setting, Streams(counts, sums / counts, sums, n * streams.kept), 0, 0)
