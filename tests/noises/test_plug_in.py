"""A third-party noise: one file outside the package and an entry point, and everything works with it.

Each test is a program of its own: once used, a noise is known to the kernels of a process for good.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.patience import PATIENCE

Run = Callable[..., str]

_PRELUDE = """
import warnings
import numpy as np
import bestarm as ba
from bestarm.noises import noise_choices
from somebody_elses_noise import Bernstein

noise = Bernstein(0.0, 10.0)
problem = ba.Problem(
    arms=[ba.Arm(name, {"score": score, "harm": harm}) for name, score, harm in
          (("a", 6.0, 2.0), ("b", 5.0, 2.0), ("c", 8.0, 7.0))],
    objective=ba.maximize("score", noise=noise),
    constraints=[ba.at_most("harm", 4.0, noise=noise)],
)
"""


@pytest.fixture
def run(plug_in_folder: Path, tmp_path: Path) -> Run:
    def run(script: str, **variables: str) -> str:
        path = os.pathsep.join([str(plug_in_folder), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", _PRELUDE + script],
            env={**os.environ, "PYTHONPATH": path, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.mark.torture
def test_it_passes_the_suite(run: Run) -> None:
    run(
        """
from bestarm.testing.noises import NOISE_CHECKS
for check in NOISE_CHECKS:
    try:
        check(noise, 6.5)
    except __import__("unittest").SkipTest:
        assert check.__name__ == "check_card_agrees"
"""
    )


@pytest.mark.torture
def test_it_runs_simulated_with_every_policy(run: Run) -> None:
    run(
        """
from bestarm.policies import all_policies
for policy in all_policies():
    assert ba.simulate(problem, policy=policy, bound="mixture", runs=5).answer_counts == {"a": 5}
assert ba.forecast(problem, runs=20).median_tests > 0
assert ba.analyze(problem, delta=0.05).kl_bound > 0
"""
    )


def test_it_runs_live(run: Run) -> None:
    """Through Python, with a restart and a database; the answer is the simulated one."""
    out = run(
        """
random = np.random.default_rng(1)
study = ba.Study.create(problem, name="live", storage="studies.db", delta=0.1, seed=0)
while not study.done:
    for test in study.ask(2):
        mean = next(arm for arm in problem.arms if arm.name == test.arm).means[test.metric]
        study.tell(test, float(np.clip(random.normal(mean, 0.5), 0.0, 10.0)))
again = ba.Study.open("live", storage="studies.db")
assert again.answer == study.answer and again.answer.arm == "a"
status = again.status()
for arm in status.arms:
    for metric in arm.metrics:
        assert 0.0 <= metric.low <= metric.mean <= metric.high <= 10.0
from bestarm.study.reports.report import study_report
assert "each measurement lies between 0 and 10" in study_report(again, forecast=False)
try:
    study.add([("a", "score", 11.0)])
except ba.InvalidInput as error:
    print(error)
print(again.answer)
"""
    )
    assert "must lie between 0 and 10" in out
    assert "a: feasible and best" in out


def test_study_files_and_the_command_line_know_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        """
name = "scores"
delta = 0.1
[objective]
metric = "score"
goal = "maximize"
noise = { bernstein = [0, 10] }
[[arms]]
name = "a"
means = { score = 6.0 }
[[arms]]
name = "b"
means = { score = 5.0 }
"""
    )
    run(
        """
from tests.program import bestarm
said = bestarm("simulate", "plan.toml", "--runs", "5", "--json")
assert said.code == 0 and '"a"' in said.out, said
assert bestarm("new", "plan.toml").code == 0
said = bestarm("ask", "scores", "--json")
assert said.code == 0 and "score" in said.out, said
"""
    )


def test_forms_offer_it(run: Run) -> None:
    run(
        """
offered = {choice["name"]: choice for choice in noise_choices()}
assert {"bernoulli", "gaussian", "bernstein", "bounded"} < set(offered)
assert [number["name"] for number in offered["bernstein"]["numbers"]] == ["low", "high"]
"""
    )


@pytest.mark.parts("numba_cuda")
def test_it_is_the_same_on_a_card(run: Run) -> None:
    run(
        """
warnings.simplefilter("ignore")  # random words wrap around, in every thread of the simulator
from bestarm.testing.noises import check_card_agrees
check_card_agrees(noise, 6.5)
""",
        NUMBA_ENABLE_CUDASIM="1",
    )
