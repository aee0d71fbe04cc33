"""How long the first answer takes where nothing has been compiled yet, and in the next process.

    python benchmarks/first_answer.py

Each command runs twice in processes of its own: with an empty folder for machine code, and then with what the first run
left there. The last column compares them with a process that only says `bestarm --version`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIVE = """
import bestarm as ba
arms = [ba.Arm(f"arm {i}") for i in range(60)]
noise = ba.Gaussian(1.0)
limits = [ba.at_most(name, 0.5, noise=noise) for name in ("one", "other")]
plan = ba.Plan.of(ba.Problem(arms=arms, objective=ba.maximize("gain", noise=noise), constraints=limits), delta=0.1)
study = ba.Study.create(plan, name="large", storage="{folder}/large.db")
for test in study.ask(180):
    study.tell(test, 0.0)
print(study.status(), flush=True)
"""

COMMANDS = {
    "bestarm simulate exp1-a": ["-m", "bestarm", "simulate", "exp1-a"],
    "bestarm simulate exp1-a --policy feasible-lucb": [
        "-m",
        "bestarm",
        "simulate",
        "exp1-a",
        "--policy",
        "feasible-lucb",
    ],
    "bestarm simulate drug-bernoulli": ["-m", "bestarm", "simulate", "drug-bernoulli", "--runs", "100"],
    "bestarm forecast exp1-a": ["-m", "bestarm", "forecast", "exp1-a"],
    "a live study of 60 arms and 3 metrics, with status": ["-c", LIVE],
}


def seconds(command: list[str], kept: str) -> float:
    """Wall time until the command's last line."""
    with tempfile.TemporaryDirectory() as folder:
        given = [part.replace("{folder}", folder) for part in command]
        variables = {**os.environ, "BESTARM_CACHE_DIR": kept}
        start = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, *given], env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            last = start
            while process.stdout.readline():
                last = time.perf_counter()
        assert process.returncode == 0, given
        return last - start


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as anywhere:
        bare = min(seconds(["-m", "bestarm", "--version"], anywhere) for _ in range(3))
    print("| | first, s | next process, s | next ÷ `bestarm --version` |")
    print("|---|---|---|---|")
    for label, command in COMMANDS.items():
        with tempfile.TemporaryDirectory() as kept:
            first, following = seconds(command, kept), seconds(command, kept)
            assert any(Path(kept).iterdir())
        print(f"| {label} | {first:.1f} | {following:.1f} | {following / bare:.1f} |", flush=True)


if __name__ == "__main__":
    main()
