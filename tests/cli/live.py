"""Studies for the commands of live studies, and the program in a folder of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from tests.program import Ended

DOSE = """
name = "dose"
[objective]
metric = "efficacy"
goal = "maximize"
noise = { gaussian = 0.1 }
[[constraints]]
metric = "harm"
at_most = 0.5
noise = "bernoulli"
cost = 3
[[constraints]]
metric = "purity"
at_least = 20
noise = { bounded = [0, 100] }
[[arms]]
name = "25 mg"
[[arms]]
name = "150 mg"
"""
DASH = """
name = "-x"
[objective]
metric = "-m"
goal = "minimize"
noise = { gaussian = 1 }
[[arms]]
name = "-low"
[[arms]]
name = "--json"
"""
Program = Callable[..., Ended]


def works(bestarm: Program, *words: str, stdin: bytes = b"") -> str:
    ended = bestarm(*words, stdin=stdin)
    assert ended.code == 0, ended
    assert ended.err == ""
    return ended.out


def everything(path: str = "s.db") -> list[str]:
    """All that a database holds."""
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())
