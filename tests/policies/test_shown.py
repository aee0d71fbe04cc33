"""What is shown is the same whichever engine computes it, to the last digit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lengths import at_length, first
from tests.tools.shown import ENGINES, accepted, moments_of, pairwise

from bestarm.noises import registry

FIRST = (
    "certify/best/bernoulli/relative and other noise/set/no reserve",
    "certify/best/gaussian/mixed/no items/reserve",
    "certify/top/bounded/together/no items/no reserve",
    "feasible-lucb/best/symmetric/mixed/no items/no reserve",
)
"""What `make test` tries: every kind of setting and of intervals. `make torture` tries every kind of study."""


def differing(name: str) -> list[tuple[int, str]]:
    """What the engines do not agree about, and after how many rounds."""
    moments = [*moments_of(accepted()[name])]
    assert moments
    return [
        (moment.rounds, what)
        for moment in moments
        for what in moment.shown[ENGINES[0]]
        if moment.shown[ENGINES[0]][what] != moment.shown[ENGINES[1]][what]
    ]


# To know which kinds of study there are takes seconds.
@pytest.mark.parametrize("name", first(len(FIRST), dict.fromkeys([*FIRST, *(accepted() if at_length() else ())])))
def test_engines_show_the_same(name: str) -> None:
    assert differing(name) == []


def test_every_two_features_that_go_together_are_in_one_of_the_pairwise_studies() -> None:
    def pairs(names: list[str]) -> set[tuple[tuple[int, str], tuple[int, str]]]:
        rows = [list(enumerate(name.split("/"))) for name in names]
        return {(one, other) for row in rows for one in row for other in row if one < other}

    assert pairs([*pairwise()]) == pairs([*accepted()])
    assert len(pairwise()) < len(accepted()) / 3


def test_a_noise_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code that does not know the noise of a comparison shows nothing of it, rather than another noise's."""
    every = registry.kinds_in

    def forgetful(parts: Any) -> set[int]:
        return every(parts) - every(parts.items.contrasts) if getattr(parts, "items", ()) else every(parts)

    monkeypatch.setattr(registry, "kinds_in", forgetful)
    assert {what for _, what in differing(FIRST[0])} >= {"low", "high"}
