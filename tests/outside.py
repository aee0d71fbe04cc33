"""What may come from outside: a plan, what is too deep or too long to be read, and how that is said."""

from __future__ import annotations

from hypothesis import strategies as st

import bestarm as ba

PLAN = ba.Plan(
    arms=(ba.Arm("a", {"p": 0.0, "c": -1.0}), ba.Arm("b", {"p": 1.0, "c": -1.0})),
    objective=ba.maximize("p", noise=ba.Gaussian(1.0)),
    constraints=(ba.at_most("c", 0.0, noise=ba.Gaussian(1.0)),),
    name="s",
)
DEEP = 100_000
HUGE = "9" * 5000


def one_line(error: object) -> None:
    # Only where a noise has to be chosen, the choices stand below each other.
    text = str(error).partition(" Choose one of these:\n")[0]
    assert text
    assert "\n" not in text
    assert len(text) < 12_000


def mutated(valid: str) -> st.SearchStrategy[str]:
    """A valid text with a few pieces cut out, doubled, or replaced by what is most likely to upset a reader."""
    pieces = st.sampled_from(
        ["", "[", "]", "{", "}", '"', ",", "=", "\n", "\x00", "\x1b[31m", "nan", "1e999", HUGE, "-1", "[[", "null", "’"]
    )
    places = st.integers(0, len(valid))

    def change(edits: list[tuple[int, int, str]]) -> str:
        text = valid
        for first, length, piece in edits:
            text = text[:first] + piece + text[first + length :]
        return text

    return st.lists(st.tuples(places, st.integers(0, 30), pieces), min_size=1, max_size=3).map(change)
