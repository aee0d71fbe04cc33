"""Evaluations with the real inspect_ai and its mock model."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bestarm as ba
from bestarm.integrations import from_inspect, identify_with_inspect, inspect_results
from bestarm.integrations.inspect_tasks import score_among
from bestarm.study.work.failures import MeasurementRefused

# What inspect_ai and what it uses deprecate or leave open is theirs to mend.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]

ROOT = Path(__file__).parents[2]
RIGHT = {"terse": 0.4, "polite": 0.95, "wild": 0.97}
RUDE = {"terse": 0.0, "polite": 0.0, "wild": 0.9}
QUESTIONS = 60


def reply(messages: list[Any], *_: Any) -> Any:
    """What the mock model says: it depends on the prompt and the question alone."""
    from inspect_ai.model import ModelOutput, ModelUsage

    arm, question = messages[0].text, messages[-1].text
    rng = random.Random(f"{arm}: {question}")
    words = ["right" if rng.random() < RIGHT[arm] else "wrong", "damn" if rng.random() < RUDE[arm] else "please"]
    output = ModelOutput.from_content("mockllm", " ".join(words))
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


@pytest.fixture
def tasks(inspect_ai: Any) -> Callable[..., dict[str, Any]]:
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score, mean, scorer
    from inspect_ai.solver import generate, system_message

    def correct(breaks_at: str | None = None) -> Any:
        async def score(state: Any, target: Any) -> Any:
            if state.sample_id == breaks_at:
                raise ValueError("the judge fell asleep")
            return Score(value="C" if "right" in state.output.completion else "I")

        return score

    def manners() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value={"rude": float("damn" in state.output.completion)})

        return score

    judge = scorer(metrics=[mean()])(correct)
    listener = scorer(metrics={"rude": [mean()]})(manners)

    def make(breaks_at: str | None = None, count: int = QUESTIONS) -> dict[str, Any]:
        samples = [Sample(input=f"question {k}", target="right", id=f"q{k}") for k in range(count)]
        return {
            arm: inspect_ai.Task(
                dataset=samples,
                solver=[system_message(arm), generate()],
                scorer=[judge(breaks_at), listener()],
            )
            for arm in RIGHT
        }

    return make


def problem_of(tasks: dict[str, Any]) -> ba.Problem:
    return from_inspect(
        tasks,
        ba.maximize("correct", noise=ba.Bernoulli()),
        [ba.at_most("manners/rude", 0.2, noise=ba.Bernoulli())],
        cost=0.02,
    )


def evaluate(tasks: dict[str, Any], **more: Any) -> ba.Answer:
    from inspect_ai.model import get_model

    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    return identify_with_inspect(problem_of(tasks), tasks, model=model, display="none", **more)


def logs_by_arm(folder: Path) -> dict[str, list[Any]]:
    from inspect_ai.log import list_eval_logs, read_eval_log

    found: dict[str, list[Any]] = {}
    for info in list_eval_logs(str(folder)):
        log = read_eval_log(info)
        found.setdefault(log.eval.metadata["bestarm"]["arm"], []).append(log)
    return found


class TestEvaluation:
    def test_it_is_certified_and_the_evaluations_stop_early(self, tasks: Any, tmp_path: Path) -> None:
        # Wrong, and so a false failure, with probability at most 0.05; the replies are the same every time, and the
        # order in which the samples end hardly matters.
        answer = evaluate(tasks(), name="prompts", storage=tmp_path / "evals.db", workers=4)
        assert answer.state == "certified"
        assert answer.arm == "polite"
        assert answer.cost == pytest.approx(0.02 * answer.tests)
        logs = logs_by_arm(tmp_path / "logs")
        assert set(logs) == set(RIGHT)
        # Every sample that was run is a test of the study, with its scores, and no other was run.
        study = ba.Study.open("prompts", storage=tmp_path / "evals.db")
        told = {
            (study.plan.arm_names[event.arm or 0], study.item_name(event.item)): (event.value, *event.more)
            for event in study.log()
            if event.kind == "told"
        }
        run = {
            (arm, sample.id): (
                1.0 if sample.scores["correct"].value == "C" else 0.0,
                sample.scores["manners"].value["rude"],
            )
            for arm, rounds in logs.items()
            for log in rounds
            for sample in log.samples or []
        }
        assert run == told
        assert answer.tests <= len(told) == study.status().tests < QUESTIONS * len(RIGHT)
        stops = [log.results.early_stopping for rounds in logs.values() for log in rounds]
        assert {stop.manager for stop in stops} == {"bestarm"}
        assert sum(len(stop.early_stops) for stop in stops) > 0
        # The rude one is out long before the others.
        assert sum(arm == "wild" for arm, _ in told) < min(
            sum(a == arm for a, _ in told) for arm in ("polite", "terse")
        )

    def test_it_goes_on_where_it_stopped(self, tasks: Any, tmp_path: Path) -> None:
        first = evaluate(tasks(), name="prompts", storage=tmp_path / "evals.db", budget=20)
        assert (first.state, first.tests) == ("budget_spent", 20)
        answer = evaluate(tasks(), name="prompts", storage=tmp_path / "evals.db", budget=10_000)
        assert answer.arm == "polite"
        samples = [
            (arm, sample.id)
            for arm, rounds in logs_by_arm(tmp_path / "logs").items()
            for log in rounds
            for sample in log.samples or []
        ]
        assert (
            len(samples) == len(set(samples)) == ba.Study.open("prompts", storage=tmp_path / "evals.db").status().tests
        )

    def test_a_sample_that_fails_stops_the_work_unless_it_counts(self, tasks: Any, tmp_path: Path) -> None:
        storage = tmp_path / "evals.db"
        odd = ba.Study.create(problem_of(tasks()), name="prompts", storage=storage).items_left("terse")[0]
        with pytest.raises(ba.MeasurementFailed, match="the judge fell asleep"):
            evaluate(tasks(odd), name="prompts", storage=storage)
        study = ba.Study.open("prompts", storage=storage)
        assert {row.item for row in study.unresolved()} == {odd}
        answer = evaluate(tasks(odd), name="prompts", storage=storage, failed_as={"correct": 0, "manners/rude": 1})
        assert answer.arm == "polite"

    def test_interrupted_it_gives_back_what_was_not_measured(self, tasks: Any, tmp_path: Path) -> None:
        from inspect_ai.model import get_model

        async def interrupted(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

        made = tasks()
        model = get_model("mockllm/model", custom_outputs=interrupted, memoize=False)
        where: dict[str, Any] = {"name": "prompts", "storage": tmp_path / "evals.db"}
        with pytest.raises(KeyboardInterrupt):
            identify_with_inspect(problem_of(made), made, model=model, display="none", **where)
        # Nothing counts as failed, and the tests can be handed out again at once.
        study = ba.Study.open("prompts", storage=tmp_path / "evals.db")
        assert study.status().tests == 0
        assert {(row.aside, row.expires) for _, row in study.pending()} == {(None, 0.0)}
        assert evaluate(made, **where).arm == "polite"

    def test_it_ends_with_the_evaluation_even_if_others_hold_all_tests(
        self, tasks: Any, tmp_path: Path, inspect_ai: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = tasks()
        other = ba.Study.create(problem_of(made), name="prompts", budget=2, storage=tmp_path / "evals.db")
        assert len(other.ask(2)) == 2

        def broken(*_: Any, **__: Any) -> None:
            raise OSError("no such model")

        monkeypatch.setattr(inspect_ai, "eval", broken)
        with pytest.raises(OSError, match="no such model"):
            identify_with_inspect(problem_of(made), made, name="prompts", budget=2, storage=tmp_path / "evals.db")
        assert len(other.pending()) == 2


class TestLogs:
    def test_a_study_of_logs_goes_on_with_tasks(self, tasks: Any, tmp_path: Path, inspect_ai: Any) -> None:
        from inspect_ai.model import get_model

        made = tasks(count=20)
        model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
        logs = inspect_ai.eval([*made.values()], model=model, display="none", max_tasks=3)
        paths = dict(zip(made, (log.location for log in logs), strict=True))
        problem = problem_of(paths)
        assert problem == problem_of(made)
        past = {arm: paths[arm] for arm in ("terse", "polite")}
        study = ba.Study.create(problem, name="prompts", storage=tmp_path / "evals.db", items_seed=1)
        assert len(study.add(inspect_results(problem, past))) == 40
        expected = random.Random("terse: question 3").random() < RIGHT["terse"]
        frame = study.frame(wide=True).set_index(["arm", "item"])
        assert frame.loc[("terse", "q3"), "correct"] == float(expected)
        answer = evaluate(made, name="prompts", storage=tmp_path / "evals.db")
        assert (answer.state, answer.arm) == ("certified", "polite")
        assert answer.tests > 40

    def test_logs_that_do_not_fit(self, tasks: Any, tmp_path: Path, inspect_ai: Any) -> None:
        from inspect_ai.model import get_model

        made = tasks("q1", count=3)
        model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
        [log] = inspect_ai.eval(made["terse"], model=model, display="none", fail_on_error=False)
        problem = problem_of(made)
        with pytest.raises(ba.InvalidInput, match=r"sample 'q1': failed \(.*asleep.*has no scores"):
            inspect_results(problem, {"terse": log})
        with pytest.raises(ba.InvalidInput, match="no such arm; the arms are 'terse'"):
            inspect_results(problem, {"loud": log})
        log.samples = [sample for sample in log.samples if sample.error is None]
        assert [given[-1] for given in inspect_results(problem, {"terse": log})] == ["q0", "q2"]
        with pytest.raises(ba.InvalidInput, match=r"'q0'.*has scores twice"):
            inspect_results(problem, {"terse": [log, log]})
        (tmp_path / "odd.eval").write_text("no log")
        for odd in (tmp_path / "odd.eval", tmp_path / "none.eval"):
            with pytest.raises(ba.InvalidInput, match="cannot be read as a log"):
                problem_of({"terse": odd})


class TestRefusals:
    def test_scores_that_no_scorer_gives(self, tasks: Any) -> None:
        made = tasks()
        for metric, reason in (
            ("corect", "'terse'.*gives no score 'corect'; its scorers give 'correct', 'manners/rude'"),
            ("manners", "gives no score 'manners'"),
            ("correct/a", "gives no score 'correct/a'"),
        ):
            objective = ba.maximize(metric, noise=ba.Bernoulli())
            with pytest.raises(ba.InvalidInput, match=reason):
                from_inspect(made, objective)
            names = [f"q{k}" for k in range(QUESTIONS)]
            with pytest.raises(ba.InvalidInput, match=reason):
                identify_with_inspect(ba.Problem(arms=[*made], objective=objective, items=names), made)

    def test_models_that_cannot_be_used(self, tasks: Any, tmp_path: Path) -> None:
        made = tasks()
        where: dict[str, Any] = {"name": "prompts", "storage": tmp_path / "evals.db"}
        for model, reason in (
            (["mockllm/a", "mockllm/b"], "must be one model; models to compare are arms"),
            ("mockllm/a,mockllm/b", "must be one model"),
            ("nowhere/model", "model = 'nowhere/model': cannot be used"),
        ):
            with pytest.raises(ba.InvalidInput, match=reason):
                identify_with_inspect(problem_of(made), made, model=model, **where)
        assert not (tmp_path / "evals.db").exists()

    def test_goals(self, tasks: Any) -> None:
        problem = from_inspect(tasks(), ba.maximize("correct", noise=ba.Bernoulli()), goal="top", top=2)
        assert (problem.goal, problem.top) == ("top", 2)

    def test_options_that_are_the_studys(self, tasks: Any) -> None:
        for option in ({"limit": 10}, {"epochs": 2}, {"display": "conversation"}, {"workers": 0}):
            with pytest.raises(ba.InvalidInput, match=next(iter(option))):
                identify_with_inspect(problem_of(tasks()), tasks(), **option)

    def test_tasks_with_other_samples(self, tasks: Any) -> None:
        odd = {**tasks(), "wild": tasks(count=QUESTIONS + 1)["wild"]}
        with pytest.raises(ba.InvalidInput, match=f"same samples as 'terse', by id; 'q{QUESTIONS}' is in one"):
            problem_of(odd)
        with pytest.raises(ba.InvalidInput, match=r"must be an inspect_ai\.Task"):
            problem_of({"terse": "a task"})
        epochs = tasks()
        epochs["polite"].epochs = 3
        with pytest.raises(ba.InvalidInput, match=r"epochs = 3.*each sample is measured once"):
            problem_of(epochs)

    def test_problems_that_are_not_about_these_tasks(self, tasks: Any) -> None:
        made, objective = tasks(), ba.maximize("correct", noise=ba.Bernoulli())
        apart = ba.at_most("manners/rude", 0.2, noise=ba.Bernoulli())
        names = [f"q{k}" for k in range(QUESTIONS)]
        for problem, reason in (
            (ba.Problem(arms=[*made], objective=objective), "each once"),
            (ba.Problem(arms=[*made], objective=objective, items=7), "as many as there are samples: 60"),
            (ba.Problem(arms=[*made], objective=objective, items=QUESTIONS), "no such item"),
            (ba.Problem(arms=["terse", "loud"], objective=objective, items=names), "'loud'"),
            (ba.Problem(arms=[*made], objective=objective, constraints=[apart], items=names), "all metrics in one"),
        ):
            with pytest.raises(ba.InvalidInput, match=reason):
                identify_with_inspect(problem, made)


@pytest.mark.parametrize(("value", "number"), [("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), (3, 3.0), (True, 1.0)])
def test_scores_as_numbers(value: object, number: float) -> None:
    assert score_among({"judge": value}, "judge") == number


def test_scores_that_are_none() -> None:
    scores = {"judge": {"quality": "good"}}
    with pytest.raises(MeasurementRefused, match="no score 'price'; the scorers gave 'judge/quality'"):
        score_among(scores, "price")
    with pytest.raises(MeasurementRefused, match="'good', which is not a number"):
        score_among(scores, "judge/quality")


def test_the_how_to_runs(inspect_ai: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "how-to" / "evaluate-with-inspect.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "how_to"}
    for block in re.findall(r"^```py\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "how-to", "exec"), names)
        assert names.pop("answer").arm == "with examples"
