"""Answers of simulated studies, arms and sets of arms alike: their names, which are right, and rows that show them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from bestarm.kernel.state import NONE, UNFINISHED, Flags, Ints
from bestarm.problem import Problem

Rows = list[tuple[str, str]]
"""A label and its text."""

MOST_ROWS = 50
"""The most answers, or arms, with a row each."""


def named_answers(problem: Problem, answers: Ints, sets: Flags | None = None) -> list[str | None]:
    """Each answer by name: an arm, the arms of a set, "none" for "no arm is feasible", None if there is none."""
    arms = problem.arm_names
    names: dict[int, str | None] = {UNFINISHED: None, NONE: "none", **dict(enumerate(arms))}
    if sets is None:
        return [names[answer] for answer in answers.tolist()]
    kinds, of_run = np.unique(sets > 0, axis=0, return_inverse=True)
    known = [", ".join(arms[arm] for arm in np.flatnonzero(kind).tolist()) for kind in kinds]
    rows = zip(answers.tolist(), of_run.ravel().tolist(), strict=True)
    return [known[kind] if answer >= 0 else names[answer] for answer, kind in rows]


def wrong_answers(problem: Problem, answers: Ints, sets: Flags | None = None) -> int:
    """How many runs gave a wrong answer. Unfinished runs gave none, except where every feasible arm is asked for: what
    they decided of an arm is an answer.

    `sets` has the arms of each answer [run, arm] where answers are sets. A short list is right if it has a right
    answer, or if no arm is feasible: it says only where the best feasible arm is, if any arm is feasible. For goal
    "every feasible", no arm that misses no threshold may be rejected, and none that misses one by its slack or more be
    certified.
    """
    if sets is not None and problem.asks == "every feasible":
        truly, nearly = problem.feasible_arms()
        others = [arm for arm in range(sets.shape[1]) if arm not in nearly]
        return int(((sets[:, truly] < 0).any(axis=1) | (sets[:, others] > 0).any(axis=1)).sum())
    right = tuple(NONE if answer is None else answer for answer in problem.right_answers())
    if sets is None:
        return int((~np.isin(answers, (*right, UNFINISHED))).sum())
    if problem.asks == "short list":
        holds = sets[:, [arm for arm in right if arm != NONE]].any(axis=1) | (NONE in right)
    else:
        kinds, of_run = np.unique(sets, axis=0, return_inverse=True)
        holds = np.array([_is_right_top(problem, np.flatnonzero(kind).tolist()) for kind in kinds])[of_run.ravel()]
    is_none = answers == NONE
    return int(((answers != UNFINISHED) & np.where(is_none, NONE not in right, ~holds)).sum())


def _is_right_top(problem: Problem, members: list[int]) -> bool:
    """Whether these are the `top` best feasible arms, or all feasible ones if there are fewer.

    As in Theorem G.5 in `docs/certificates/goals.md`: no member misses a threshold by its slack or more; and a member
    that is not one of the best is not worse, by more than the tolerance, than any of the best that are left out.
    """
    scores = problem.true_means()[:, 0] * problem.signs[0]
    truly, nearly = problem.feasible_arms()
    best = sorted(truly, key=lambda arm: -scores[arm])[: problem.top]
    left_out = [arm for arm in best if arm not in members]
    if not set(members) <= set(nearly) or (left_out and len(members) < problem.top):
        return False
    worst = min((scores[arm] for arm in members if arm not in best), default=np.inf)
    return bool(worst >= max((scores[arm] for arm in left_out), default=-np.inf) - problem.objective.tolerance)


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
