"""What simulations and forecasts found, as rows of texts: for `print`, notebooks and the command line alike."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

Rows = list[tuple[str, str]]
"""A label and its text."""

MOST_ROWS = 50
"""The most answers, or arms, with a row each."""


def titled(title: str, table: str) -> str:
    """A table with its title, for a notebook."""
    return f"<p><strong>{escape(title)}</strong></p>{table}"


def answer_rows(answers: Mapping[str, float], form: str) -> Rows:
    """The answers that were given, the most frequent first, not too many of them."""
    often = sorted(answers.items(), key=lambda item: -item[1])
    texts = [f"{'no feasible arm' if name == 'none' else name}: {form.format(how)}" for name, how in often[:MOST_ROWS]]
    if len(often) > MOST_ROWS:
        texts.append(f"and {len(often) - MOST_ROWS:,} more: {form.format(sum(how for _, how in often[MOST_ROWS:]))}")
    return [("answers" if k == 0 else "", text) for k, text in enumerate(texts)]
