"""Hand-over from Optuna and back, tested against the real package."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.problem import CRASHES, LATENCY, Bench, truth

import bestarm as ba
from bestarm.integrations import Shortlist, from_optuna, optuna_params, to_optuna
from bestarm.integrations.shortlist import trial_number


def _optuna_version() -> int:
    return int(importlib.metadata.version("optuna").split(".")[0]) if importlib.util.find_spec("optuna") else 0


NAMED_CONSTRAINTS = _optuna_version() >= 5
"""Whether a trial has `set_constraint`; before, only what a sampler's `constraints_func` returned was kept."""


def constrained_sampler(constraints: Callable[[Any], list[float]]) -> Any:
    """A sampler with a `constraints_func`, about which Optuna warns: 4 that it is experimental, 5 that it is old."""
    from optuna.samplers import TPESampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TPESampler(seed=1, constraints_func=constraints)


def tuned(bench: Bench, trials: int = 40, storage: str | None = None) -> Any:
    """An Optuna study of the benchmark, with a constraint on the crash rate of ten runs."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = constrained_sampler(lambda trial: [trial.user_attrs["missed"]])
    if NAMED_CONSTRAINTS:
        sampler = optuna.samplers.TPESampler(seed=1)
    study = optuna.create_study(sampler=sampler, study_name="cache", storage=storage, direction="minimize")

    def objective(trial: Any) -> float:
        params = {
            "cache": trial.suggest_int("cache", 1, 10),
            "codec": trial.suggest_categorical("codec", ["lz4", "zip"]),
        }
        missed = sum(bench(params, "crash rate") for _ in range(10)) / 10 - 0.2
        if NAMED_CONSTRAINTS:
            trial.set_constraint("crash rate", missed)
        else:
            trial.set_user_attr("missed", missed)
        return bench(params, "latency")

    study.optimize(objective, n_trials=trials)
    return study


@pytest.fixture
def optuna() -> Any:
    import optuna

    return optuna


class TestOptuna:
    def test_the_winner_is_certified_and_the_verdict_written_back(self, optuna: Any, tmp_path: Path) -> None:
        bench = Bench(1)
        database = f"sqlite:///{tmp_path / 'optuna.db'}"
        study = tuned(bench, storage=database)
        problem = from_optuna(study, LATENCY, [CRASHES], top=5)
        assert isinstance(problem, Shortlist)
        assert problem.metrics == ("latency", "crash rate")
        assert len(problem.arms) == 5
        # Every candidate has the parameters of the trials that it stands for, and those trials' mean value.
        for candidate in problem.candidates:
            rows = [study.trials[number] for number in candidate.trials]
            assert all(row.params == candidate.params for row in rows)
            assert candidate.value == pytest.approx(sum(row.value for row in rows) / len(rows))
        answer = ba.identify(problem, problem.measuring(bench), delta=0.05, storage=tmp_path / "certify.db")
        assert answer.state == "certified"
        # δ = 0.05, with the seed fixed: the answer is right, within the tolerance, among the candidates.
        assert answer.arm is not None
        params = problem.params(answer.arm)
        feasible = [truth(c.params, "latency") for c in problem.candidates if truth(c.params, "crash rate") < 0.2]
        assert truth(params, "crash rate") < 0.2
        assert truth(params, "latency") <= min(feasible) + 0.5
        assert optuna_params(study, answer.arm) == params

        to_optuna(study, answer)
        kept = optuna.load_study(study_name="cache", storage=database).user_attrs
        verdict = kept["bestarm"]
        assert study.trials[verdict["trial"]].params == params
        assert (verdict["state"], verdict["tests"], verdict["delta"]) == ("certified", answer.tests, 0.05)
        assert verdict["conclusion"] == str(answer)
        for arm, reason in answer.reasons.items():
            assert kept[f"bestarm:trial {trial_number(arm)}"] == reason

    def test_the_constraints_func_of_older_studies_counts(self, optuna: Any) -> None:
        def constraints(trial: Any) -> list[float]:
            return [trial.params["x"] - 4.0, -1.0]

        study = optuna.create_study(sampler=constrained_sampler(constraints), direction="maximize")
        study.optimize(lambda trial: float(trial.suggest_int("x", 1, 9)), n_trials=30)
        problem = from_optuna(study, ba.maximize("yield", noise=ba.Gaussian(1.0)), [CRASHES], top=6)
        assert [candidate.params["x"] for candidate in problem.candidates] == [4, 3, 2, 1, 5, 6]
        assert [candidate.looked_feasible for candidate in problem.candidates] == [True] * 4 + [False] * 2

    def test_one_run_can_yield_every_metric(self, optuna: Any) -> None:
        bench = Bench(3)
        together = [ba.measurement("latency", "crash rate", cost=2.0)]
        problem = from_optuna(tuned(bench), LATENCY, [CRASHES], measurements=together, top=4)
        assert problem.test_names == {0: "latency + crash rate"}
        function = problem.measuring(lambda params, _: {metric: bench(params, metric) for metric in problem.metrics})
        answer = ba.identify(problem, function, delta=0.05)
        assert answer.cost == 2.0 * answer.tests
        with pytest.raises(ba.InvalidInput, match="no such metric"):
            from_optuna(tuned(bench, 3), LATENCY, [CRASHES], measurements=[ba.measurement("memory")])

    def test_a_trial_without_its_constraint_does_not_count_as_safe(self, optuna: Any) -> None:
        study = optuna.create_study()
        space = {"x": optuna.distributions.IntDistribution(0, 9)}
        for x, crash in enumerate([-0.1, 0.5, None]):
            known: dict[str, Any] = {} if crash is None else {"system_attrs": {"constraints": [crash]}}
            if NAMED_CONSTRAINTS:
                known = {"constraints": {} if crash is None else {"crash": crash}}
            study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=space, value=-float(x), **known))
        problem = from_optuna(study, LATENCY, [CRASHES])
        assert [candidate.trials for candidate in problem.candidates] == [(0,), (1,), (2,)]
        assert [candidate.looked_feasible for candidate in problem.candidates] == [True, False, False]

    def test_only_finished_trials_are_candidates(self, optuna: Any) -> None:
        study = optuna.create_study()
        running = study.ask()
        running.suggest_int("x", 1, 1)
        failed = study.ask()
        study.tell(failed, state=optuna.trial.TrialState.FAIL)
        with pytest.raises(ba.InvalidInput, match="study: has no finished trial"):
            from_optuna(study, LATENCY)
        study.tell(running, 3.0)
        assert from_optuna(study, LATENCY).arm_names == ("trial 0: x=1",)

    def test_what_is_refused(self, optuna: Any) -> None:
        study = tuned(Bench(1), trials=3)
        yields = ba.maximize("yield", noise=ba.Gaussian(1.0))
        wrong: Any = "latency", {"crash": 1}, ["crash"], None
        both = optuna.create_study(directions=["minimize", "maximize"])
        empty = optuna.create_study()
        nothing: Any = None
        for given, message in [
            (lambda: from_optuna("study", LATENCY), "study = 'study': must be an optuna.study.Study"),
            (lambda: from_optuna(both, LATENCY), "study: has 2 objectives; must have one"),
            (lambda: from_optuna(study, yields, []), "objective.goal = 'maximize': the tuner was to minimize"),
            (lambda: from_optuna(study, wrong[0], []), "objective = 'latency': must be made with bestarm.minimize("),
            (lambda: from_optuna(study, LATENCY), "constraints: are missing, and the tuner's study has some"),
            (lambda: from_optuna(study, LATENCY, wrong[1]), "constraints = {'crash': 1}: must be a list"),
            (lambda: from_optuna(study, LATENCY, wrong[2]), "constraints = ['crash']: must be a list"),
            (lambda: from_optuna(study, LATENCY, [], top=0), "top = 0: must be a whole number"),
            (lambda: from_optuna(empty, LATENCY, [CRASHES]), "study: has no finished trial with a finite value"),
            (lambda: optuna_params(study, nothing), "arm = None: must be the name of a tuner's candidate"),
            (lambda: optuna_params(study, "trial 77"), "arm = 'trial 77': study 'cache' has no finished trial 77"),
            (lambda: to_optuna(study, wrong[3]), "answer = None: must be the answer of a study"),
        ]:
            with pytest.raises(ba.InvalidInput, match=re.escape(message)):
                given()  # type: ignore[no-untyped-call]

    def test_an_answer_about_other_trials_is_not_written(self, optuna: Any) -> None:
        study = tuned(Bench(1), trials=3)
        for arm in ("trial 0: cache=99, codec=zip", "trial 50: cache=1"):
            answer = ba.Answer("certified", arm, 0.05, 0.99, 10, 10.0, {arm: "best: for a reason"})
            with pytest.raises(ba.InvalidInput, match="is not a trial of this tuner's study"):
                to_optuna(study, answer)
        assert study.user_attrs == {}

    def test_a_later_verdict_takes_the_place_of_an_earlier_one(self, optuna: Any) -> None:
        study = tuned(Bench(1), trials=8)
        arms = from_optuna(study, LATENCY, [CRASHES], top=3).arm_names
        for a, b in (arms[:2], arms[1:]):
            to_optuna(study, ba.Answer("certified", a, 0.05, 0.99, 10, 10.0, {a: "best", b: "worse"}))
        said = {key: line for key, line in study.user_attrs.items() if key != "bestarm"}
        assert said == dict(
            zip((f"bestarm:trial {trial_number(arm)}" for arm in arms), (None, "best", "worse"), strict=True)
        )

    def test_no_arm_is_feasible_is_a_verdict_too(self, optuna: Any) -> None:
        study = tuned(Bench(1), trials=3)
        problem = from_optuna(study, LATENCY, [ba.at_most("crash rate", 0.001, noise=ba.Bernoulli())])
        answer = ba.identify(problem, problem.measuring(lambda params, metric: 1.0), delta=0.05)
        to_optuna(study, answer)
        verdict = study.user_attrs["bestarm"]
        assert (verdict["state"], verdict["trial"]) == ("no_feasible_arm", None)


def test_without_optuna_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ba.InvalidInput, match=re.escape("pip install 'bestarm[optuna]'")):
        from_optuna(object(), LATENCY)


@pytest.mark.parts("optuna")
def test_the_example_of_the_document_runs(capsys: pytest.CaptureFixture[str]) -> None:
    if not NAMED_CONSTRAINTS:
        pytest.skip("the example uses trial.set_constraint, which Optuna has from 5 on")
    text = (Path(__file__).parents[2] / "docs" / "tuners.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```py\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    exec(compile(example, "tuners.md", "exec"), {})
    conclusion, params, verdict = capsys.readouterr().out.splitlines()
    assert "feasible and within 0.3 of the best, with 95% confidence" in conclusion
    assert params.startswith("{'cache': 7, 'codec': 'lz4'}")
    assert "'state': 'certified'" in verdict
