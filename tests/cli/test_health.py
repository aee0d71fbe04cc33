"""What the commands say about the health of a study's data."""

from __future__ import annotations

import json
import random

from tests.cli.live import Program, works


def fill(scatter: float) -> bytes:
    rng = random.Random(1)
    rows = [f"{('25 mg', '150 mg')[k % 2]},efficacy,{rng.gauss(0.0, scatter)}" for k in range(40)]
    return "\n".join(["arm,metric,value", *rows, ""]).encode()


def test_status_says_what_the_results_contradict(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    assert "health" not in works(bestarm, "status", "dose")
    works(bestarm, "import", "dose", "-", stdin=fill(0.1))
    assert "health: no sign of trouble: 20 checks\n" in works(bestarm, "status", "dose")
    works(bestarm, "new", "dose.toml", "--name", "wild")
    works(bestarm, "import", "wild", "-", stdin=fill(0.5))
    said = works(bestarm, "status", "wild")
    assert "health: broken: efficacy: results scatter by about 0." in said
    health = json.loads(works(bestarm, "status", "wild", "--json"))["health"]
    (note,) = health["notes"]
    assert health["checks"] == 20
    assert (note["kind"], note["severity"], note["metric"], note["arm"]) == ("scatter", "broken", "efficacy", None)
    assert note["sentence"] in said
