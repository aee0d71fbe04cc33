"""Which prompt is right most often, with no topic worse than today? `python examples/prompts/prompts.py`

THE MODEL IS SIMULATED: no key, no network. Put a call of your own into `is_right`.
"""

from __future__ import annotations

import random

import bestarm as ba

TOPICS = ["billing"] * 300 + ["delivery"] * 200 + ["returns"] * 100
QUESTIONS = [f"{topic} {number}" for number, topic in enumerate(TOPICS, 1)]
RIGHT = {  # how often the stand-in for a model is right, by topic
    "today's prompt": {"billing": 0.70, "delivery": 0.70, "returns": 0.80},
    "with examples": {"billing": 0.86, "delivery": 0.84, "returns": 0.82},
    "step by step": {"billing": 0.95, "delivery": 0.93, "returns": 0.40},
    "short": {"billing": 0.50, "delivery": 0.55, "returns": 0.60},
}
PROBLEM = ba.Problem(
    arms=list(RIGHT),
    arm_word="prompt",
    baseline="today's prompt",
    items=QUESTIONS,
    attributes={"topic": TOPICS},
    objective=ba.maximize("right", noise=ba.Bernoulli(), tolerance=0.02),
    # In each topic at most 10 points below today's prompt.
    constraints=[
        ba.at_least("right", noise=ba.Bernoulli(), relative_to_baseline=True, margin=0.1, for_each="topic"),
    ],
)


def is_right(prompt: str, metric: str, question: str) -> bool:
    """Whether the reply to the question is right. A prompt always gets the same reply to a question."""
    return random.Random(f"{prompt}, {question}").random() < RIGHT[prompt][question.split()[0]]


if __name__ == "__main__":
    print("The model of this example is simulated.")
    answer = ba.identify(PROBLEM, is_right, name="prompts", storage="prompts.db")
    print(answer)
    for name, reason in answer.reasons.items():
        print(f"  {name}: {reason}")
    print(f"Replies: {answer.tests:,} of {len(RIGHT) * len(QUESTIONS):,}")
