"""Whole studies of every mixture: bundles, items, orders, noises, policies, and workers who fail or give up.

Whatever happened, the record alone decides: a study opened anew, one that was exported and imported, and one whose
results are taken in at once by the same source, agree with the one that lived through it.
"""

from __future__ import annotations

import dataclasses
import io
import random
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, note
from hypothesis import strategies as st
from tests.lengths import examples

import bestarm as ba
from bestarm.problem.items import count_of
from bestarm.study.files.exchange import import_results, write_csv
from bestarm.study.intake.values import Result, Value

NOISES: dict[str, ba.Noise] = {
    "gaussian": ba.Gaussian(2.0),
    "symmetric": ba.Symmetric(),
    "bounded": ba.Bounded(0.0, 10.0),
    "bernoulli": ba.Bernoulli(),
    "exact": ba.Exact(),
    "duel": ba.Duel(),
}
RATES = ("bernoulli", "duel")


Part = TypeVar("Part", ba.Objective, ba.Constraint)


@st.composite
def plans(draw: st.DrawFn) -> ba.Plan:
    """Two or three arms, up to three constraints, some metrics measured together or limited twice, perhaps on items,
    which judges may score first."""
    kinds = draw(st.lists(st.sampled_from([*NOISES]), min_size=1, max_size=3))
    objective = ba.maximize("metric 0", noise=NOISES[kinds[0]], tolerance=draw(st.sampled_from([0.0, 0.2])))
    constraints = [
        ba.at_most(f"metric {k}", 0.6 if kind in RATES else 6.0, noise=NOISES[kind])
        for k, kind in enumerate(kinds[1:], start=1)
    ]
    if kinds[0] in ("gaussian", "symmetric", "bounded") and draw(st.booleans()):
        # The objective has a limit, too: of its mean, or of a quantile.
        noise = draw(st.sampled_from([NOISES[kinds[0]], ba.Quantile(0.8)]))
        constraints.append(ba.at_most("metric 0", 9.5, noise=noise))
    # Some limits are relative to the first arm, and there may be one of a ratio.
    places = [k for k, part in enumerate(constraints) if not isinstance(part.noise, ba.Quantile)]
    # What is fought against in duels is no arm.
    places = [] if "duel" in kinds else places
    relative = draw(st.lists(st.sampled_from(places), unique=True, max_size=2)) if places else []
    for k in relative:
        factor = draw(st.sampled_from([0.9, 1.2]))
        constraints[k] = ba.at_most(constraints[k].metric, noise=constraints[k].noise, relative_to_baseline=factor)
    if draw(st.booleans()):
        constraints.append(ba.at_most("over", 1.2, per="under", noise=ba.Bounded(-20.0, 20.0)))
    parts: list[ba.Objective | ba.Constraint] = [objective, *constraints]
    metrics = list(dict.fromkeys(metric for part in parts for metric in part.measures))
    together = draw(st.lists(st.sampled_from(metrics), unique=True, max_size=3))
    if "over" in together or "under" in together:
        together = list(dict.fromkeys([*together, "over", "under"]))
    items = draw(st.sampled_from([None, None, 7, ["first", "second", "third", "fourth"]]))
    repeats = items is not None and draw(st.booleans())
    measurements = [ba.measurement(*together, cost=1.5)] if len(together) > 1 else []
    if items is not None and not repeats and draw(st.booleans()):
        objective, constraints = with_judge(objective), [with_judge(part) for part in constraints]
        judges = [judge for judge in dict.fromkeys([objective.judge, *(part.judge for part in constraints)]) if judge]
        if len(judges) > 1 and draw(st.booleans()):
            measurements.append(ba.measurement(*judges[:2], cost=0.25))
    return ba.Plan(
        arms=[f"arm {k}" for k in range(draw(st.integers(2, 3)))],
        objective=objective,
        constraints=constraints,
        measurements=measurements,
        items=items,
        repeats=repeats,
        baseline="arm 0" if relative else "plain" if "duel" in kinds else None,
        policy="certify"
        if items is not None or relative
        else draw(st.sampled_from(["certify", "feasible-lucb", "racing"])),
        order=draw(st.sampled_from(["issue", "arrival"])),
        delta=draw(st.sampled_from([0.05, 0.4])),
        budget=ba.Budget(tests=draw(st.integers(10, 60))),
    )


def with_judge(part: Part) -> Part:
    """Whose metric has a judge, if it may have one."""
    takes = part.noise.takes_judge and len(part.measures) == 1
    return dataclasses.replace(part, judge=f"judge of {part.metric}") if takes else part


def measured(plan: ba.Plan, test: ba.Test, luck: random.Random) -> Result:
    """What a test gives."""
    arm = plan.arm_names.index(test.arm)
    ease = random.Random(test.item).gauss(0.0, 1.0) if test.item else 0.0
    values: dict[str, Value] = {}
    for metric in test.metrics:
        noise = next((part.noise for part in plan.parts if part.measures == (metric,)), None)
        mean = 4.0 + arm + ease
        if isinstance(noise, ba.Bernoulli):
            values[metric] = float(luck.random() < 0.3 + 0.2 * arm)
        elif metric in plan.judged:
            # It depends on the arm and the item alone, as it should.
            low, high = plan.parts[plan.judged[metric][0]].noise.range
            values[metric] = low + (high - low) * random.Random(f"{test.arm} {test.item}").random()
        elif isinstance(noise, ba.Duel):
            values[metric] = 0.75 if luck.random() < 0.1 else luck.choice(["tie", "loss", *(["win"] * (1 + arm))])
        elif isinstance(noise, ba.Exact):
            values[metric] = 4.0 + arm
        else:
            values[metric] = min(max(mean + luck.gauss(0.0, 1.0), 0.1), 10.0)
    return values if len(values) > 1 or luck.random() < 0.5 else values[test.metrics[0]]


def live(study: ba.Study, luck: random.Random) -> None:
    """Work on a study with bad luck until it is done, or nothing more can be done."""
    held: list[ba.Test] = []
    for _ in range(400):
        if study.done:
            return
        if not held or luck.random() < 0.4:
            held += study.ask(luck.randint(1, 4))
        if not held:
            return
        test = held.pop(luck.randrange(len(held)))
        chance = luck.random()
        if chance < 0.05:
            study.abandon(test, "power cut")
        elif chance < 0.1:
            study.fail(test, "cable")
        elif chance < 0.15:
            study.release(test)
        else:
            result = measured(study.plan, test, luck)
            study.tell(test, result)
            if chance > 0.97:
                study.correct(test, measured(study.plan, test, luck), "typo")


def seen(study: ba.Study) -> dict[str, Any]:
    """What a study says of its results, apart from who holds what."""
    status = study.status()
    shown = dataclasses.asdict(status)
    return {
        "answer": None if study.answer is None else (study.answer.arm, study.answer.state, study.answer.tests),
        **{
            name: repr(shown[name]) for name in ("state", "leader", "confidence", "tests", "cost", "arms", "candidates")
        },
    }


@examples(3, 100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(plan=plans(), seed=st.integers(0, 10**6))
def test_the_record_alone_decides(plan: ba.Plan, seed: int) -> None:
    note(plan.to_toml())
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "studies.db")
        seeds: dict[str, Any] = {"seed": seed} | ({} if plan.items is None else {"items_seed": seed + 1})
        study = ba.Study.create(plan, storage=database, **seeds)
        live(study, random.Random(seed))
        assert study.done or study.pending() or plan.items is not None
        lived = seen(study)
        again = ba.Study.open(plan.name, storage=database)
        assert seen(again) == lived
        for (test, row), (other, other_row) in zip(study.pending(), again.pending(), strict=True):
            assert (test, row) == (other, other_row)
        # Tests that were given up are not in it; what waits for a result that is out is taken in by a copy at once.
        if not study.pending() and study.answer is not None and study.answer.state != "budget_spent":
            text = io.StringIO()
            write_csv(study, text)
            copy = ba.Study.create(dataclasses.replace(plan, name="copy"), storage=database, **seeds)
            import_results(copy, text.getvalue().encode(), "export.csv")
            assert copy.answer is not None
            assert (copy.answer.arm, copy.answer.state) == (study.answer.arm, study.answer.state)


@examples(3, 60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(plan=plans(), seed=st.integers(0, 10**6))
def test_items_are_met_in_one_order(plan: ba.Plan, seed: int) -> None:
    """Each arm is measured on the first items of the order, each once; a test without a result gives its item back."""
    if plan.items is None:
        plan = dataclasses.replace(plan, items=9, policy="certify")
    study = ba.Study.create(plan, storage=":memory:", items_seed=seed)
    live(study, random.Random(seed))
    places: dict[tuple[int, int], list[int]] = {}
    for test in study.storage.history(study.record.key):
        told = [outcome for outcome in test.outcomes if outcome.value is not None]
        if told or not test.outcomes:
            assert test.item is not None
            places.setdefault((test.arm, test.metric), []).append(test.item)
    assert plan.items is not None
    for taken in places.values():
        assert len(set(taken)) == len(taken)
        assert plan.repeats or max(taken) < count_of(plan.items)
