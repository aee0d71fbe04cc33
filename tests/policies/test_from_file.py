"""A policy from somebody's own file: simulated, in campaigns, in other processes, and refused in one line."""

from __future__ import annotations

import functools
import inspect
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.program import Ended
from tests.program import bestarm as run

import bestarm as ba
from bestarm.policies import from_file, performance_first
from bestarm.policies.from_file import load_policy
from bestarm.simulation.engine import Job

PLAIN = '''
"""Test both arms until one is better for certain."""

import bestarm as ba
from beside import LIMIT


class Equal(ba.Policy):
    name = "equal"

    def propose(self):
        for arm, other in ((0, 1), (1, 0)):
            if self.untested == 0 and self.lower(arm, 0) >= self.upper(other, 0):
                return ba.Stop(arm)
        return [(0, 0), (1, 0)] * LIMIT
'''
PLAN = ba.Plan(
    arms=(ba.Arm("a", {"gain": 0.0}), ba.Arm("b", {"gain": 3.0})),
    objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
    bound="mixture",
    name="two",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (tmp_path / "beside.py").write_text("LIMIT = 1\n")
    (tmp_path / "mine.py").write_text(PLAIN)
    (tmp_path / "two.json").write_text(PLAN.to_json())
    return tmp_path


bestarm = functools.partial(run, COLUMNS="200")


def figures(ended: Ended) -> Any:
    assert ended.code == 0, ended
    return json.loads(ended.out)


def test_simulate(folder: Path) -> None:
    found = figures(bestarm("simulate", "two.json", "--policy", "mine.py:Equal", "--runs", "20", "--json"))
    assert (found["policy"], found["answers"]) == ("equal", {"b": 20})
    same = figures(bestarm("simulate", "two.json", "--policy", str(folder / "mine.py"), "--runs", "20", "--json"))
    assert same["mean_tests"] == found["mean_tests"]
    assert ba.simulate(PLAN, policy=load_policy("mine.py:Equal"), runs=20).mean_tests == found["mean_tests"]


@pytest.mark.parametrize(
    ("text", "named", "complaint"),
    [
        (None, "no.py:Equal", "there is no file no.py"),
        (PLAIN, "mine.py:Other", "mine.py has no class Other; it has Equal"),
        (PLAIN, "mine.py:LIMIT", "mine.py has no class LIMIT; it has Equal"),
        ("import os\nclass A: pass\n", "mine.py:A", "A is not a subclass of bestarm.Policy"),
        (
            "x = 1\n\nraise ValueError('no luck\\ntoday')\n",
            "mine.py:A",
            "cannot be loaded: ValueError: no luck (line 3)",
        ),
        ("import nowhere_at_all\n", "mine.py:A", "mine.py cannot be loaded: ModuleNotFoundError: No module named"),
        ("def f(:\n", "mine.py:A", "mine.py cannot be loaded: SyntaxError: invalid syntax (mine.py, line 1)"),
        ("import sys\nsys.exit(3)\n", "mine.py:A", "mine.py cannot be loaded: SystemExit: 3 (line 2)"),
        ("import bestarm as ba\nclass A(ba.Policy):\n    name = 'a'\n", "mine.py:A", "A has no method propose"),
        (
            PLAIN.replace('name = "equal"', ""),
            "mine.py:Equal",
            "the name of Equal must be text; write: name = 'my-policy'",
        ),
        (PLAIN.replace('"equal"', '"racing"'), "mine.py:Equal", "Equal is called 'racing', like another policy"),
        ("x = 1\n", "mine.py", "mine.py has no policy; name one as mine.py:CLASS"),
        (PLAIN + "class B(Equal):\n    name = 'b'\n", "mine.py", "mine.py has the policies Equal, B; name one as"),
    ],
)
def test_what_is_no_policy(folder: Path, text: str | None, named: str, complaint: str) -> None:
    if text is not None:
        (folder / "mine.py").write_text(text)
    refused("simulate", "two.json", "--policy", named, complaint=complaint)


def refused(*words: str, complaint: str) -> None:
    ended = bestarm(*words, "--runs", "2")
    assert ended.code == 2
    assert complaint in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_nothing_is_begun_with_what_is_no_policy(folder: Path) -> None:
    for words in (("campaign", "two.json"), ("paper", "drug")):
        refused(*words, "--out", "out", "--policy", "no.py:Equal", complaint="there is no file no.py")
    assert not (folder / "out").exists()


def test_plans_and_names_run_no_files(folder: Path) -> None:
    """Nobody can have a server run a file by naming it in a plan."""
    with pytest.raises(ba.InvalidInput, match="no such policy"):
        ba.simulate(PLAN, policy="mine.py:Equal", runs=2)
    with pytest.raises(ba.InvalidInput, match="no such policy"):
        ba.Study.create(PLAN, policy="mine.py:Equal", storage=":memory:")


def test_a_campaign_notes_the_file_and_refuses_to_mix(folder: Path) -> None:
    words = ("campaign", "two.json", "--out", "out", "--policy", "racing", "--policy", "mine.py:Equal", "--json")
    first = figures(bestarm(*words, "--runs", "3"))
    assert [row["policy"] for row in first] == ["racing", "equal"]
    noted = json.loads((folder / "out" / "campaign.json").read_text())["policies"]
    assert {name: (what["file"], what["class"]) for name, what in noted.items()} == {"equal": ("mine.py", "Equal")}
    # It continues, but not with another source under the same name, nor with that name alone.
    assert figures(bestarm(*words, "--runs", "5"))[1]["runs"] == 5
    (folder / "mine.py").write_text(PLAIN + "\n# another\n")
    ended = bestarm(*words, "--runs", "5")
    assert ended.code == 2
    assert "out holds another campaign (its policies differ)" in ended.err
    kind = load_policy("mine.py:Equal")
    grid = ba.Campaign.grid([PLAN], policies=[kind, "racing"], runs=3)
    assert [cell.kind for cell in grid.cells] == [kind, None]
    with pytest.raises(ba.InvalidInput, match=r"names 'two . equal . mixture . 0.05' twice"):
        ba.Campaign.grid([PLAN], policies=[kind, kind], runs=3)


def test_another_process_needs_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = load_policy("mine.py:Equal")
    job = Job.of(PLAN, kind, seed=1, max_tests=1000)
    sent = pickle.dumps(job)
    (folder / "mine.py").unlink()
    monkeypatch.delitem(sys.modules, kind.__module__)
    from_file._module.cache_clear()
    here, there = job.simulate(0, 5).outcomes, pickle.loads(sent).simulate(0, 5).outcomes
    assert np.array_equal(here.tests, there.tests)


@pytest.mark.torture
def test_kernels_are_compiled_and_processes_agree(folder: Path) -> None:
    source = inspect.getsource(performance_first).replace('"performance-first"', '"copy"')
    (folder / "mine.py").write_text(source)
    kind = load_policy("mine.py:PerformanceFirst")
    plan = ba.instance("exp2-k4")
    expected = ba.simulate(plan, policy="performance-first", runs=10)
    for executor in ("threads", "processes"):
        found = ba.simulate(plan, policy=kind, runs=10, executor=executor, workers=2)
        assert np.array_equal(found.tests, expected.tests)
