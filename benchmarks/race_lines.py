"""How well a race foresees its length, and how often what its closing line says is false. Times are drawn.

`python benchmarks/race_lines.py --count 20` prints both tables. "Within a factor of two" is about the number of runs
that a race is said to take in all, and the time that is said to be left, each time that either is shown.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.race.simulated import Drawn, a_run

from bestarm.race.closing import ratio_between
from bestarm.race.contestants import contestants_of
from bestarm.race.outlook import Outlook, outlook_of
from bestarm.race.plans import Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.run_log import RunLog
from bestarm.race.runs import Run
from bestarm.study import Study

RACES: dict[str, tuple[dict[str, float], float]] = {
    "10% apart, scatter 5%": ({"a": 1.0, "b": 1.1}, 0.05),
    "3% apart, scatter 5%": ({"a": 1.0, "b": 1.03}, 0.05),
    "3% and 30% apart, scatter 5%": ({"a": 1.0, "b": 1.03, "c": 1.3}, 0.05),
    "5 and 10 times, scatter 5%": ({"a": 1.0, "b": 5.0, "c": 10.0}, 0.05),
    "20% apart, scatter 25%": ({"a": 1.0, "b": 1.2}, 0.25),
    "50% and 60% apart, scatter 40%": ({"a": 1.0, "b": 1.5, "c": 1.6}, 0.4),
    "equal, scatter 5%": ({"a": 1.0, "b": 1.0, "c": 1.0}, 0.05),
}


class Foretold(NamedTuple):
    """What was foreseen as a multiple of what it was: runs in all, and seconds to go; whether what was shown of the
    seconds was right, and how many times the low end of the range its high end is. A range is right if it holds the
    seconds, and a single number, which is shown where the range is narrow, within a factor of two."""

    in_all: float
    to_go: float
    is_right: bool
    width: float


class Watched:
    """A race, and what was foreseen in it: runs made, runs in all, and seconds to go."""

    def __init__(self, means: dict[str, float], scatter: float, seed: int, most: int) -> None:
        def draw(command: str, rng: random.Random) -> Run:
            return a_run(means[command] * rng.lognormvariate(-0.5 * scatter**2, scatter))

        self.foreseen: list[tuple[int, Outlook]] = []
        conditions = Conditions(timeout=100.0, seed=seed, minutes=600.0)
        race = Race(contestants_of([*means]), Question(runs=most), conditions, runners=[Drawn(draw, seed)])
        self.result: RaceResult = race.run(self._note)

    def _note(self, study: Study, run_log: RunLog) -> None:
        made = len(run_log.runs)
        # As often as a terminal that is redrawn, in a race of a minute.
        if made % max(3, made // 15) == 0:
            self.foreseen.append((made, outlook_of(study.plan, study.status(), run_log)))

    def foretold(self) -> list[Foretold]:
        """How what was shown compares with what it was."""
        runs = [run for _, (_, run) in sorted(self.result.run_log.runs.items())]
        found = []
        for made, outlook in self.foreseen:
            if math.isfinite(outlook.runs.middle) and made < len(runs):
                to_go, seconds = sum(run.time for run in runs[made:]), outlook.seconds
                found.append(
                    Foretold(
                        (made + outlook.runs.middle) / len(runs),
                        seconds.middle / to_go,
                        # Seconds are shown without a fraction.
                        math.floor(seconds.low) <= to_go <= math.ceil(seconds.high)
                        if not seconds.is_narrow
                        else 0.5 <= seconds.middle / to_go <= 2.0,
                        seconds.high / seconds.low,
                    )
                )
        return found


def is_wrong(result: RaceResult, means: dict[str, float]) -> tuple[bool, int, int]:
    """Whether anything that is said is false; how many limits of ratios there are, and how many there could be."""
    best = min(means.values())
    wrong = result.found == "certified" and means[str(result.status.answer)] > best
    wrong |= any(arm.verdict == "worse" and means[arm.name] == best for arm in result.status.arms)
    wrong |= result.found == "certified" and sum(mean == best for mean in means.values()) > 1
    ratios = [(means[a] / means[b], ratio_between(result, a, b)) for a, b in itertools.combinations(means, 2)]
    wrong |= any(found is not None and not found.low <= true <= found.high for true, found in ratios)
    return wrong, sum(found is not None and found.is_known for _, found in ratios), len(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="races of each kind")
    parser.add_argument("--most", type=int, default=600, help="runs of a race at most")
    options = parser.parse_args()
    print(
        "| races | mean runs | runs in all, within a factor of two | time to go, middle | as shown | median width "
        "| anything false | ratios with limits |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, (means, scatter) in RACES.items():
        races = [Watched(means, scatter, seed, options.most) for seed in range(options.count)]
        found = [one for race in races if race.result.found == "certified" for one in race.foretold()]
        within = [[0.5 <= one.in_all <= 2.0 for one in found]]
        within += [[0.5 <= one.to_go <= 2.0 for one in found], [one.is_right for one in found]]
        shares = [f"{100 * statistics.fmean(one):.0f}%" if one else "–" for one in within]
        width = f"{statistics.median(one.width for one in found):.1f}" if found else "–"
        checked = [is_wrong(race.result, means) for race in races]
        runs = statistics.fmean(len(race.result.run_log.runs) for race in races)
        wrong, known, pairs = (sum(column) for column in zip(*checked, strict=True))
        print(
            f"| {name} | {runs:.0f} | {shares[0]} of {len(found)} | {shares[1]} | {shares[2]} | {width} "
            f"| {wrong} of {len(races)} | {known} of {pairs} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
