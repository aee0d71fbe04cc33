"""Samples fail, some more often than they may, in the model or in a scorer, and everything ends as it should."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import first

import bestarm as ba
from bestarm.integrations import from_inspect, identify_with_inspect

# What inspect_ai and what it uses deprecate or leave open is theirs to mend.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]


@pytest.mark.parametrize(
    ("place", "workers", "retries"),
    first(
        5,
        [
            *(("model", 1, 1), ("scorer", 2, 3), ("model", 5, 0), ("scorer", 5, 2), ("model", 20, 3)),
            *(("scorer", 1, 1), ("model", 2, 3), ("scorer", 5, 0), ("model", 5, 2), ("scorer", 20, 3)),
            *(("model", 1, 0), ("scorer", 1, 0)),
        ],
    ),
)
def test_failures_by_workers_by_retries(
    place: str, workers: int, retries: int, inspect_ai: Any, tmp_path: Path
) -> None:
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, mean, scorer
    from inspect_ai.solver import generate, system_message

    rng = random.Random(f"{place} {workers} {retries}")
    names = [f"q{k}" for k in range(8)]
    # How often each sample fails, before it succeeds. Every second time, one fails too often.
    fails = {(arm, name): rng.choice([0, 0, rng.randint(0, retries)]) for arm in "ab" for name in names}
    hopeless = rng.random() < 0.5
    if hopeless:
        fails["a", rng.choice(names)] = retries + 1
    tried = dict.fromkeys(fails, 0)

    def attempt(where: str, arm: str, name: str) -> None:
        if where == place:
            tried[arm, name] += 1
            if tried[arm, name] <= fails[arm, name]:
                raise ValueError(f"{where} out of order")

    def reply(messages: list[Any], *_: Any) -> Any:
        attempt("model", messages[0].text, messages[-1].text)
        output = ModelOutput.from_content("mockllm", messages[0].text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    def correct() -> Any:
        async def score(state: Any, target: Any) -> Any:
            attempt("scorer", state.messages[0].text, state.sample_id)
            return Score(value=float(state.output.completion == "b"))

        return score

    judge = scorer(metrics=[mean()])(correct)
    samples = [Sample(input=name, target="b", id=name) for name in names]
    made = {
        arm: inspect_ai.Task(dataset=samples, solver=[system_message(arm), generate()], scorer=judge()) for arm in "ab"
    }
    # A goal that needs every sample of both: all of a scores 0 and all of b scores 1, and neither is known before.
    problem = from_inspect(made, ba.maximize("correct", noise=ba.Bounded(-1000, 1000)))
    where: dict[str, Any] = {"name": "trial", "storage": tmp_path / "evals.db", "workers": workers}
    where |= {"model": get_model("mockllm/model", custom_outputs=reply, memoize=False), "display": "none"}
    if hopeless:
        with pytest.raises(ba.MeasurementFailed, match="out of order"):
            identify_with_inspect(problem, made, retries=retries, **where)
        assert max(tried.values()) == retries + 1
        assert len(ba.Study.open("trial", storage=tmp_path / "evals.db").unresolved()) == 1
        # Once it is declared what a failure counts, it goes on.
        assert identify_with_inspect(problem, made, failed_as=0, **where).arm == "b"
    else:
        assert identify_with_inspect(problem, made, retries=retries, **where).arm == "b"
        assert all(count in (0, fails[key] + 1) for key, count in tried.items())
