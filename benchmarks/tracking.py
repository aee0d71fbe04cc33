"""How many tests `certify` takes as δ falls, beside the limit T* log(1/δ): with its own sampling, and with tracking.

    python benchmarks/tracking.py --out docs/pictures/tracking

The table has tests ÷ (T* log(1/δ)). For sampling = "tracking" this tends to 1: Theorem T.2 in
`docs/certificates/time.md`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import bestarm as ba
from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.analysis.charts.drawing import save

Sampling = Literal["default", "tracking"]
SAMPLINGS: tuple[Sampling, ...] = ("default", "tracking")
EXPONENTS = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 60, 100)
SHOWN = (1, 3, 10, 40, 100)
"""The exponents in the table; the picture has all."""


class Measured(NamedTuple):
    """Mean tests, also divided by the limit, and the standard error of that ratio."""

    tests: float
    ratio: float
    error: float


def means_only(noise: ba.Noise, *means: float) -> ba.Problem:
    """Arms without constraints."""
    arms = [ba.Arm(f"arm {k + 1}", {"performance": mean}) for k, mean in enumerate(means)]
    return ba.Problem(arms=arms, objective=ba.maximize("performance", noise=noise))


def limited_rates() -> ba.Problem:
    """Rates of success and of failure: one arm is better but fails too often, one is worse and fails too often."""
    rows = ((0.6, 0.05), (0.7, 0.2), (0.5, 0.05), (0.55, 0.15))
    return ba.Problem(
        arms=[ba.Arm(f"arm {k + 1}", {"success": good, "failure": bad}) for k, (good, bad) in enumerate(rows)],
        objective=ba.maximize("success", noise=ba.Bernoulli()),
        constraints=[ba.at_most("failure", 0.1, noise=ba.Bernoulli())],
    )


def problems() -> dict[str, ba.Problem]:
    return {
        "exp1-a": ba.instance("exp1-a"),
        "exp1-b": ba.instance("exp1-b"),
        "Gaussian 1, .85, .8, .7": means_only(ba.Gaussian(1.0), 1.0, 0.85, 0.8, 0.7),
        "rates .5, .45, .43, .4": means_only(ba.Bernoulli(), 0.5, 0.45, 0.43, 0.4),
        "rates with a limit": limited_rates(),
    }


def measure(problem: ba.Problem, sampling: Sampling, exponent: int, runs: int, seed: int = 0) -> Measured:
    options = {} if sampling == "default" else {"sampling": sampling}
    delta = 10.0**-exponent
    made = ba.simulate(
        problem, policy="certify", options=options, delta=delta, runs=runs, seed=seed, keep_streams=False
    )
    limit = ba.analyze(problem, delta).characteristic_time * math.log(1.0 / delta)
    return Measured(made.mean_tests, made.mean_tests / limit, made.se_tests / limit)


Found = dict[str, dict[Sampling, list[Measured]]]


def table(found: Found) -> Iterator[str]:
    yield "| problem | sampling |" + "".join(f" 10⁻{_raised(exponent)} |" for exponent in SHOWN)
    yield "| --- | --- |" + " ---: |" * len(SHOWN)
    for name, rows in found.items():
        for sampling, row in rows.items():
            cells = [f"{row[EXPONENTS.index(exponent)].ratio:.2f}" for exponent in SHOWN]
            first = f"{row[0].tests:,.0f} tests: {cells[0]}"
            yield f"| {name} | {sampling} | {' | '.join([first, *cells[1:]])} |"


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def chart(found: Found) -> Chart:
    panels = []
    places = tuple(float(exponent) for exponent in EXPONENTS)
    for name, rows in found.items():
        series = [_series(sampling, places, row, style) for style, (sampling, row) in enumerate(rows.items())]
        limit = Series("the limit, T* log(1/δ)", (places[0], places[-1]), (100.0, 100.0), reference=True)
        panels.append(Panel(name, "k, for δ = 10⁻ᵏ", "tests, % of the limit", (*series, limit), log_x=True))
    return Chart("Tests as δ falls", tuple(panels))


def _series(sampling: str, places: tuple[float, ...], row: Sequence[Measured], style: int) -> Series:
    ratios, errors = tuple(100.0 * one.ratio for one in row), tuple(100.0 * one.error for one in row)
    return Series(f"sampling = {sampling}", places, ratios, errors, style=style)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="simulated studies of each kind")
    parser.add_argument("--out", type=Path, help="where to write the picture: a path without its ending")
    choice = parser.parse_args()
    found: Found = {}
    for name, problem in problems().items():
        found[name] = {
            sampling: [measure(problem, sampling, exponent, choice.runs) for exponent in EXPONENTS]
            for sampling in SAMPLINGS
        }
    print("\n".join(table(found)))
    if choice.out is not None:
        save(chart(found), choice.out)


if __name__ == "__main__":
    main()
