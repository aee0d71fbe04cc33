"""Hand-over from Ax and back, tested against the real package."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.problem import LATENCY, Bench

import bestarm as ba
from bestarm.integrations import ax_params, from_ax, to_ax
from bestarm.integrations.shortlist import trial_number


def ax_client(bench: Bench, caches: range = range(1, 11)) -> Any:
    """An Ax client that was told of every cache size, ten crash tests each; the last trial is still running."""
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    client = Client(random_seed=1)
    client.configure_experiment(
        name="cache",
        parameters=[
            RangeParameterConfig(name="cache", bounds=(1, 20), parameter_type="int"),
            ChoiceParameterConfig(name="codec", values=["lz4", "zip"], parameter_type="str", is_ordered=False),
        ],
    )
    client.configure_optimization(objective="-latency", outcome_constraints=["crash_rate <= 0.2"])
    for cache in caches:
        params = {"cache": cache, "codec": "lz4"}
        crashes = sum(bench(params, "crash_rate") for _ in range(10)) / 10
        index = client.attach_trial(parameters=params)
        client.complete_trial(index, raw_data={"latency": (bench(params, "latency"), 1.0), "crash_rate": crashes})
    client.attach_trial(parameters={"cache": 20, "codec": "zip"})
    return client


@pytest.fixture
def ax() -> Any:
    with warnings.catch_warnings():
        # What Ax's own dependencies say of each other when they are loaded is not ours to mend.
        warnings.simplefilter("ignore")
        return importlib.import_module("ax.api.client")


@pytest.mark.filterwarnings("ignore")
class TestAx:
    crashes = ba.at_most("crash_rate", 0.2, noise=ba.Bernoulli())

    def test_the_winner_is_certified_and_the_verdict_written_back(self, ax: Any, tmp_path: Path) -> None:
        bench = Bench(3)
        client = ax_client(bench)
        problem = from_ax(client, LATENCY, [self.crashes], top=5)
        assert len(problem.arms) == 5
        assert all(candidate.params["codec"] == "lz4" for candidate in problem.candidates)
        assert not any(candidate.params["cache"] == 20 for candidate in problem.candidates)
        values = [candidate.value for candidate in problem.candidates if candidate.looked_feasible]
        assert values == sorted(values)
        answer = ba.identify(problem, problem.measuring(bench), delta=0.05)
        assert answer.state == "certified"
        # δ = 0.05, with the seed fixed: cache = 7 is the best feasible one, by 1, twice the tolerance.
        assert answer.arm is not None
        assert problem.params(answer.arm) == {"cache": 7, "codec": "lz4"}
        assert ax_params(client, answer.arm) == {"cache": 7, "codec": "lz4"}

        to_ax(client, answer)
        client.save_to_json_file(str(tmp_path / "client.json"))
        client = ax.Client.load_from_json_file(str(tmp_path / "client.json"))
        assert from_ax(client, LATENCY, [self.crashes], top=5).arm_names == problem.arm_names
        for arm, reason in answer.reasons.items():
            verdict = client._experiment.trials[trial_number(arm)].run_metadata["bestarm"]
            assert (verdict["reason"], verdict["conclusion"]) == (reason, str(answer))
            assert (verdict["state"], verdict["trial"]) == ("certified", trial_number(answer.arm))

    def test_a_constraint_that_ax_does_not_know_is_certified_all_the_same(self, ax: Any) -> None:
        client = ax_client(Bench(3), range(1, 4))
        memory = ba.at_most("memory", 4.0, noise=ba.Gaussian(1.0))
        problem = from_ax(client, LATENCY, [self.crashes, memory])
        assert problem.metrics == ("latency", "crash_rate", "memory")
        assert all(candidate.looked_feasible for candidate in problem.candidates)

    def test_a_trial_without_its_constraint_does_not_count_as_safe(self, ax: Any) -> None:
        client = ax_client(Bench(3), range(1, 3))
        index = client.attach_trial(parameters={"cache": 20, "codec": "lz4"})
        client.complete_trial(index, raw_data={"latency": -99.0})
        candidates = from_ax(client, LATENCY, [self.crashes]).candidates
        # Older versions of Ax count such a trial as failed, and it is no candidate; newer ones as completed.
        unknown = [(index,)] if client._experiment.trials[index].status.is_completed else []
        assert [candidate.trials for candidate in candidates][2:] == unknown
        assert [candidate.looked_feasible for candidate in candidates] == [True, True, *(False for _ in unknown)]

    def test_a_later_verdict_takes_the_place_of_an_earlier_one(self, ax: Any) -> None:
        client = ax_client(Bench(3), range(1, 4))
        arms = from_ax(client, LATENCY, [self.crashes]).arm_names
        for a, b in (arms[:2], arms[1:]):
            to_ax(client, ba.Answer("certified", a, 0.05, 0.99, 10, 10.0, {a: "best", b: "worse"}))
        first, second, third = (client._experiment.trials[trial_number(arm)].run_metadata["bestarm"] for arm in arms)
        assert (first, second["reason"], third["reason"]) == (None, "best", "worse")

    def test_what_is_refused(self, ax: Any) -> None:
        client = ax_client(Bench(3), range(1, 3))
        empty = ax.Client()
        unfinished = ax_client(Bench(3), range(0))
        aimless, several = (ax_client(Bench(3), range(0)) for _ in range(2))
        aimless._experiment._optimization_config = None
        several.configure_optimization(objective="-latency, throughput")
        nothing: Any = None
        speed = ba.minimize("speed", noise=ba.Gaussian(1.0))
        yields = ba.maximize("latency", noise=ba.Gaussian(1.0))
        other = ba.Answer("certified", "trial 0: cache=9", 0.05, 0.99, 10, 10.0, {"trial 0: cache=9": "best"})
        for given, message in [
            (lambda: from_ax("client", LATENCY), "client = 'client': must be an ax.Client"),
            (lambda: from_ax(empty, LATENCY), "must be an ax.Client with a configured experiment"),
            (lambda: from_ax(unfinished, LATENCY, [self.crashes]), "client: has no finished trial with a finite value"),
            (lambda: from_ax(aimless, LATENCY), "client: has no objective; call its configure_optimization(...) first"),
            (lambda: from_ax(several, LATENCY), "client: has the objectives latency, throughput; must have one"),
            (lambda: ax_params(client, nothing), "arm = None: must be the name of a tuner's candidate"),
            (lambda: from_ax(client, speed, []), "objective.metric = 'speed': must be 'latency', the objective in Ax"),
            (lambda: from_ax(client, yields, []), "objective.goal = 'maximize': the tuner was to minimize"),
            (lambda: from_ax(client, LATENCY), "constraints: are missing, and the tuner's study has some"),
            (lambda: ax_params(client, "trial 2"), "arm = 'trial 2': the experiment has no finished trial 2"),
            (lambda: to_ax(client, other), "is not a trial of this tuner's study"),
        ]:
            with pytest.raises(ba.InvalidInput, match=re.escape(message)):
                given()  # type: ignore[no-untyped-call]
        assert all("bestarm" not in trial.run_metadata for trial in client._experiment.trials.values())


def test_without_ax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ax.core.experiment", None)
    with pytest.raises(ba.InvalidInput, match=re.escape("pip install 'bestarm[ax]'")):
        from_ax(object(), LATENCY)
