"""Hand-over from tuners, tested against the real packages."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import random
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import bestarm as ba
from bestarm.integrations import Shortlist, ax_params, from_ax, from_optuna, optuna_params, to_ax, to_optuna
from bestarm.integrations.shortlist import LONGEST_ARM, Tried, arm_name, shortlist, trial_number

LATENCY = ba.minimize("latency", noise=ba.Gaussian(1.0), tolerance=0.5)
CRASHES = ba.at_most("crash rate", 0.2, noise=ba.Bernoulli())


def tried(number: int, value: float, *violations: float, **params: Any) -> Tried:
    return Tried(number, params or {"x": number}, value, violations)


class TestShortlist:
    def test_feasible_first_then_the_nearest_misses_then_the_unknown(self) -> None:
        trials = [
            tried(0, 5.0, -1.0),
            tried(1, 3.0, -0.1),
            tried(2, 1.0, 0.5),
            tried(3, 2.0, 0.2),
            Tried(4, {"x": 4}, 0.0, None),
        ]
        found = shortlist(trials, LATENCY, [CRASHES], top=5, constrained=True)
        assert [candidate.trials for candidate in found.candidates] == [(1,), (0,), (3,), (2,), (4,)]
        assert [candidate.looked_feasible for candidate in found.candidates] == [True, True, False, False, False]
        assert shortlist(trials, LATENCY, [CRASHES], top=2, constrained=True).arm_names == found.arm_names[:2]

    def test_the_goal_says_which_values_are_good(self) -> None:
        trials = [tried(0, 5.0), tried(1, 3.0)]
        objective = ba.maximize("throughput", noise=ba.Gaussian(1.0))
        assert shortlist(trials, objective, [], top=1, constrained=False).candidates[0].trials == (0,)
        assert shortlist(trials, LATENCY, [], top=1, constrained=False).candidates[0].trials == (1,)

    def test_equal_parameters_are_one_candidate_judged_by_the_mean(self) -> None:
        trials = [tried(3, 1.0, 0.3, x=1), tried(1, 5.0, -0.5, x=1), tried(2, 2.0, -1.0, x=2)]
        first, second = shortlist(trials, LATENCY, [CRASHES], top=8, constrained=True).candidates
        assert (first.trials, first.value) == ((2,), 2.0)
        assert (second.trials, second.value, second.looked_feasible) == ((1, 3), 3.0, True)

    def test_names_are_unique_readable_and_lead_back(self) -> None:
        nasty = {"kernel": "a\nb\x00 c", "text": "y" * 300, "rate": 1 / 3}
        trials = [Tried(k, nasty | {"k": k}, 1.0, ()) for k in range(12)]
        found = shortlist(trials, LATENCY, [], top=12, constrained=False)
        assert len(set(found.arm_names)) == 12
        assert found.arm_names[0].startswith("trial 0: kernel=a b c, text=yyy")
        assert all(len(name) <= LONGEST_ARM for name in found.arm_names)
        assert [trial_number(name) for name in found.arm_names] == list(range(12))
        assert [found.params(name)["k"] for name in found.arm_names] == list(range(12))
        assert arm_name(7, {}) == "trial 7"

    def test_a_shortlist_is_a_problem_of_its_own_kind_only_here(self) -> None:
        found = shortlist([tried(0, 1.0), tried(1, 2.0)], LATENCY, [CRASHES], top=2, constrained=False)
        plan = ba.Plan.of(found, delta=0.1)
        assert plan == ba.Plan(arms=found.arm_names, objective=LATENCY, constraints=[CRASHES], delta=0.1)

    def test_an_arm_that_is_not_there(self) -> None:
        found = shortlist([tried(0, 1.0)], LATENCY, [], top=2, constrained=False)
        with pytest.raises(ba.InvalidInput, match="arm = 'trial 9': no such arm; the arms are 'trial 0: x=0'"):
            found.params("trial 9")

    @pytest.mark.parametrize("name", ["placebo", "trial x", "trial 3b"])
    def test_a_name_that_is_not_a_candidates(self, name: str) -> None:
        with pytest.raises(ba.InvalidInput, match=f"arm = '{name}': must be the name of a tuner's candidate"):
            trial_number(name)

    @pytest.mark.parametrize("top", [0, -1, 2.0, True, "8", 10**6])
    def test_top_is_a_whole_number(self, top: Any) -> None:
        with pytest.raises(ba.InvalidInput, match=r"top = .*: must be a whole number from 1 to 10,000"):
            shortlist([tried(0, 1.0)], LATENCY, [], top=top, constrained=False)

    def test_values_that_are_not_finite_are_no_candidates(self) -> None:
        with pytest.raises(ba.InvalidInput, match="no finished trial with a finite value"):
            shortlist([tried(0, float("nan")), tried(1, float("inf"))], LATENCY, [], top=1, constrained=False)


# ------------------------------------------------------------------------------------------------------------ Optuna


def truth(params: Mapping[str, Any], metric: str) -> float:
    """Larger caches are quicker, until they crash."""
    if metric == "latency":
        return 12.0 - float(params["cache"]) - (1.0 if params["codec"] == "lz4" else 0.0)
    return 0.02 if params["cache"] <= 7 else 0.6


class Bench:
    """One fresh, noisy measurement."""

    def __init__(self, seed: int) -> None:
        self.lots = random.Random(seed)

    def __call__(self, params: Mapping[str, Any], metric: str) -> float:
        mean = truth(params, metric)
        return self.lots.gauss(mean, 1.0) if metric == "latency" else float(self.lots.random() < mean)


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
def optuna(needs: Callable[[str], None]) -> Any:
    needs("optuna")
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


# ---------------------------------------------------------------------------------------------------------------- Ax


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
def ax(needs: Callable[[str], None]) -> Any:
    needs("ax")
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


def test_the_example_of_the_document_runs(needs: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    needs("optuna")
    if not NAMED_CONSTRAINTS:
        pytest.skip("the example uses trial.set_constraint, which Optuna has from 5 on")
    text = (Path(__file__).parents[2] / "docs" / "tuners.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```py\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    exec(compile(example, "tuners.md", "exec"), {})
    conclusion, params, verdict = capsys.readouterr().out.splitlines()
    assert "feasible and within 0.3 of the best, with 95 % confidence" in conclusion
    assert params.startswith("{'cache': 7, 'codec': 'lz4'}")
    assert "'state': 'certified'" in verdict
