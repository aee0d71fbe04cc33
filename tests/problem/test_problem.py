"""The problem model: what is accepted, what is refused and in which words, and both file formats."""

from __future__ import annotations

import dataclasses
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples

import bestarm as ba
from bestarm.validation import parse

DOSE = """
name = "dose"
delta = 0.05
policy = "racing"

[objective]
metric = "efficacy"
goal = "maximize"
noise = "bernoulli"

[[constraints]]
metric = "adverse event"
at_most = 0.5
noise = "bernoulli"
cost = 3.0

[[constraints]]
metric = "dissolved"
at_least = 20
noise = { bounded = [0, 100] }

[[constraints]]
metric = "pulse"
at_most = 120
noise = { gaussian = 12.5 }

[[arms]]
name = "150 mg"
means = { "efficacy" = 0.465, "adverse event" = 0.465, "dissolved" = 55, "pulse" = 90 }

[[arms]]
name = "placebo"
"""


def test_the_file_format() -> None:
    plan = ba.Plan.from_toml(DOSE)
    assert (plan.name, plan.delta, plan.policy, plan.bound) == ("dose", 0.05, "racing", "paper")
    assert plan.arm_names == ("150 mg", "placebo")
    assert plan.metrics == ("efficacy", "adverse event", "dissolved", "pulse")
    assert plan.constraints[0] == ba.at_most("adverse event", 0.5, noise=ba.Bernoulli(), cost=3.0)
    assert plan.constraints[1] == ba.at_least("dissolved", 20.0, noise=ba.Bounded(0, 100))
    assert plan.constraints[2].noise == ba.Gaussian(12.5)
    assert plan.costs == (1.0, 3.0, 1.0, 1.0)
    assert plan.arms[1].means is None


def test_normal_form_turns_every_direction_round() -> None:
    problem = ba.Problem(
        arms=("a",),
        objective=ba.minimize("latency", noise=ba.Gaussian(2.0), cost=4.0),
        constraints=(
            ba.at_most("load", 0.7, noise=ba.Bernoulli()),
            ba.at_least("score", 5.0, noise=ba.Bounded(0, 10)),
        ),
    )
    form = problem.normal_form()
    assert form.sign.tolist() == [-1.0, 1.0, -1.0]
    assert form.threshold.tolist() == [0.0, 0.7, -5.0]
    assert form.sigma.tolist() == [2.0, 0.5, 5.0]
    assert (form.cost == [4.0, 1.0, 1.0]).all()


def objective(**changes: Any) -> dict[str, Any]:
    return {"metric": "m", "goal": "maximize", "noise": "bernoulli", **changes}


def constraint(**changes: Any) -> dict[str, Any]:
    return {"metric": "c", "at_most": 0.5, "noise": "bernoulli", **changes}


def plan_data(**changes: Any) -> dict[str, Any]:
    return {"arms": [{"name": "a"}], "objective": objective(), "constraints": [constraint()], **changes}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (plan_data(arms=[]), "arms = []: must name at least one"),
    (plan_data(arms=[], name=""), "arms = []: must name at least one; name = '': must not be empty"),
    (plan_data(arms=["a", "b", "a"]), "arms[2].name = 'a': another arm has this name already"),
    (plan_data(arms=["a", ""]), "arms[1].name = '': must not be empty"),
    (plan_data(arms=["a", "  "]), "arms[1].name = '  ': must not be empty"),
    (plan_data(arms=[" a"]), "arms[0].name = ' a': must not begin or end with white space"),
    (plan_data(arms=["a\nb"]), "must not contain control characters"),
    (plan_data(arms=["x" * 201]), "must have at most 200 characters, not 201"),
    (plan_data(arms=["none"]), "arms[0].name = 'none': this name is kept for the answer"),
    (plan_data(arms=[7]), 'arms[0] = 7: must be a name, as in "7", or an Arm'),
    (plan_data(arms="abc"), "arms = 'abc': must be a list"),
    (plan_data(arms=[{"name": 3}]), "arms[0].name = 3: must be text"),
    (plan_data(arms=[{"name": "a", "mean": 3}]), "arms[0].mean = 3: is not a known field; did you mean 'means'?"),
    (plan_data(arms=[{"name": "a", "means": {"m": 1.5}}]), "arms[0].means['m'] = 1.5: must lie between 0 and 1"),
    (plan_data(arms=[{"name": "a", "means": {"m": math.nan}}]), "arms[0].means.m = nan: must be a finite number"),
    (
        plan_data(arms=[{"name": "a", "means": {"x": 0.5}}]),
        "means['x'] = 0.5: no such metric; the metrics are 'm', 'c'",
    ),
    (plan_data(objective=objective(metric="")), "objective.metric = '': must not be empty"),
    (plan_data(objective=objective(goal="up")), "objective.goal = 'up': must be one of 'maximize' or 'minimize'"),
    (plan_data(objective=objective(cost=0)), "objective.cost = 0: must be a positive number"),
    (plan_data(objective=objective(cost=math.inf)), "objective.cost = inf: must be a finite number"),
    (plan_data(objective=objective(noise="normal")), 'must be "symmetric", { bounded = [LOW, HIGH] }, "bernoulli"'),
    (plan_data(objective=objective(noise={"gaussian": -1})), "sigma = -1: must be a positive number"),
    (plan_data(objective=objective(noise={"gaussian": math.inf})), "sigma = inf: must be a finite number"),
    (plan_data(objective=objective(noise={"gaussian": "1"})), "sigma = '1': must be a number"),
    (plan_data(objective=objective(noise={"bounded": [3, 3]})), "needs low < high, not low = 3, high = 3"),
    (plan_data(objective=objective(noise={"bounded": [3]})), "{ bounded = [LOW, HIGH] }"),
    (plan_data(objective=objective(noise="gaussian")), 'choose Symmetric(), in a study file "symmetric"'),
    (plan_data(objective=objective(noise="bounded")), "must be stated with its numbers: { bounded = [LOW, HIGH] }"),
    (plan_data(objective=objective(noise={"quantile": 0.9})), "a quantile can only be constrained"),
    (
        plan_data(arms=[{"name": "a", "means": {"c": 150}}], constraints=[constraint(noise={"quantile": 0.9})]),
        "arms[0].means['c'] = 150.0: must lie between 0 and 1, for it is the share of results above 0.5",
    ),
    (plan_data(constraints=[constraint(noise={"quantile": 1})]), "q = 1: must lie strictly between 0 and 1"),
    (
        plan_data(constraints=[constraint(), constraint(at_most=0.4), constraint(at_most=0.4)]),
        "constraints[2].metric = 'c': another constraint says the same already: c at most 0.4",
    ),
    (plan_data(constraints=[constraint(), constraint(at_most=0.4, cost=2)]), "the same metric costs 1 elsewhere"),
    (
        plan_data(measurements=[{"metrics": []}]),
        "metrics = []: a measurement needs at least one metric",
    ),
    (plan_data(measurements=[{"metrics": ["m", "m"]}]), "is in this measurement already"),
    (
        plan_data(measurements=[{"metrics": ["m", "x"]}]),
        "measurements[0].metrics[1] = 'x': no such metric; the metrics are 'm', 'c'",
    ),
    (
        plan_data(measurements=[{"metrics": ["m"]}, {"metrics": ["c", "m"]}]),
        "measurements[1].metrics[1] = 'm': is in measurements[0] already; a metric is in one",
    ),
    (
        plan_data(objective=objective(cost=3), measurements=[{"metrics": ["m", "c"]}]),
        "cost = 3.0 of 'm' cannot be stated, because it is measured with 'm + c'; state the cost of that measurement",
    ),
    (
        plan_data(measurements=[{"metrics": ["m", "c"], "cost": 0}]),
        "cost = 0: must be a positive number",
    ),
    (plan_data(items=0), "items = 0: must be at least 1"),
    (plan_data(items=[]), "items = []: must name at least one item"),
    (plan_data(items=["a", "b", "a"]), "another item has this name already"),
    (plan_data(items=True), "items = True: must be the number of items, or a list of their names"),
    (plan_data(items=2.5), "items = 2.5: must be the number of items, or a list of their names"),
    (
        plan_data(items=2_000_000),
        "there can be at most 1,000,000; with repeats = true",
    ),
    (plan_data(repeats=True), "repeats = True: can only be stated of items"),
    (plan_data(items=5, repeats="no"), "repeats = 'no'"),
    (plan_data(item_spreads={"m": 1.0}), "item_spreads['m'] = 1.0: can only be stated of items"),
    (plan_data(items=5, item_spreads={"x": 1.0}), "item_spreads['x'] = 1.0: no such metric"),
    (plan_data(items=5, item_spreads={"m": -1.0}), "item_spreads.m = -1.0: must not be negative"),
    (
        plan_data(constraints=[constraint(at_most=1.5)]),
        "at_most = 1.5 of constraint 'c' must lie strictly between 0 and 1",
    ),
    (plan_data(constraints=[constraint(at_most=0)]), "at_most = 0.0 of constraint 'c' must lie strictly between"),
    (plan_data(constraints=[constraint(at_least=0.2)]), "exactly one of at_most and at_least"),
    (plan_data(constraints=[{"metric": "c", "noise": "bernoulli"}]), "exactly one of at_most and at_least"),
    (plan_data(constraints=[constraint(at_most="low")]), "constraints[0].at_most = 'low': must be a number"),
    (plan_data(constraints=[constraint(cost=-2)]), "constraints[0].cost = -2: must be a positive number"),
    (plan_data(constraints=[constraint(cost=True)]), "constraints[0].cost = True: must be a number"),
    (plan_data(delta=0), "delta = 0: must lie strictly between 0 and 1"),
    (plan_data(delta=1), "delta = 1: must lie strictly between 0 and 1"),
    (plan_data(delta="small"), "delta = 'small': must be a number"),
    (plan_data(bugdet=5), "bugdet = 5: is not a known field; did you mean 'budget'?"),
    (plan_data(cost=3), "cost = 3: is not a known field here, but in arms, in objective, in constraints, in"),
    (plan_data(objective=objective(at_most=1)), "objective.at_most = 1: is not a known field here, but in constraints"),
    (plan_data(objective=objective(delta=0.1)), "objective.delta = 0.1: is not a known field here, but at the top"),
    (
        plan_data(constraints=[constraint(goal="maximize")]),
        "constraints[0].goal = 'maximize': is not a known field here, but at the top and in objective",
    ),
    (plan_data(constraints=[constraint(at_mots=1)]), "at_mots = 1: is not a known field; did you mean 'at_most'?"),
    ({"arms": ["a"]}, "objective is missing"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused_and_in_which_words(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        ba.Plan.from_data(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        ba.Plan.from_data(plan_data(delta=2, objective=objective(cost=-1)))
    assert "delta = 2" in str(caught.value)
    assert "objective.cost = -1" in str(caught.value)


def test_the_same_words_in_python() -> None:
    with pytest.raises(ba.InvalidInput, match=r"^sigma = -1: must be a positive number$"):
        ba.Gaussian(-1)
    with pytest.raises(ba.InvalidInput, match=r"^gaussian noise needs sigma, .* choose Symmetric\(\)"):
        ba.Gaussian()
    with pytest.raises(ba.InvalidInput, match="Gaussian takes sigma; 2 values were given"):
        ba.Gaussian(1, 2)  # type: ignore[call-arg]
    with pytest.raises(ba.InvalidInput, match="low = 1: is given twice"):
        ba.Bounded(0, low=1)  # type: ignore[call-arg, misc]
    with pytest.raises(ba.InvalidInput, match="must lie strictly between 0 and 1"):
        ba.at_most("rate", 2, noise=ba.Bernoulli())


def test_no_hint_names_the_field_that_is_refused() -> None:
    kinds: tuple[Any, ...] = (ba.Plan, ba.Problem, ba.Objective, ba.Constraint, ba.Arm)
    names = [{field.name for field in dataclasses.fields(kind)} for kind in kinds]
    for kind, own in zip(kinds, names, strict=True):
        for field in set().union(*names) - own:
            with pytest.raises(ba.InvalidInput, match=rf"\b{field} = 3: is not a known field") as caught:
                kind(**{field: 3})
            assert f"did you mean '{field}'" not in str(caught.value)


def test_values_are_frozen() -> None:
    noise = ba.Gaussian(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        noise.sigma = 2.0  # type: ignore[misc]


def test_numpy_numbers_are_numbers() -> None:
    assert ba.Gaussian(np.float32(0.5)).sigma == 0.5  # type: ignore[arg-type]
    assert ba.Bounded(np.int64(0), np.float64(2)).scale == 1.0  # type: ignore[arg-type]


def test_with_means_adds_to_what_is_known() -> None:
    plan = ba.Plan.from_toml(DOSE)
    means = {"efficacy": 0.3, "adverse event": 0.6, "dissolved": 50, "pulse": 80}
    full = plan.with_means({"placebo": means})
    assert full.true_means()[1].tolist() == [0.3, 0.6, 50.0, 80.0]
    assert full.right_answers() == (0,)
    with pytest.raises(ba.InvalidInput, match="'aspirin': no such arm; the arms are '150 mg', 'placebo'"):
        plan.with_means({"aspirin": means})
    with pytest.raises(ba.InvalidInput, match="'placebo' lacks 'efficacy', 'adverse event', 'dissolved', 'pulse'"):
        plan.true_means()


def test_right_answers_in_the_users_own_direction() -> None:
    problem = ba.Problem(
        arms=tuple(ba.Arm(n, {"t": t, "s": s}) for n, t, s in [("a", 1.0, 3.0), ("b", 2.0, 7.0), ("c", 3.0, 8.0)]),
        objective=ba.minimize("t", noise=ba.Gaussian(1)),
        constraints=(ba.at_least("s", 5, noise=ba.Gaussian(1)),),
    )
    assert problem.right_answers() == (1,)
    assert dataclasses.replace(problem, constraints=(ba.at_least("s", 9, noise=ba.Gaussian(1)),)).right_answers() == (
        None,
    )


def test_a_plan_of_single_metrics_is_written_as_ever() -> None:
    data = ba.Plan.from_data(plan_data()).to_data()
    assert not {"measurements", "items", "repeats", "item_spreads"} & set(data)


names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=12).filter(
    lambda s: s != "none"
)
finite = st.floats(-1e9, 1e9)
positive = st.floats(1e-6, 1e9)
noises = st.one_of(
    positive.map(ba.Gaussian),
    st.just(ba.Bernoulli()),
    st.tuples(st.floats(-1e6, 0), st.floats(1, 1e6)).map(lambda ends: ba.Bounded(*ends)),
)


@st.composite
def plans(draw: st.DrawFn) -> ba.Plan:
    metric_names = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    constraints = []
    for metric in metric_names[1:]:
        noise = draw(noises)
        low, high = noise.range
        threshold = draw(finite) if math.isinf(high) else low + (high - low) * draw(st.floats(0.01, 0.99))
        side = draw(st.sampled_from([ba.at_most, ba.at_least]))
        constraints.append(side(metric, threshold, noise=noise, cost=draw(positive)))
    make = draw(st.sampled_from([ba.maximize, ba.minimize]))
    objective = make(metric_names[0], noise=draw(noises), cost=draw(positive))
    parts: list[ba.Objective | ba.Constraint] = [objective, *constraints]
    arms = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        ends = [(max(p.noise.range[0], -1e9), min(p.noise.range[1], 1e9)) for p in parts]
        means = {p.metric: draw(st.floats(*e)) for p, e in zip(parts, ends, strict=True) if draw(st.booleans())}
        arms.append(ba.Arm(name, draw(st.sampled_from([None, means]))))
    return ba.Plan(
        arms=tuple(arms),
        objective=objective,
        constraints=tuple(constraints),
        name=draw(names),
        delta=draw(st.floats(1e-12, 0.999)),
        policy=draw(names),
        items=draw(st.one_of(st.none(), st.integers(1, 1000), st.lists(names, min_size=1, max_size=4, unique=True))),
    )


@examples(50, 400)
@given(plans())
def test_round_trips(plan: ba.Plan) -> None:
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    assert ba.Plan.from_json(plan.to_json()) == plan
    assert parse(ba.Plan, plan.to_data()) == plan


def test_files_by_their_ending(tmp_path: Path) -> None:
    plan = ba.instance("drug")
    (tmp_path / "drug.toml").write_text(plan.to_toml(), encoding="utf-8")
    (tmp_path / "drug.json").write_text(plan.to_json(), encoding="utf-8")
    assert ba.Plan.load(tmp_path / "drug.toml") == plan
    assert ba.Plan.load(str(tmp_path / "drug.json")) == plan


def test_a_field_given_twice_is_refused() -> None:
    with pytest.raises(ba.InvalidInput, match=r"^delta is given twice$"):
        ba.Plan.from_json('{"delta": 0.1, "arms": [], "delta": 0.2}')
    with pytest.raises(ba.InvalidInput, match=r"^cost is given several times$"):
        ba.Plan.from_json('{"objective": {"cost": 1, "cost": 1, "cost": 2}}')
    with pytest.raises(ba.InvalidInput, match="not valid TOML"):
        ba.Plan.from_toml("delta = 0.1\ndelta = 0.2\n")


def test_unreadable_files_are_refused_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    for content, message in [
        (b"x = [", "not valid TOML"),
        (b"\xff\xfe", "cannot be read"),
        (b"x = 1", "x = 1: is not a known field"),
    ]:
        broken.write_bytes(content)
        with pytest.raises(ba.InvalidInput, match=message) as caught:
            ba.Plan.load(broken)
        assert str(caught.value).startswith(str(broken))
        assert "\n" not in str(caught.value)
    with pytest.raises(ba.InvalidInput, match="no such file"):
        ba.Plan.load(tmp_path / "absent.toml")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ba.InvalidInput, match="a table of fields, not by list"):
        ba.Plan.load(tmp_path / "list.json")
    with pytest.raises(ba.InvalidInput, match="cannot be read"):
        ba.Plan.load(tmp_path)


def test_the_papers_instances() -> None:
    expected = {"exp1-a": "arm 5", "exp1-b": "arm 1", "exp1-c": "arm 2", "drug": "150 mg", "drug-bernoulli": "150 mg"}
    for name, best in expected.items():
        plan = ba.instance(name)
        assert [plan.arm_names[k or 0] for k in plan.right_answers()] == [best]
    assert ba.instance("exp1-a").true_means()[0].tolist() == [1.0, 0.75, 0.25, 0.25]
    n64, k64, delta = ba.instance("exp2-n64"), ba.instance("exp2-k64"), ba.instance("exp2-delta")
    assert (len(n64.arms), len(n64.constraints)) == (10, 64)
    assert (len(k64.arms), len(k64.constraints)) == (64, 5)
    assert (len(delta.arms), len(delta.constraints)) == (10, 5)
    feasible = [k for k in range(1, 65) if k64.true_means()[k - 1, 1] < 0.5]
    assert feasible == list(range(21, 43))
    assert len(ba.instance_names()) == 17
    with pytest.raises(ba.InvalidInput, match="instance = 'exp9': no such instance; there are exp1-a"):
        ba.instance("exp9")


@pytest.mark.parametrize("name", ["parts", "arm_names", "metrics", "noises", "costs"])
def test_what_is_looked_up_for_every_test_is_made_once(name: str) -> None:
    plan = ba.Plan.from_toml(DOSE)
    assert getattr(plan, name) is getattr(plan, name)


def test_what_was_looked_up_leaves_no_trace() -> None:
    used, fresh = ba.Plan.from_toml(DOSE), ba.Plan.from_toml(DOSE)
    names = ("parts", "arm_names", "metrics", "noises", "costs")
    assert [len(getattr(used, name)) for name in names] == [4, 2, 4, 4, 4]
    assert used == fresh
    assert repr(used) == repr(fresh)
    assert used.to_data() == fresh.to_data()
    assert pickle.loads(pickle.dumps(used)) == fresh
    changed = dataclasses.replace(used, arms=(ba.Arm("x"),), constraints=())
    assert (changed.arm_names, changed.metrics, changed.costs) == (("x",), ("efficacy",), (1.0,))
    assert len(changed.parts) == len(changed.noises) == 1
