"""Which page makes most visitors sign up, and annoys few? `python examples/signup-page/signup_page.py`

THE VISITORS ARE SIMULATED.
"""

from __future__ import annotations

import random

import bestarm as ba

VISITORS = 100
"""How many visitors see the page in one test."""
TRUTH = {  # the share of visitors who sign up, and the share who complain or leave at once
    "today's page": (0.10, 0.030),
    "shorter form": (0.16, 0.030),
    "customers' words": (0.11, 0.025),
    "countdown": (0.21, 0.110),
    "video": (0.08, 0.040),
}
PROBLEM = ba.Problem(
    arms=list(TRUTH),
    arm_word="page",
    baseline="today's page",
    objective=ba.maximize("signed up", noise=ba.Bernoulli(), tolerance=0.01),
    # The guardrail: at most 3 points more of them than today.
    constraints=[ba.at_most("annoyed", noise=ba.Bernoulli(), relative_to_baseline=True, margin=0.03)],
    measurements=[ba.Measurement(("signed up", "annoyed"))],
)


def show(page: str, metrics: str) -> dict[str, ba.Share]:
    """How many of the next visitors sign up, and how many are annoyed."""
    signed_up, annoyed = TRUTH[page]
    drawn = [random.random() for _ in range(VISITORS)]
    return {
        "signed up": ba.Share(sum(each < signed_up for each in drawn), VISITORS),
        "annoyed": ba.Share(sum(each > 1 - annoyed for each in drawn), VISITORS),
    }


if __name__ == "__main__":
    print("The visitors of this example are simulated.")
    answer = ba.identify(PROBLEM, show, name="signup page", storage="signup-page.db")
    print(answer)
    study = ba.Study.open("signup page", storage="signup-page.db")
    for page in study.state:
        print(f"  {page.name}: {page.metrics[0].trials:,} visitors; {answer.reasons[page.name]}")
