"""The same assistants and judges as an evaluation with inspect_ai. ASSISTANTS AND JUDGES ARE SIMULATED.

python examples/judges/with_inspect.py   # needs inspect_ai, no key and no network
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import generate, system_message

import bestarm as ba
from bestarm.integrations import identify_with_inspect
from judges import ASSISTANTS, PROBLEM, QUESTIONS, verdict


def reply(messages: list[Any], *_: Any) -> ModelOutput:
    """The mock model "answers" with what the judges will find. A model of your own takes its place."""
    found = verdict(messages[0].text, messages[-1].text)
    output = ModelOutput.from_content("mockllm", json.dumps(found))
    output.usage = ModelUsage(input_tokens=100, output_tokens=50, total_tokens=150)
    return output


def judge(metric: str) -> Any:
    """A scorer for one metric. It is called as the metric is."""

    def judging() -> Any:
        async def score(state: Any, target: Any) -> Score:
            return Score(value=json.loads(state.output.completion)[metric])

        return score

    return scorer(metrics=[mean()], name=metric)(judging)()


def main() -> int:
    parser = argparse.ArgumentParser(description="Which assistant is best? (simulated judges, on inspect_ai)")
    parser.add_argument("--budget", type=int, help="stop after so many replies, with an answer or without")
    parser.add_argument("--db", type=Path, default=Path("judges.db"), help="where the study is kept")
    options = parser.parse_args()
    print("The judges and the assistants of this example are simulated.")
    samples = [Sample(id=question, input=question) for question in QUESTIONS]
    scorers = [judge(metric) for metric in PROBLEM.measurements[0].metrics]
    tasks = {
        assistant: Task(dataset=samples, solver=[system_message(assistant), generate()], scorer=scorers)
        for assistant in ASSISTANTS
    }
    model = get_model("mockllm/model", custom_outputs=reply)
    plan = ba.Plan.of(PROBLEM, name="assistants on inspect_ai", budget=options.budget)
    answer = identify_with_inspect(plan, tasks, model=model, storage=options.db, display="none")
    print(f"{answer}; {answer.cost / 100:,.2f} dollars")
    for assistant, reason in answer.reasons.items():
        print(f"  {assistant}: {reason}")
    print("What every sample was and scored: inspect view")
    return 0


if __name__ == "__main__":
    sys.exit(main())
