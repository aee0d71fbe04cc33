"""How soon the dashboard of a large study can be used: a thousand arms by five metrics, in Chromium.

python -m benchmarks.dashboard --loads 5

Measured from the browser's load event to the moment at which a filter that was typed has taken effect everywhere.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np

import bestarm as ba
from bestarm.study.study import Study

ARMS, METRICS = 1000, 5


def large_problem() -> ba.Problem:
    return ba.Problem(
        arms=[f"configuration {k}" for k in range(ARMS)],
        objective=ba.maximize("throughput", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most(f"limit {k}", 0.5, noise=ba.Gaussian(1.0)) for k in range(1, METRICS)],
    )


def large_results(problem: ba.Problem) -> list[tuple[str, str, float]]:
    """Two of every stream."""
    draw = np.random.default_rng(1).normal
    return [(arm, metric, float(draw())) for _ in range(2) for arm in problem.arm_names for metric in problem.metrics]


def seconds_to_use(url: str, loads: int) -> list[float]:
    """Of every load of the page."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    taken: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        for _ in range(loads):
            page.goto(url)
            page.locator("table.arms tbody tr").nth(49).wait_for()
            page.get_by_label("Find by name or reason").fill("configuration 777")
            page.locator("table.arms tbody tr").nth(1).wait_for(state="detached")
            page.locator(".chart").nth(4).locator("text.arm-name", has_text="777").wait_for()
            load = "performance.getEntriesByType('navigation')[0].loadEventEnd"
            taken.append(page.evaluate(f"(performance.now() - {load}) / 1000"))
        browser.close()
    return taken


def main() -> None:
    from benchmarks.web import served

    options = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    options.add_argument("--loads", type=int, default=5, help="how often the page is loaded")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.db")
        study = Study.create(large_problem(), storage=path)
        study.add(large_results(study.plan))
        with served(path) as (url, _):
            taken = seconds_to_use(f"{url}/studies/1", chosen.loads)
    print(
        f"{ARMS:,} arms by {METRICS} metrics can be used {statistics.median(taken):.2f} s after they are loaded "
        f"(median of {len(taken)}; {min(taken):.2f} to {max(taken):.2f} s)"
    )


if __name__ == "__main__":
    main()
