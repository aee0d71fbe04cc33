"""How results scatter must be stated. Who does not is told what there is to choose, in the same words everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.program import bestarm
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.noises import noises_in_words
from bestarm.noises.registry import all_noises
from bestarm.web.server import running

TOML = """
arms = ["a", "b"]
[objective]
metric = "x"
goal = "maximize"
{noise}
"""
DOORS: dict[str, Callable[[], object]] = {
    "maximize": lambda: ba.maximize("x"),
    "minimize": lambda: ba.minimize("x"),
    "at_most": lambda: ba.at_most("x", 1.0),
    "at_least": lambda: ba.at_least("x", 1.0),
    "None": lambda: ba.maximize("x", noise=None),  # type: ignore[arg-type]
    "Objective": lambda: ba.Objective("x", "maximize"),
    "TOML": lambda: ba.Plan.from_toml(TOML.format(noise="")),
    "JSON": lambda: ba.Plan.from_json('{"arms": ["a"], "objective": {"metric": "x", "goal": "maximize"}}'),
}


def test_the_choices_in_words() -> None:
    words = noises_in_words().split("\n  ")
    assert len(words) == len(all_noises())
    for line, noise in zip(words, all_noises().values(), strict=True):
        assert line.startswith(f"{noise.in_python()}, in a study file {noise.in_a_file()}")
        assert line.endswith(noise.about[1:])
    assert words[0] == (
        'Symmetric(), in a study file "symmetric": results scatter as far up as down around their mean; you need not '
        "know how much."
    )
    assert words[5].startswith("Quantile(q), in a study file { quantile = Q }, for constraints only: ")


@pytest.mark.parametrize("door", DOORS)
def test_a_metric_without_noise(door: str) -> None:
    with pytest.raises(ba.InvalidInput) as raised:
        DOORS[door]()
    (complaint,) = raised.value.complaints
    assert complaint.field in ("noise", "objective.noise")
    assert complaint.reason.startswith(
        "must be stated: how single results scatter. Choose one of these:\n  Symmetric()"
    )
    assert complaint.reason.endswith(noises_in_words())
    assert str(raised.value) == f"{complaint.field} {complaint.reason}"


def test_the_choices_are_said_once() -> None:
    with pytest.raises(ba.InvalidInput) as raised:
        ba.Plan.from_toml(TOML.format(noise="") + '[[constraints]]\nmetric = "y"\nat_most = 3')
    assert str(raised.value).startswith("objective.noise must be stated; constraints[0].noise must be stated: how ")
    assert str(raised.value).count("Symmetric()") == 1
    assert [one.reason.count("Symmetric()") for one in raised.value.complaints] == [1, 1]


def test_on_the_command_line_and_over_http(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(TOML.format(noise=""))
    ended = bestarm("forecast", "study.toml", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "error: study.toml: objective.noise must be stated: how single results scatter." in ended.err
    assert noises_in_words() in ended.err
    with running(str(tmp_path / "x.db")) as url:
        plan = {"arms": ["a", "b"], "objective": {"metric": "x", "goal": "maximize"}}
        answer = httpx.post(f"{url}/api/studies", json={"plan": plan}, timeout=PATIENCE)
    assert answer.status_code == 422
    (complaint,) = answer.json()["error"]["complaints"]
    assert complaint["field"] == "plan.objective.noise"
    assert complaint["reason"].endswith(noises_in_words())


STATED = {
    '"symmetric"': ba.Symmetric(),
    '"exact"': ba.Exact(),
    '"bernoulli"': ba.Bernoulli(),
    "{ gaussian = 2 }": ba.Gaussian(2.0),
    "{ bounded = [0, 10] }": ba.Bounded(0.0, 10.0),
}


@pytest.mark.parametrize("stated", STATED)
def test_files_state_it(stated: str) -> None:
    plan = ba.Plan.from_toml(TOML.format(noise=f"noise = {stated}"))
    assert plan.noises == (STATED[stated],)
    assert ba.Plan.from_toml(plan.to_toml()) == ba.Plan.from_json(plan.to_json()) == plan


def test_a_quantile_in_a_file() -> None:
    limited = '[[constraints]]\nmetric = "latency"\nat_most = 200\nnoise = { quantile = 0.99 }'
    plan = ba.Plan.from_toml(TOML.format(noise='noise = "symmetric"') + limited)
    assert plan.constraints[0].noise == ba.Quantile(0.99)
    assert ba.Plan.from_toml(plan.to_toml()) == plan


def test_gaussian_without_sigma_points_to_symmetric() -> None:
    for door in (ba.Gaussian, lambda: ba.maximize("x", noise="gaussian")):  # type: ignore[arg-type]
        with pytest.raises(ba.InvalidInput, match=r'choose Symmetric\(\), in a study file "symmetric"'):
            door()
    with pytest.raises(ba.InvalidInput, match=r"must be made first: Gaussian\(sigma\)"):
        ba.maximize("x", noise=ba.Gaussian)  # type: ignore[arg-type]


def test_spreads_are_for_arms_and_metrics_that_there_are() -> None:
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("x", noise=ba.Symmetric()))
    assert problem.with_spreads({"a": {"x": 2.0}}).arms[0].spreads == {"x": 2.0}
    with pytest.raises(ba.InvalidInput, match=r"spreads of 'c': no such arm; the arms are 'a', 'b'"):
        problem.with_spreads({"c": {"x": 2.0}})
    with pytest.raises(ba.InvalidInput, match=r"arms\[1\]\.spreads\['y'\] = 2\.0: no such metric"):
        problem.with_spreads({"b": {"y": 2.0}})


def test_a_simulation_that_lacks_spreads(tmp_path: Path) -> None:
    arms = '[[arms]]\nname = "a"\nmeans = { x = 1 }\nspreads = { x = 1 }\n[[arms]]\nname = "b"\nmeans = { x = 2 }\n'
    text = TOML.format(noise='noise = "symmetric"').replace('arms = ["a", "b"]', "") + arms
    (tmp_path / "study.toml").write_text(text)
    for command in ("simulate", "forecast", "theory"):
        ended = bestarm(command, "study.toml", cwd=tmp_path)
        assert ended.code == 2, ended
        assert "arms[1].spreads of 'b' lacks 'x': nothing is stated of how its results scatter" in ended.err
    whole = ba.Plan.from_toml(text.replace("x = 2 }", "x = 2 }\nspreads = { x = { laplace = 3 } }"))
    assert whole.arms[1].spreads == {"x": {"laplace": 3.0}}
    assert ba.Plan.from_toml(whole.to_toml()) == ba.Plan.from_json(whole.to_json()) == whole


def test_spreads_over_http(tmp_path: Path) -> None:
    arm = {"name": "a", "means": {"x": 1.0}, "spreads": {"x": {"laplace": 2.0}}}
    plan = {"arms": [arm, "b"], "objective": {"metric": "x", "goal": "maximize", "noise": "symmetric"}}
    with running(str(tmp_path / "x.db")) as url:
        made = httpx.post(f"{url}/api/studies", json={"plan": plan}, timeout=PATIENCE).raise_for_status()
        status = httpx.get(f"{url}/api/studies/{made.json()['id']}", timeout=PATIENCE).json()
        assert status["plan"]["arms"][0] == {"weight": 1.0, **arm}
        arm["spreads"] = {"x": {"cauchy": 2.0}}
        refused = httpx.post(f"{url}/api/studies", json={"plan": plan}, timeout=PATIENCE)
        schemas = httpx.get(f"{url}/openapi.json", timeout=PATIENCE).json()["components"]["schemas"]
    (complaint,) = refused.json()["error"]["complaints"]
    assert complaint["field"] == "plan.arms[0].spreads.x"
    assert "one of the shapes normal, uniform, laplace" in complaint["reason"]
    assert "noise" in schemas["PlanObjective"]["required"]
    assert "laplace" in str(schemas["PlanArm"]["properties"]["spreads"])


MIXED = """
delta = 0.1
[objective]
metric = "score"
goal = "maximize"
noise = { bounded = [0, 10] }
[[constraints]]
metric = "latency"
at_most = 200
noise = { quantile = 0.9 }
[[constraints]]
metric = "time"
at_most = 12
noise = "symmetric"
[[constraints]]
metric = "size"
at_most = 3
noise = "exact"
[[constraints]]
metric = "heat"
at_least = 1
noise = { gaussian = 1 }
[[arms]]
name = "a"
means = { score = 7, latency = 0.02, time = 10, size = 3, heat = 2 }
spreads = { score = 1.2, time = 1.5 }
[[arms]]
name = "b"
means = { score = [5, 6], latency = 0.02, time = 10, size = 1, heat = 2 }
spreads = { score = 1.2, time = 2 }
[[arms]]
name = "c"
means = { score = 9, latency = 0.02, time = 10, size = 3.5, heat = 2 }
spreads = { score = 0.5, time = 2 }
"""


def test_noises_of_all_kinds_in_one_forecast(tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(MIXED)
    ended = bestarm("forecast", "mixed.toml", "--runs", "20", "--json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["answers"] == {"a": 1.0}
    assert 0 < found["lower_bound"] < found["mean_tests"] < found["fixed_sample_tests"]
    assert found["unfinished"] == 0
    # One test of "size" is enough; the first tests of all streams are made together.
    assert found["per_metric"]["size"] < 10
    assert bestarm("simulate", "mixed.toml", cwd=tmp_path).err.count("only a forecast takes a range") == 1
