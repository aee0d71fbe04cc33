"""Machine code on disk, and that all kernels of ours have it."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tools.hard import hard_goals, hard_problems
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.native import forms
from bestarm.kernel.native.disk_cache import ENDING
from bestarm.kernel.native.forms import Native
from bestarm.policies import all_policies, find_policy
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.setting import new_setting

Made = list[str]


@kernel
def doubled(values: Any) -> float:
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return 2.0 * total


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BESTARM_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """The programs that were made, not read from disk."""
    texts: Made = []

    make: Any = vars(forms)["machine_code"]

    def noting(text: str) -> Any:
        texts.append(text)
        return make(text)

    monkeypatch.setattr(forms, "machine_code", noting)
    return texts


def anew(root: Any) -> Native:
    """As in another process: nothing is in memory yet."""
    form = compiled(root)
    return Native(form._root, form.name, form._resolve, form._is_apart, form._is_unchanged, form._interpret)


def test_machine_code_is_made_once_and_kept(folder: Path, made: Made) -> None:
    for _ in range(3):
        assert anew(doubled)(np.arange(4.0)) == 12.0
    assert len(made) == 1
    assert anew(doubled)(np.arange(4)) == 12.0  # an array of another type is another form
    assert len(made) == len(list(folder.glob(f"*{ENDING}"))) == 2


@pytest.mark.parametrize("spoil", [lambda code: code[:-100], lambda code: b"", lambda code: code[:-1] + b"?"])
def test_spoiled_machine_code_is_made_anew(folder: Path, made: Made, spoil: Any) -> None:
    anew(doubled)(np.arange(4.0))
    (path,) = folder.glob(f"*{ENDING}")
    path.write_bytes(spoil(path.read_bytes()))
    assert anew(doubled)(np.arange(4.0)) == 12.0
    assert len(made) == 2
    assert anew(doubled)(np.arange(4.0)) == 12.0
    assert len(made) == 2


def test_where_nothing_can_be_kept_everything_still_runs(monkeypatch: pytest.MonkeyPatch, made: Made) -> None:
    monkeypatch.setenv("BESTARM_CACHE_DIR", "/proc/nowhere")
    for _ in range(2):
        assert anew(doubled)(np.arange(4.0)) == 12.0
    assert len(made) == 2


def test_many_threads_make_it_once(folder: Path, made: Made) -> None:
    run, found = anew(doubled), []
    threads = [threading.Thread(target=lambda: found.append(run(np.arange(4.0)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12.0] * 8
    assert len(made) == 1


def test_interpreted_until_it_is_made(folder: Path, made: Made) -> None:
    run, plain = anew(doubled), []

    def interpreted(values: Any) -> float:
        plain.append(values)
        return doubled(values)

    soon = run.interpreted_until_ready(interpreted)
    assert soon(np.arange(4.0)) == soon(np.arange(4.0)) == 12.0
    while not run.is_ready(np.arange(4.0)):
        time.sleep(0.01)
    before = len(plain)
    assert before > 0
    assert soon(np.arange(5.0)) == 20.0
    assert (len(plain), len(made)) == (before, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_can_be_forked_while_a_thread_compiles(folder: Path) -> None:
    run = anew(doubled)
    assert not run.is_ready(np.arange(4.0))
    child = os.fork()
    if child == 0:
        os._exit(0 if anew(doubled)(np.arange(4.0)) == 12.0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_that_ends_while_a_daemon_thread_compiles_does_not_crash(folder: Path) -> None:
    script = """
import threading
import time
import bestarm as ba
from bestarm.kernel.native import forms
begun, make = threading.Event(), forms.machine_code
def noting(text):
    begun.set()
    return make(text)
forms.machine_code = noting
simulating = {"policy": "certify", "runs": 1}
threading.Thread(target=ba.simulate, args=(ba.instance("exp1-a"),), kwargs=simulating, daemon=True).start()
begun.wait()
time.sleep(0.3)
"""
    ended = subprocess.run([sys.executable, "-c", script], timeout=PATIENCE, check=False)
    assert ended.returncode == 0


def test_a_copy_of_what_runs_compiled_runs_compiled() -> None:
    policy = find_policy("certify")(new_setting(ba.instance("drug"), 0.1, "paper"), 5, 3)
    assert isinstance(policy, KernelPolicy)
    policy.compile()
    first = policy.propose()
    for arm, metric in policy.tests_of([(arm, metric) for arm in range(5) for metric in range(3)]):
        policy.tell(arm, metric, 0.1 * arm)
    again = copy.deepcopy(policy)
    assert again.is_compiled
    assert again.propose() == policy.propose() != first


PLANS = {plan.name: plan for plan in (*hard_problems(), *hard_goals())}


@pytest.mark.parametrize(
    ("plan", "policy"),
    [(ba.instance("drug"), name) for name in sorted(all_policies())] + [(plan, plan.policy) for plan in PLANS.values()],
    ids=lambda value: getattr(value, "name", value),
)
def test_all_kernels_of_ours_are_compiled(plan: ba.Plan, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("it was not translated")

    monkeypatch.setattr("bestarm.kernel.compile.Interpreted.__call__", refuse)
    assert ba.simulate(plan, policy=policy, runs=1, seed=1, max_tests=50).runs == 1
