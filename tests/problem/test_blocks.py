"""What a problem says of blocks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import bestarm as ba
from bestarm.problem.blocks import BlockOrder


def problem(**fields: Any) -> ba.Problem:
    stated: dict[str, Any] = {
        "objective": ba.maximize("yield", noise=ba.Symmetric()),
        "blocks": ba.Blocks("plate", size=24),
    }
    return ba.Problem(arms=["F1", "F2", "F3"], **(stated | fields))


def test_a_study_file_with_blocks_comes_back_the_same() -> None:
    plan = ba.Plan.of(problem(block_spreads={"yield": 2.0}), delta=0.1)
    text = plan.to_toml()
    assert "[blocks]" in text
    assert "items" not in text
    assert ba.Plan.from_toml(text) == plan
    assert ba.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"blocks": {"name": "plate", "size": 1}}, "blocks.size = 1: must be a whole number from 2 to 10,000"),
        ({"blocks": {"name": "plate", "size": 2.5}}, "blocks.size = 2.5: must be a whole number"),
        ({"blocks": {"name": "", "size": 4}}, "blocks.name"),
        ({"items": 40}, "items = 40: cannot be stated beside blocks"),
        ({"blocks": None, "block_spreads": {"yield": 1.0}}, "state blocks, their name and size"),
        ({"block_spreads": {"taste": 1.0}}, "no such metric"),
        ({"item_spreads": {"yield": 1.0}}, "can only be stated of items"),
        (
            {
                "constraints": [ba.at_most("toxicity", 1.0, noise=ba.Gaussian(1.0))],
                "block_spreads": {"toxicity": 2.0},
            },
            "block_spreads['toxicity'] = 2.0: is more than 1, the stated scatter",
        ),
        ({"goal": "top", "top": 2, "blocks": ba.Blocks("day", 2)}, "blocks.size = 2: must be at least 3"),
        (
            {
                "constraints": [ba.at_most("cost", relative_to_baseline=1.1, noise=ba.Bounded(0, 9))],
                "baseline": "F1",
                "blocks": ba.Blocks("day", 2),
            },
            "must be at least 3: what arms are compared with, the baseline, and one more",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        problem(**fields)
    assert complaint in str(caught.value)


def test_a_plan_with_blocks_has_no_results_by_arrival() -> None:
    with pytest.raises(ba.InvalidInput, match="blocks"):
        ba.Plan(
            arms=["a", "b"],
            objective=ba.maximize("yield", noise=ba.Symmetric()),
            blocks=ba.Blocks("plate", size=24),
            order="arrival",
        )


@pytest.mark.parametrize(
    ("size", "names"),
    [(24, ["A1", "A2", "A6", "B1", "D6"]), (96, ["A1", "A2", "A6", "A7", "B12"]), (10, ["1", "2", "6", "7", "24"])],
)
def test_places_are_wells_on_the_usual_plates_and_numbers_elsewhere(size: int, names: list[str]) -> None:
    order = BlockOrder(ba.Blocks("plate", size=size))
    assert [order.name(20_000 + position) for position in (0, 1, 5, 6, 23)] == [f"plate 3 {name}" for name in names]


def test_every_well_of_the_largest_plate_has_a_name_of_its_own() -> None:
    plate = ba.Blocks("plate", size=1536)
    names = [plate.place(position) for position in range(1536)]
    assert len(set(names)) == 1536
    assert names[-1] == "AF48"
