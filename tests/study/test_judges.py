"""A cheap judge scores every item first; then a study asks for few labels."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import cases

import bestarm as ba
from bestarm.policies import setting_for
from bestarm.policies.certify import Certify
from bestarm.policies.decisions import Stop
from bestarm.policies.setting import references
from bestarm.study.files.exchange import import_results, write_csv
from bestarm.study.reports.report import study_report

ITEMS = 80
ARMS = ("a", "b", "c")
RATES = {"human": (0.9, 0.6, 0.5), "harm": (0.02, 0.1, 0.5), "latency": (0.3, 0.4, 0.35)}
JUDGES = {"model": "human", "filter": "harm"}


def worlds(agreement: float = 0.95) -> dict[str, np.ndarray]:
    """By metric: [arm, item]."""
    random, found = np.random.default_rng(7), {}
    for metric, rates in RATES.items():
        values = random.uniform(size=(len(ARMS), ITEMS))
        found[metric] = np.where(values < np.array(rates)[:, np.newaxis], 1.0, 0.0)
    for judge, metric in JUDGES.items():
        agrees = random.uniform(size=(len(ARMS), ITEMS)) < agreement
        found[judge] = np.where(agrees, found[metric], 1.0 - found[metric])
    return found


WORLD = worlds()


def value(arm: str, metric: str, item: str) -> float:
    return float(WORLD[metric][ARMS.index(arm), int(item) - 1])


def plain(**more: Any) -> ba.Plan:
    objective = ba.maximize("human", noise=ba.Bernoulli(), judge="model", cost=2.0)
    stated: dict[str, Any] = {"arms": ARMS, "objective": objective, "items": ITEMS, "name": "judged"}
    return ba.Plan(**{**stated, **more})


def mixed() -> ba.Plan:
    """A judge of the objective, one of two limits, and a metric without one."""
    return plain(
        constraints=[
            ba.at_most("harm", 0.3, noise=ba.Bernoulli(), judge="filter"),
            ba.at_most("harm", relative_to_baseline=True, margin=0.3, noise=ba.Bernoulli(), judge="filter"),
            ba.at_most("latency", 0.8, noise=ba.Bounded(0, 2)),
        ],
        measurements=[ba.measurement("model", "filter", cost=0.01)],
        baseline="b",
    )


def result_of(test: ba.Test) -> Any:
    values = {metric: value(test.arm, metric, test.item or "") for metric in test.metrics}
    return values if len(values) > 1 else next(iter(values.values()))


def scores(plan: ba.Plan) -> list[Any]:
    rows: list[Any] = []
    for judges in plan.judges.values():
        for arm in ARMS:
            for item in range(1, ITEMS + 1):
                told = {judge: value(arm, judge, str(item)) for judge in judges}
                rows.append((arm, told, item) if len(told) > 1 else (arm, judges[0], told[judges[0]], item))
    return rows


def new(plan: ba.Plan, storage: Any = ":memory:") -> ba.Study:
    return ba.Study.create(plan, storage=storage, seed=3, items_seed=5)


def decide(study: ba.Study, most: int = 10**6) -> int:
    labels = 0
    while not study.done and labels < most:
        for test in study.ask(4):
            study.tell(test, result_of(test))
            labels += 1
    return labels


def test_scores_come_first_and_then_few_labels() -> None:
    asked: list[str] = []
    plan = mixed()

    def measure(arm: str, metric: str, item: str) -> Any:
        asked.append(metric)
        metrics = metric.split(" + ")
        values = {name: value(arm, name, item) for name in metrics}
        return values if len(metrics) > 1 else values[metric]

    answer = ba.identify(plan, measure, seed=3, items_seed=5)
    judges = {plan.test_names[lead] for lead in plan.judges}
    first = len(ARMS) * ITEMS
    assert answer.arm == "a"
    assert {*asked[:first]} == judges
    assert not judges & {*asked[first:]}
    assert answer.tests <= len(asked) - first


def without_judges(plan: ba.Plan) -> ba.Plan:
    return replace(
        plan,
        objective=replace(plan.objective, judge=None),
        constraints=tuple(replace(part, judge=None) for part in plan.constraints),
        measurements=(),
    )


def test_however_scores_are_told_the_study_is_the_same() -> None:
    plan = mixed()
    asked, imported, framed = new(plan), new(plan), new(plan)
    while asked.status().judges[0].scores < len(ARMS) * ITEMS:
        asked.tell_many([(test, result_of(test)) for test in asked.ask(500)])
    rows = scores(plan)
    imported.add(rows[:100])
    assert {test.metrics for test in imported.ask(3)} == {*plan.judges.values()}
    imported.release_held_by(imported.holder)
    imported.tell_many([(test, result_of(test)) for test in imported.ask(500)])
    columns: dict[str, list[Any]] = {"arm": [], "item": [], **{judge: [] for judge in plan.judged}}
    for arm in ARMS:
        for item in range(1, ITEMS + 1):
            columns["arm"].append(arm)
            columns["item"].append(item)
            for judge in plan.judged:
                columns[judge].append(value(arm, judge, str(item)))
    framed.add_frame(columns)
    found = []
    for study in (asked, imported, framed):
        decide(study)
        found.append((study.answer, study.status().judges))
    assert found[0] == found[1] == found[2]


def test_a_frame_with_scores_and_labels_counts_scores_first() -> None:
    study, plan = new(plain()), plain()
    rows = [(arm, item) for arm in ARMS for item in range(1, ITEMS + 1)]
    columns = {name: [value(arm, name, str(item)) for arm, item in rows] for name in ("human", "model")}
    labels = study.add_frame({"arm": [arm for arm, _ in rows], "item": [item for _, item in rows], **columns})
    assert sorted(labels) == [*range(1, 2 * len(rows) + 1)]
    # In the order of the frame: the label of a row comes before its score.
    assert labels[0] == len(rows) + 1
    assert labels[1] == 1
    assert study.answer is not None
    assert study.answer.arm == "a"
    assert study.status().judges[0].labels <= study.status().tests == len(rows)
    assert plan.judged == {"model": [0]}


def test_labels_before_scores_are_refused() -> None:
    study = new(plain())
    with pytest.raises(ba.InvalidInput, match=r"'human': cannot be recorded before every score .* 240 of 240"):
        study.add([("a", "human", 1.0, 3)])
    study.add(scores(plain())[:-1])
    with pytest.raises(ba.InvalidInput, match=r"1 of 240 are missing, such as 'model' of 'c' on '80'"):
        study.add([("a", "human", 1.0, 3)])
    study.add([("a", "human", 1.0, 3), scores(plain())[-1]])
    assert study.status().tests == 1


@pytest.mark.parametrize("score", [-0.1, 1.5, float("nan"), "high"])
def test_a_score_is_on_the_scale_of_labels(score: Any) -> None:
    study = new(plain())
    with pytest.raises(ba.InvalidInput, match="'model'"):
        study.add([("a", "model", score, 1)])
    study.add([("a", "model", 0.35, 1), ("a", "model", True, 2)])
    assert study.status().judges[0].scores == 2


def test_exported_and_imported_again(tmp_path: Path) -> None:
    first, second = new(mixed()), new(mixed())
    first.add(scores(mixed()))
    decide(first)
    file = io.StringIO()
    write_csv(first, file)
    import_results(second, file.getvalue().encode(), "again.csv")
    assert second.answer == first.answer
    assert second.status().judges == first.status().judges
    frame = first.frame(wide=True)
    assert {"model", "filter", "human", "harm"} <= {*frame.columns}


def test_a_corrected_score_counts() -> None:
    study, right = new(plain()), new(plain())
    rows = scores(plain())
    wrong = [(arm, metric, 1.0 - told if item == 17 else told, item) for arm, metric, told, item in rows]
    ids = study.add(wrong)
    right.add(rows)
    for test, (_, _, told, item) in zip(ids, rows, strict=True):
        if item == 17:
            study.correct(test, told, "typed wrong")
    assert decide(study) == decide(right)
    assert study.answer == right.answer
    assert study.status().judges == right.status().judges


_ELSEWHERE = """
import sys, bestarm as ba
sys.path.insert(0, {tests!r})
from tests.study.test_judges import decide
study = ba.Study.open("judged", storage={storage!r})
decide(study)
print(study.answer)
print(study.status().judges)
"""


def test_another_process_goes_on(tmp_path: Path) -> None:
    storage, here = tmp_path / "studies.db", new(mixed())
    study = new(mixed(), storage)
    for one in (study, here):
        one.add(scores(mixed()))
        decide(one, 20)
    decide(here)
    code = _ELSEWHERE.format(tests=str(Path(__file__).parents[2]), storage=str(storage))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{here.answer}\n{here.status().judges}\n"


def test_compiled_as_interpreted() -> None:
    """Every decision, and all that the streams keep, bit by bit."""
    plan = mixed()
    setting = setting_for(plan, Certify, plan.delta, plan.bound, references(plan))
    judge = setting.items.judge
    for name, parts in plan.judged.items():
        for part in parts:
            judge.scores[:, part] = WORLD[name]
            judge.means[:, part] = WORLD[name].mean(axis=1)
    both = [Certify(setting, len(ARMS), len(plan.metrics), seed=2) for _ in range(2)]
    both[1].compile()
    assert both[1].is_compiled
    made: dict[tuple[int, int], int] = {}
    decisions: Any = [policy.decide() for policy in both]
    while not isinstance(decisions[0], Stop):
        assert decisions[0] == decisions[1]
        rows, values = [], []
        for arm, lead in decisions[0]:
            place = made[arm, lead] = made.get((arm, lead), -1) + 1
            for _, part in both[0].results_of(arm, lead):
                rows.append((arm, part, place))
                values.append(WORLD[plan.parts[part].metric][arm, place])
        ends = np.zeros(len(rows), np.int8)
        ends[-1] = 1
        decisions = [policy.advance(np.array(rows), np.array(values), ends) for policy in both]
    assert decisions[0] == decisions[1]
    for one, other in zip(*(flat(policy.streams) for policy in both), strict=True):
        assert one.tobytes() == other.tobytes()


def flat(streams: Any) -> list[np.ndarray]:
    if isinstance(streams, np.ndarray):
        return [streams]
    return [array for part in streams for array in flat(part)]


def test_budgets_count_labels_and_all_costs() -> None:
    plan = plain(budget=ba.Budget(tests=30), measurements=[ba.measurement("model", cost=0.5)])
    study = new(plan)
    study.add(scores(plan))
    assert decide(study) == 30
    assert study.done
    answer = study.answer
    assert answer is not None
    assert (answer.tests, answer.cost) == (30, 0.5 * 240 + 2.0 * 30)
    assert (study.status().tests, study.status().cost) == (answer.tests, answer.cost)
    short = new(plain(budget=ba.Budget(cost=50.0), measurements=[ba.measurement("model", cost=0.5)]))
    assert len(short.ask(1_000)) == 100


def test_what_is_shown() -> None:
    study = new(plain())
    assert "0 of 240 scores are told" in str(study.status())
    study.add(scores(plain()))
    decide(study, 60)
    [judge] = study.status().judges
    assert judge.agreement is not None
    assert 0.85 < judge.agreement <= 1.0
    shown = str(study.status())
    assert f"agrees with {100 * judge.agreement:.0f}% of {judge.labels} labels; {judge.words.split('; ')[1]}" in shown
    assert judge.bias_words in shown
    assert judge.bias_words in study_report(study)
    assert "<td>240 scores</td>" in study_report(study)
    for k, arm in enumerate(ARMS):
        bias = WORLD["model"][k].mean() - WORLD["human"][k].mean()
        assert judge.bias[arm].low <= bias <= judge.bias[arm].high
    assert study.status().to_dict()["judges"][0]["saved"] == judge.saved
    assert "judges" not in new(without_judges(plain())).status().to_dict()
    outlook = study.forecast(runs=10)
    assert outlook is None or outlook.runs == 10
    assert len(study.course(points=10)) > 3


@cases(10)
@pytest.mark.parametrize("judge", ["right", "wrong", "constant", "half"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"objective": ba.minimize("human", noise=ba.Bounded(-1, 2), judge="model", tolerance=0.01)},
        {"constraints": [ba.at_least("human", 0.55, noise=ba.Bernoulli(), judge="model", slack=0.01, cost=2.0)]},
        {"top": 2},
        {"goal": "top", "top": 2},
        {"goal": "any feasible", "constraints": [ba.at_most("harm", 0.3, noise=ba.Bernoulli(), judge="filter")]},
        {"goal": "every feasible", "constraints": [ba.at_most("harm", 0.3, noise=ba.Bernoulli(), judge="filter")]},
        {
            "baseline": "b",
            "constraints": [
                ba.at_least("human", 0.9, noise=ba.Bernoulli(), relative_to_baseline=True, judge="model", cost=2.0),
                ba.at_most("harm", noise=ba.Bernoulli(), relative_to_baseline=True, margin=0.1, judge="filter"),
            ],
        },
    ],
    ids=lambda more: "-".join(more) or "best",
)
def test_whatever_the_judge_says_all_labels_settle_it(more: dict[str, Any], judge: str) -> None:
    """At this δ nothing but the last labels can decide, so the answer is what it is without a judge."""
    plan = plain(**{"items": 16, "delta": 1e-12, **more})
    study, alone = new(plan), new(without_judges(plan))
    said = {"right": 0.0, "wrong": 1.0, "constant": 0.5, "half": 0.25}[judge]
    for name, parts in plan.judged.items():
        metric, low = plan.parts[parts[0]].metric, plan.parts[parts[0]].noise.range[0]
        truth = [(arm, item, value(arm, metric, str(item))) for arm in ARMS for item in range(1, 17)]
        told = [(arm, name, max(low, label + said - 2.0 * said * label), item) for arm, item, label in truth]
        study.add(told)
    decide(study)
    decide(alone)
    assert study.answer is not None
    assert alone.answer is not None
    assert (study.answer.arms, study.answer.state) == (alone.answer.arms, alone.answer.state)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"items": None}, "judge = 'model'.*needs items"),
        ({"repeats": True}, "judge = 'model'.*needs items"),
        ({"objective": ba.maximize("human", noise=ba.Bernoulli())}, None),
        ({"measurements": [ba.measurement("human", "model")]}, "scores of the judge 'model' are told before"),
        ({"policy": "feasible-lucb"}, "choose certify"),
    ],
)
def test_what_does_not_go_with_a_judge(more: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert not plain(**more).judged
        return
    with pytest.raises(ba.InvalidInput, match=message):
        new(plain(**more))


@pytest.mark.parametrize(
    ("noise", "judge", "message"),
    [
        (ba.Gaussian(1.0), "model", r"needs values in a range: Bernoulli\(\) or Bounded\(low, high\)"),
        (ba.Symmetric(), "model", "needs values in a range"),
        (ba.Bernoulli(), "human", "must be another metric"),
    ],
)
def test_what_cannot_be_judged(noise: Any, judge: str, message: str) -> None:
    with pytest.raises(ba.InvalidInput, match=message):
        ba.maximize("human", noise=noise, judge=judge)


def test_a_study_file_names_it() -> None:
    plan = mixed()
    assert 'judge = "model"' in plan.to_toml()
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    assert ba.Plan.from_json(plan.to_json()) == plan
    assert "judge =" not in without_judges(plan).to_toml()
    with pytest.raises(ba.InvalidInput, match="cannot be simulated before there are labels"):
        ba.simulate(plain(arms=[ba.Arm("a", {"human": 0.9}), ba.Arm("b", {"human": 0.5})]), runs=2)
