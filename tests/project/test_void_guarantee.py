"""A study whose results contradict what its guarantee rests on: no door calls its answer certified."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console
from tests.program import bestarm
from tests.race.simulated import a_run, race

import bestarm as ba
from bestarm.analysis.health.notes import Health, HealthNote
from bestarm.analysis.health.watch import Watch
from bestarm.client import Client
from bestarm.integrations.mlflow import _study_tags
from bestarm.integrations.shortlist import arm_name, verdicts
from bestarm.race.exports import EXPORTS
from bestarm.race.functions import gate
from bestarm.race.summary import note_lines, verdict
from bestarm.study.reports.report import study_report
from bestarm.study.work.watching import Display
from bestarm.web.server import running

ARMS = {"old": arm_name(0, {"x": 1}), "new": arm_name(1, {"x": 2})}
"""Named as trials of a tuner, so that the verdict can be handed back to one."""

QUALIFIED = re.compile(r"\b(no answer is|not) certified\b", re.IGNORECASE)
FALSE_CLAIM = re.compile(r"\bcertified\b|\d % confidence|\bfeasible and best\b", re.IGNORECASE)

SKEWED = Health(3, (HealthNote("skewness", "broken", "time", None, "results are skewed", "The guarantee is lost."),))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With one study: a standard deviation of 1 is stated, and results scatter by 3. The policy has stopped."""
    path = str(tmp_path_factory.mktemp("void") / "s.db")
    problem = ba.Problem(arms=list(ARMS.values()), objective=ba.maximize("yield", noise=ba.Gaussian(1.0)))
    rng = random.Random(5)

    def measure(arm: str, metric: str) -> float:
        return rng.gauss(0.5 * (arm == ARMS["new"]), 3.0)

    ba.identify(problem, measure, delta=0.05, storage=path, name="wild", seed=0)
    return path


@pytest.fixture
def study(database: str) -> ba.Study:
    return ba.Study.open("wild", storage=database)


@pytest.fixture(scope="module")
def service(database: str) -> Iterator[str]:
    with running(database) as url:
        yield url


def over_http(path: str) -> Callable[[pytest.FixtureRequest], str]:
    def read(request: pytest.FixtureRequest) -> str:
        text = httpx.get(request.getfixturevalue("service") + path, timeout=60).text
        # What the service says of its own numbers is said of every study.
        return "\n".join(line for line in text.splitlines() if not line.startswith("# "))

    return read


def in_python(show: Callable[[ba.Study], str]) -> Callable[[pytest.FixtureRequest], str]:
    return lambda request: show(request.getfixturevalue("study"))


def command(*words: str, status: int = 0) -> Callable[[pytest.FixtureRequest], str]:
    def run(request: pytest.FixtureRequest) -> str:
        ended = bestarm(*words, BESTARM_DB=request.getfixturevalue("database"))
        assert ended.code == status, ended
        return ended.out + ended.err

    return run


def remotely(show: Callable[[ba.client.RemoteStudy], str]) -> Callable[[pytest.FixtureRequest], str]:
    def read(request: pytest.FixtureRequest) -> str:
        with Client(request.getfixturevalue("service")) as client:
            return show(client.open("wild"))

    return read


def progress(study: ba.Study, *, is_terminal: bool) -> str:
    console = Console(record=True, force_terminal=is_terminal, width=200, file=io.StringIO())
    with Display(study, console, shows_end=True):
        pass
    return console.export_text()


def handed_back(study: ba.Study) -> str:
    assert study.answer is not None
    whole, _ = verdicts(study.answer, {0: {"x": 1}, 1: {"x": 2}})
    return json.dumps(whole)


DOORS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "print(answer)": in_python(lambda study: str(study.answer)),
    "repr(answer)": in_python(lambda study: repr(study.answer)),
    "answer in a notebook": in_python(lambda study: study.answer._repr_html_() if study.answer else ""),
    "answer as data": in_python(lambda study: json.dumps(study.answer.to_dict()) if study.answer else ""),
    "print(status)": in_python(lambda study: str(study.status())),
    "status in a notebook": in_python(lambda study: study.status()._repr_html_()),
    "study in a notebook": in_python(lambda study: study._repr_html_()),
    "headline": in_python(lambda study: study.status().headline),
    "known": in_python(lambda study: study.status().known),
    "to_dict": in_python(lambda study: json.dumps(study.status().to_dict())),
    "report": in_python(study_report),
    "progress, as lines": in_python(lambda study: progress(study, is_terminal=False)),
    "MLflow": in_python(lambda study: json.dumps(_study_tags(study, study.status()))),
    "tuner": in_python(handed_back),
    "bestarm status": command("status", "wild"),
    "bestarm status --json": command("status", "wild", "--json"),
    "bestarm status --check": command("status", "wild", "--check", status=5),
    "bestarm status --check --ignore-health": command("status", "wild", "--check", "--ignore-health"),
    "bestarm list": command("list"),
    "bestarm list --json": command("list", "--json"),
    "bestarm run": command("run", "wild", "--command", "false {arm} {metric}", status=5),
    "bestarm run --json": command("run", "wild", "--command", "false {arm} {metric}", "--json", status=5),
    "bestarm run --ignore-health": command("run", "wild", "--command", "false {arm} {metric}", "--ignore-health"),
    "GET /api/studies": over_http("/api/studies"),
    "GET /api/studies/1": over_http("/api/studies/1"),
    "GET /api/studies/1/report": over_http("/api/studies/1/report"),
    "GET /api/comparison": over_http("/api/comparison?studies=1"),
    "client, answer": remotely(lambda study: str(study.answer)),
    "client, status": remotely(lambda study: str(study.status())),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_says_certified(door: str, request: pytest.FixtureRequest) -> None:
    said = DOORS[door](request)
    assert "void" in said, said
    assert FALSE_CLAIM.findall(QUALIFIED.sub("", said)) == [], said


def test_the_fields_say_it(study: ba.Study, service: str) -> None:
    answer, status = study.answer, study.status()
    assert answer is not None
    assert (answer.state, answer.guarantee) == ("void", "void")
    # What was decided is not lost.
    assert study.done
    assert answer.arm in ARMS.values()
    assert (status.state, status.guarantee, status.answer) == ("void", "void", answer.arm)
    [reason] = answer.void_because
    assert re.fullmatch(r"results scatter by about 3.*, 3.* times the stated standard deviation of 1 \(yield\)", reason)
    assert str(answer) == f"{answer.arm} leads after {answer.tests} tests; the guarantee is void, because {reason}"
    with Client(service) as client:
        there = client.open("wild")
        assert (there.answer, there.status().void_because) == (answer, answer.void_because)
        [line] = client.studies()
        assert (line.state, line.guarantee, line.void_because) == ("void", "void", answer.void_because)
    states = httpx.get(f"{service}/metrics", timeout=60).text
    assert 'bestarm_studies{state="void"} 1.0' in states
    assert 'bestarm_studies{state="certified"} 0.0' in states
    assert "bestarm_studies_void 1.0" in states


@pytest.mark.parametrize(
    ("state", "because", "guarantee"),
    [
        ("certified", (), "holds"),
        ("no_feasible_arm", (), "holds"),
        ("budget_spent", (), "none"),
        ("budget_spent", ("results are skewed (yield)",), "void"),
        ("void", ("results are skewed (yield)",), "void"),
    ],
)
def test_what_is_guaranteed(state: str, because: tuple[str, ...], guarantee: str) -> None:
    answer = ba.Answer(state, "a", 0.05, 0.9, 10, 10.0, void_because=because)  # type: ignore[arg-type]
    assert answer.guarantee == guarantee
    assert ("the guarantee is void" in str(answer)) == (guarantee == "void")


def test_a_running_study_says_it_too(tmp_path: Path) -> None:
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("yield", noise=ba.Gaussian(1.0)))
    study = ba.Study.create(problem, name="going", storage=tmp_path / "s.db")
    rng = random.Random(1)
    study.add([("ab"[k % 2], "yield", rng.gauss(0.0, 4.0)) for k in range(40)])
    status = study.status()
    assert (status.state, status.guarantee) == ("running", "void")
    assert re.search("leads; the guarantee is void, because results scatter", status.headline)
    assert status.known == "Nothing is certain: the guarantee is void"
    assert bestarm("status", "going", "--check", BESTARM_DB=str(tmp_path / "s.db")).code == 5
    assert bestarm("status", "going", "--check", "--ignore-health", BESTARM_DB=str(tmp_path / "s.db")).code == 4
    assert "running, guarantee void" in bestarm("list", BESTARM_DB=str(tmp_path / "s.db")).out


@pytest.mark.parametrize("is_gate", [False, True])
def test_a_race_and_its_exports_say_it(is_gate: bool) -> None:
    limits = ["time=1.5x"] if is_gate else []
    drawn = race(lambda name, rng: a_run((0.1 if name == "quick" else 0.3) + rng.gauss(0, 0.01)), ["slow", "quick"],
                 limits, baseline="slow" if is_gate else None, is_gate=is_gate)  # fmt: skip
    outcome = dataclasses.replace(drawn, status=dataclasses.replace(drawn.status, state="void", health=SKEWED))
    said = verdict(outcome)
    seems = "the candidate seems to meet every limit" if is_gate else "quick leads"
    why = "the guarantee is void, because results are skewed (time)"
    assert said == f"VOID: {seems} after {outcome.status.tests} runs; {why}."
    for made in (said, *note_lines(outcome), *(export(outcome) for export in EXPORTS.values())):
        assert FALSE_CLAIM.findall(made) == []
    # A race has no study file and no Python: advice is in the options that it has.
    assert any("--assume range" in line for line in note_lines(outcome))
    assert json.loads(EXPORTS["json"](outcome))["bestarm"]["guarantee"] == "void"


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("race", "sleep 0.001", "sleep 0.1"),
        ("gate", "sleep 0.001", "--baseline", "sleep 0.1", "--at-most", "time=1.5x"),
    ],
)
def test_race_and_gate_exit_with_5(words: tuple[str, ...], ignored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "health", lambda _: SKEWED)
    ended = bestarm(*words, *(["--ignore-health"] if ignored else []))
    assert ended.code == (0 if ignored else 5), ended
    assert "VOID: " in ended.out
    assert FALSE_CLAIM.findall(ended.out + ended.err) == []


GATED = """
import time
from bestarm.analysis.health.notes import Health, HealthNote
from bestarm.analysis.health.watch import Watch

Watch.health = lambda self: Health(3, (HealthNote("skewness", "broken", "time", None, "results are skewed", ""),))

def test_void(bestarm_gate):
    bestarm_gate(lambda: None, baseline=lambda: time.sleep(0.02), at_most=1.1)
"""


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ((), "1 skipped"),
        (("--bestarm-undecided=fail",), "1 failed"),
        (("--bestarm-ignore-health",), "1 passed"),
    ],
)
def test_the_gate_of_pytest_does_not_pass(words: tuple[str, ...], how: str, tmp_path: Path) -> None:
    (tmp_path / "test_gated.py").write_text(GATED)
    plugins = ("-p", "bestarm.race.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", ".")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *plugins, *words],
        cwd=tmp_path,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert how in ended.stdout, ended
    assert "certified" not in ended.stdout.lower()


def test_a_gate_for_functions_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "health", lambda _: SKEWED)
    found = gate(lambda: None, lambda: sum(range(100_000)), at_most=1.1)
    assert (found.found, found.decided, found.void_because) == ("void", "certified", SKEWED.void_because)
    assert found.sentence.startswith("VOID: the candidate seems to meet every limit after ")
