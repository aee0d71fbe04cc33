"""What is said of a study in blocks: how its tests are made, and what its guarantee rests on."""

from __future__ import annotations

from bestarm.problem import Blocks, Constraint, Objective, Plan
from bestarm.texts import Noun, listed


def about_blocks(blocks: Blocks, noun: Noun) -> str:
    """How tests are made."""
    return (
        f"Tests are made in {Noun.of(blocks.name).many} of {blocks.size}, and {noun.many} are compared within each "
        f"{blocks.name}. {_what_counts(blocks, noun)}"
    )


def _what_counts(blocks: Blocks, noun: Noun) -> str:
    if blocks.same_for_all:
        return f"Each test of {noun.a} is compared with one test of each other {noun.one} in its {blocks.name}."
    return f"The mean of {noun.a}'s tests in a {blocks.name} counts as one result."


def on_blocks(blocks: Blocks, noun: Noun) -> str:
    """What has to hold of the blocks."""
    same = f"is the same for all {noun.many}"
    return (
        f"Each test was made in the {blocks.name} and at the place that the study named. What a {blocks.name} adds to "
        f"its tests {same if blocks.same_for_all else f'{same}, or differs between them only by chance'}. Tests went "
        "missing only for reasons that have nothing to do with their results."
    )


def about_means(plan: Plan) -> str:
    """What stands beside means in blocks: what they are of, and which must not be subtracted. Empty elsewhere."""
    if plan.blocks is None:
        return ""
    blocks = Noun.of(plan.blocks.name)
    weighting = f"Each mean is one of {blocks.one} means, in which {blocks.a} counts once, however many tests it has."
    compared = _compared(plan)
    if not compared:
        return weighting
    metrics = listed([*dict.fromkeys(part.metric for part in compared)])
    return (
        f"{weighting} Means of {metrics} include what their {blocks.many} added: do not subtract them. "
        f"{plan.noun.many.capitalize()} are compared by differences within {blocks.a}."
    )


def what_stays(plan: Plan, stays: str) -> list[str]:
    """What is the same for the whole study: for what is only compared within blocks, the difference between arms."""
    compared = _compared(plan)
    alone = [part for part in plan.parts if part not in compared]
    found = []
    if compared:
        names = listed([*dict.fromkeys(part.metric for part in compared)])
        found.append(f"The difference between two {plan.noun.many} in {names} stays the same for the whole study.")
    if alone:
        metrics = "each metric" if not compared else listed([*dict.fromkeys(part.metric for part in alone)])
        found.append(f"The {stays} of {metrics} of each {plan.noun.one} stays the same for the whole study.")
    return found


def _compared(plan: Plan) -> list[Objective | Constraint]:
    """The parts that are only compared within blocks. What they share there may be anything."""
    if plan.blocks is None:
        return []
    # Of another multiple of the baseline than 1, a part of what blocks add is left.
    relative = [part for part in plan.constraints if part.relative_to_baseline and part.threshold == 1.0]
    return [*([] if "feasible" in plan.asks else [plan.objective]), *relative]
