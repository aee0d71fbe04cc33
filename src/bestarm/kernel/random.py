"""Random numbers: xoshiro256++, seeded from (seed, run, purpose) alone, and ziggurat normals.

Reference: Blackman & Vigna (2021), Scrambled linear pseudorandom number generators; Marsaglia & Tsang
(2000), The ziggurat method for generating random variables.

Every run has generators of its own, so a run's outcome depends neither on the other runs nor on who computes it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel, large

Generator = npt.NDArray[np.uint64]

NOISE = 0
"""Purpose of the generator that draws a run's measurements."""
CHOICE = 1
"""Purpose of the generator from which a policy draws its own random choices."""

LAYERS = 256
_TAIL_START = 3.654152885361008796

_UNIT = 1.0 / 9007199254740992.0  # 2^-53


class Ziggurat(NamedTuple):
    """Right edges and heights of the layers under the normal density exp(-x²/2), bottom layer first."""

    edge: npt.NDArray[np.float64]
    inner: npt.NDArray[np.float64]
    height: npt.NDArray[np.float64]


def new_ziggurat() -> Ziggurat:
    """The layers' tables: `LAYERS` regions of equal area, the lowest with the tail beyond its edge."""
    edge = np.empty(LAYERS + 1)
    height = np.empty(LAYERS + 1)
    edge[1] = _TAIL_START
    height[1] = math.exp(-0.5 * _TAIL_START**2)
    # The bottom layer counts as a rectangle of the same area; its part beyond the true edge stands for the tail.
    area = _TAIL_START * height[1] + math.sqrt(math.pi / 2) * math.erfc(_TAIL_START / math.sqrt(2))
    edge[0] = area / height[1]
    height[0] = 0.0
    for layer in range(2, LAYERS):
        height[layer] = height[layer - 1] + area / edge[layer - 1]
        edge[layer] = math.sqrt(-2.0 * math.log(height[layer]))
    edge[LAYERS] = 0.0
    height[LAYERS] = 1.0
    inner = np.append(edge[1:], 0.0)
    return Ziggurat(edge, inner, height)


ZIGGURAT = new_ziggurat()


@kernel
def _mix(word: np.uint64) -> np.uint64:
    """The finalizer of splitmix64: a bijection that scatters neighboring words."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def seed_generator(generator: Generator, seed: int, run: int, purpose: int) -> None:
    """Start the generator of run number `run` under `seed` for one purpose."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    word = _mix(np.uint64(seed) + golden)
    # Not symmetric in seed and run: run 3 of seed 5 must not be run 5 of seed 3.
    word = _mix(word ^ (np.uint64(run) * np.uint64(2) + np.uint64(purpose)))
    for i in range(4):
        word = word + golden
        generator[i] = _mix(word)


@kernel
def next_word(generator: Generator) -> np.uint64:
    """64 random bits."""
    s0 = generator[0]
    s1 = generator[1]
    s2 = generator[2]
    s3 = generator[3]
    word = s0 + s3
    word = ((word << np.uint64(23)) | (word >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    generator[0] = s0
    generator[1] = s1
    generator[2] = s2
    generator[3] = s3
    return np.uint64(word)


@kernel
def uniform(generator: Generator) -> float:
    """Uniform in the open interval (0, 1)."""
    return (float(next_word(generator) >> np.uint64(11)) + 0.5) * _UNIT


@kernel
def _layer(word: np.uint64) -> np.int64:
    return np.int64(word & np.uint64(255))


@kernel
def _signed_fraction(word: np.uint64) -> float:
    """The upper 53 bits, in [-1, 1): independent of the eight that choose the layer."""
    return float(np.int64(word) >> 11) * 2.0 * _UNIT


@kernel
def normal(generator: Generator, ziggurat: Ziggurat) -> float:
    """Standard normal."""
    word = next_word(generator)
    layer = _layer(word)
    x = _signed_fraction(word) * float(ziggurat.edge[layer])
    if abs(x) < ziggurat.inner[layer]:
        return x
    return _rare_normal(generator, ziggurat, word)


@large
@kernel
def _rare_normal(generator: Generator, ziggurat: Ziggurat, word: np.uint64) -> float:
    """The normal for the one word in 67 that falls outside its layer's inner part."""
    edge, inner, height = ziggurat
    while True:
        layer = _layer(word)
        fraction = _signed_fraction(word)
        x = fraction * float(edge[layer])
        if abs(x) < inner[layer]:
            return x
        if layer == 0:
            while True:
                tail = -math.log(uniform(generator)) / _TAIL_START
                if -2.0 * math.log(uniform(generator)) > tail * tail:
                    break
            if fraction < 0.0:
                return -(_TAIL_START + tail)
            return _TAIL_START + tail
        bottom = height[layer]
        if bottom + uniform(generator) * (height[layer + 1] - bottom) < math.exp(-0.5 * x * x):
            return x
        word = next_word(generator)
