"""Which compressor is quickest of those that make logs small enough? `python examples/compressors/compressors.py`

It needs Python's standard library alone. The logs are made here, a new one for each test.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import time
from collections.abc import Callable

import bestarm as ba

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip -1": lambda log: gzip.compress(log, 1),
    "gzip -6": lambda log: gzip.compress(log, 6),
    "bzip2 -9": lambda log: bz2.compress(log, 9),
    "xz -1": lambda log: lzma.compress(log, preset=1),
    "xz -6": lambda log: lzma.compress(log, preset=6),
}
LONGEST = 100.0
"""Milliseconds. A longer time counts as this: that is part of what the metric means."""

PROBLEM = ba.Problem(
    arms=list(COMPRESSORS),
    objective=ba.minimize("time", noise=ba.Bounded(0, LONGEST), unit="ms"),
    # All bytes written to all bytes read. What counts of a test is output − 0.22 × input. Logs are as often longer than
    # the mean as shorter, so that number lies as far above its mean as below.
    constraints=[ba.at_most("output", 0.22, per="input", noise=ba.Symmetric())],
    measurements=[ba.Measurement(("time", "output", "input"))],
)


def made_log(lines: int) -> bytes:
    def line() -> str:
        address, item, status = random.randint(0, 65_535), random.randint(1, 9_999), random.choice((200, 200, 200, 404))
        return f"10.0.{address // 256}.{address % 256} GET /item/{item} {status} {random.randint(1, 900)} ms\n"

    return "".join(line() for _ in range(lines)).encode()


def measure(compressor: str, metrics: str) -> dict[str, float]:
    log = made_log(random.randint(500, 1_500))
    start = time.process_time()
    output = COMPRESSORS[compressor](log)
    milliseconds = 1000 * (time.process_time() - start)
    return {"time": min(milliseconds, LONGEST), "output": len(output), "input": len(log)}


if __name__ == "__main__":
    answer = ba.identify(PROBLEM, measure, name="compressors", storage="compressors.db")
    print(answer)
    for name, reason in answer.reasons.items():
        print(f"  {name}: {reason}")
