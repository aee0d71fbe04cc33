"""Which assistant is best, when judges are expensive? THE JUDGES AND ASSISTANTS HERE ARE SIMULATED.

python examples/judges/judges.py               # all assistants answer the same questions
python examples/judges/judges.py --budget 450  # what is known when the money has run out
python examples/judges/judges.py --compare     # and without that, to see what it saves
python examples/judges/judges.py --model-first # what it saves if a model reads every reply before people read some
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import bestarm as ba


class Assistant(NamedTuple):
    """What the simulation knows and the study does not: how this assistant does on a typical question."""

    quality: float
    violations: float
    cents: float


ASSISTANTS = {
    "small, short prompt": Assistant(quality=5.6, violations=0.010, cents=0.10),
    "small, long prompt": Assistant(quality=6.3, violations=0.012, cents=0.25),
    "small, with examples": Assistant(quality=7.0, violations=0.015, cents=0.60),
    "large, short prompt": Assistant(quality=7.0, violations=0.110, cents=0.90),
    "large, long prompt": Assistant(quality=7.3, violations=0.012, cents=1.30),
    "large, with examples": Assistant(quality=7.6, violations=0.011, cents=3.20),
}
TOPICS = ("orders", "delivery", "refunds", "accounts", "complaints")
QUESTIONS = [f"{topic} {number}" for topic in TOPICS for number in range(1, 101)]
HARDNESS = 1.5
"""By how many points questions differ."""
RESIDUE = 0.8
"""By how many points the replies of one assistant scatter beyond that."""

PROBLEM = ba.Plan(
    name="assistants",
    delta=0.05,
    arms=list(ASSISTANTS),
    # A score from 0 to 10; 0.1 points are not worth another week.
    objective=ba.maximize("quality", noise=ba.Bounded(0, 10), tolerance=0.1),
    constraints=[
        ba.at_most("violation", 0.05, noise=ba.Bernoulli(), slack=0.01),
        # Calls are cut off at 10 cents.
        ba.at_most("cents per call", 2.0, noise=ba.Bounded(0, 10)),
    ],
    # One call, one careful reading: the score, whether the reply breaks the rules, and what is on the bill.
    measurements=[ba.measurement("quality", "violation", "cents per call", cost=92)],
    # Every assistant is asked these, in the same random order.
    items=QUESTIONS,
)
APART = {"quality": 82.0, "violation": 12.0, "cents per call": 2.0}
"""What a call costs if one thing alone is looked at: 80 cents for a reader, 10 for a check, 2 for the call itself."""

ACCEPTABLE = ba.Plan(
    name="acceptable replies",
    arms=list(ASSISTANTS),
    # Would a reader send this reply? 5 in 100 questions do not matter.
    objective=ba.maximize("acceptable", noise=ba.Bernoulli(), tolerance=0.05),
    measurements=[ba.measurement("acceptable", cost=90)],
    items=QUESTIONS,
)
MODEL_FIRST = dataclasses.replace(
    ACCEPTABLE,
    objective=dataclasses.replace(ACCEPTABLE.objective, judge="model's opinion"),
    measurements=(*ACCEPTABLE.measurements, ba.measurement("model's opinion", cost=0.5)),
)


def verdict(assistant: str, question: str) -> dict[str, float]:
    """One question to the assistant, one verdict on its reply. Replace this by calls of your own judges."""
    truth = ASSISTANTS[assistant]
    # Some questions are hard, provoking or long for all assistants.
    common, own = random.Random(question), random.Random(f"{assistant}: {question}")
    score = truth.quality + common.gauss(0, HARDNESS) + own.gauss(0, RESIDUE)
    provoked = 0.7 * common.random() + 0.3 * own.random()
    cents = truth.cents * common.gammavariate(4, 0.25) * own.gammavariate(8, 0.125)
    return {
        "quality": float(min(10, max(0, round(score)))),
        "violation": float(provoked < provocation(truth.violations)),
        "cents per call": min(10.0, cents),
    }


def opinion(assistant: str, metric: str, question: str) -> float:
    """Whether a reader finds the reply acceptable, or a model, which likes large models and is right on nine in ten."""
    score, own = verdict(assistant, question)["quality"], random.Random(f"model on {assistant}: {question}")
    if metric == "acceptable":
        return float(score >= 7)
    return float(score + own.gauss(0.3 if assistant.startswith("large") else -0.2, 0.6) >= 6.5)


def provocation(rate: float) -> float:
    """What a sum of 0.7 and 0.3 times two random numbers from 0 to 1 stays below, with this probability up to 0.2."""
    return math.sqrt(2 * 0.7 * 0.3 * rate)


def guessed(plan: ba.Plan) -> ba.Plan:
    """The plan with guesses for a forecast: means of 3% to either side of what is typical; how much questions differ,
    and how much the replies of one assistant scatter beyond that."""
    return dataclasses.replace(
        plan,
        arms=tuple(
            ba.Arm(
                name,
                means={m: (0.97 * mean, 1.03 * mean) for m, mean in zip(plan.metrics, truth, strict=True)},
                spreads={"quality": RESIDUE, "cents per call": truth.cents / 2},
            )
            for name, truth in ASSISTANTS.items()
        ),
        item_spreads={"quality": HARDNESS},
    )


def with_own_questions(plan: ba.Plan) -> ba.Plan:
    """The same question where every call has a random question of its own."""
    return dataclasses.replace(plan, items=None)


def one_by_one(plan: ba.Plan) -> ba.Plan:
    """The same where, besides, only one thing is looked at in each reply."""
    return dataclasses.replace(
        plan,
        items=None,
        measurements=(),
        objective=dataclasses.replace(plan.objective, cost=APART[plan.objective.metric]),
        constraints=tuple(dataclasses.replace(limit, cost=APART[limit.metric]) for limit in plan.constraints),
    )


def judge(rng: random.Random) -> Callable[..., dict[str, float]]:
    """Measures on the question that the study names, or on a random one."""

    def measure(assistant: str, metrics: str, question: str = "") -> dict[str, float]:
        found = verdict(assistant, question or rng.choice(QUESTIONS))
        return {metric: value for metric, value in found.items() if metric in metrics}

    return measure


def ways_to_ask(plan: ba.Plan) -> dict[str, ba.Plan]:
    return {
        "the same questions for all, one reading of each reply": plan,
        "a random question for each call, one reading of each reply": with_own_questions(plan),
        "a random question for each call, one metric of each reply": one_by_one(plan),
    }


def ways_to_read(delta: float) -> dict[str, ba.Plan]:
    return {
        "people alone read replies": dataclasses.replace(ACCEPTABLE, delta=delta),
        "a model reads every reply, then people read some": dataclasses.replace(MODEL_FIRST, delta=delta),
    }


def decided(plan: ba.Plan, seed: int) -> ba.Answer:
    """The answer of a study. Seeds are stated only so that the table can be printed again."""
    items_seed = None if plan.items is None else seed
    if plan.objective.metric != "acceptable":
        return ba.identify(plan, judge(random.Random(seed)), seed=seed, items_seed=items_seed)
    study = ba.Study.create(plan, storage=":memory:", seed=seed, items_seed=items_seed)
    pairs = [(assistant, question) for assistant in ASSISTANTS for question in QUESTIONS] if plan.judged else []
    study.add([(name, "model's opinion", opinion(name, "model's opinion", on), on) for name, on in pairs])
    while study.answer is None:
        for test in study.ask(1):
            study.tell(test, opinion(test.arm, test.metric, test.item or ""))
    return study.answer


def compare(ways: Mapping[str, ba.Plan], studies: int) -> None:
    """What each way saves. The verdicts are the same in all studies."""
    print("| each study with | mean tests | fewest, most | dollars | answers |")
    print("| --- | ---: | ---: | ---: | --- |")
    for way, asked in ways.items():
        answers = [decided(asked, seed) for seed in range(studies)]
        tests, cost = (sum(each) / studies for each in zip(*((a.tests, a.cost) for a in answers), strict=True))
        made, given = sorted(a.tests for a in answers), sorted({str(a.arm) for a in answers})
        print(
            f"| {way} | {tests:,.0f} | {made[0]:,}, {made[-1]:,} | {cost / 100:,.0f} | {'; '.join(given)} |", flush=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Which assistant is best? (simulated judges)")
    parser.add_argument("--delta", type=float, default=PROBLEM.delta, help="the probability of a wrong answer")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a simulated judge thinks (default: 0.05)")
    parser.add_argument("--workers", type=int, default=8, help="judges at work at the same time (default: 8)")
    parser.add_argument("--db", type=Path, default=Path("judges.db"), help="where the study is kept")
    parser.add_argument("--budget", type=int, help="stop after so many verdicts, with an answer or without")
    parser.add_argument("--compare", action="store_true", help="what the same questions for all save; keeps no study")
    parser.add_argument("--model-first", action="store_true", help="the same where a model reads every reply first")
    parser.add_argument("--studies", type=int, default=10, help="how many of each kind these two make (default: 10)")
    options = parser.parse_args()
    print("The judges and the assistants of this example are simulated.")
    plan = ba.Plan.of(PROBLEM, delta=options.delta)
    if options.compare or options.model_first:
        compare(ways_to_read(options.delta) if options.model_first else ways_to_ask(plan), options.studies)
        return 0

    # Before the first paid verdict: what would it take if things are as we guess?
    outlook = ba.forecast(guessed(plan), runs=200, seed=1)
    print(f"Forecast from guesses: about {outlook.median_tests:,.0f} tests, {outlook.mean_cost / 100:,.0f} dollars")

    if options.budget is not None:
        plan = dataclasses.replace(plan, budget=ba.Budget(tests=options.budget))

    def measure(assistant: str, metrics: str, question: str) -> dict[str, float]:
        time.sleep(options.seconds)
        return verdict(assistant, question)

    start = time.monotonic()
    answer = ba.identify(plan, measure, storage=options.db, workers=options.workers, progress=sys.stderr.isatty())
    print(f"{answer}; {time.monotonic() - start:.0f} s, {answer.cost / 100:,.2f} dollars")
    for assistant, reason in answer.reasons.items():
        print(f"  {assistant}: {reason}")
    if answer.state == "budget_spent":
        status = ba.Study.open(plan.name, storage=options.db).status()
        print("Still open:", *status.open, sep="\n  ")
    print(f"To look at it in a browser: bestarm serve --db {options.db}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
