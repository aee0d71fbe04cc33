"""Make the pictures of the dashboard in `docs/pictures` anew: the paper's drug study, simulated, halfway; and a plate.

python tools/dashboard_pictures.py
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import bestarm as ba
from bestarm.web.server import running

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
DESK, PHONE = (1400, 1640), (390, 844)
TOP = 760
"""How much of the page the picture in the README shows, in pixels."""


def halfway(database: str, tests: int) -> None:
    """The study after so many tests, with two in flight."""
    plan = dataclasses.replace(ba.instance("drug-bernoulli"), delta=0.05)
    study = ba.Study.create(plan, name="Secukinumab dose", storage=database, seed=1, holder="ward 3")
    patients = random.Random(1)
    made = 0
    while made < tests and (asked := study.ask(min(25, tests - made))):
        study.tell_many([(test, float(patients.random() < _rate(plan, test))) for test in asked])
        made += len(asked)
    study.ask(2, days=3.0)


def _rate(plan: ba.Plan, test: ba.Test) -> float:
    means = next(arm.means for arm in plan.arms if arm.name == test.arm)
    assert means is not None
    rate = means[test.metric]
    assert isinstance(rate, float)
    return rate


def half_a_plate(database: str) -> None:
    """Eight formulations, of whose first plate some wells are saved."""
    problem = ba.Problem(
        arms=[f"F{k}" for k in range(1, 9)],
        objective=ba.maximize("viability", noise=ba.Symmetric()),
        blocks=ba.Blocks("plate", size=24),
        arm_word="formulation",
    )
    study = ba.Study.create(problem, name="Formulations", storage=database, seed=1, items_seed=1, holder="ann")
    rng = random.Random(1)
    study.tell_many([(test, round(rng.gauss(62.0, 5.0), 1)) for test in study.ask_block(days=3.0)[:7]])


def take_plate(page: Page, url: str) -> None:
    """The grid of wells, some of them saved and some typed in."""
    page.goto(f"{url}/studies/2")
    for k, text in enumerate(("61,5", "64,2", "58,9")):
        page.locator(".flight input.value").nth(k).fill(text)
    page.get_by_text("3 values not saved yet").wait_for()
    page.locator("#tests > .card").first.screenshot(path=PICTURES / "plate.png")


def take(url: str) -> None:
    """Pictures of the whole first screen, of its top, and on a phone."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for (width, height), names in ((DESK, ("dashboard", "dashboard-top")), (PHONE, ("dashboard-phone",))):
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{url}/studies/1")
            # The first forecast waits for kernels to be compiled.
            page.get_by_text("Likely answer").wait_for(timeout=600_000)
            for name in names:
                is_top = name.endswith("-top")
                shown: FloatRect = {"x": 0, "y": 60 * is_top, "width": width, "height": TOP if is_top else height}
                page.screenshot(path=PICTURES / f"{name}.png", clip=shown)
            if (width, height) == DESK:
                take_plate(page, url)
            page.close()
        browser.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    options.add_argument("--tests", type=int, default=3500, help="how many tests have been made")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder, "dose.db"))
        halfway(database, chosen.tests)
        half_a_plate(database)
        with running(database) as url:
            take(url)


if __name__ == "__main__":
    main()
