"""Everything the description of the service allows, and what it does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.patience import PATIENCE
from tests.web.service import PLAN

import bestarm as ba
from bestarm.study.study import Study
from bestarm.web.server import running

ABOUT_A_STUDY = [
    *("abandon", "add", "add_arms", "ask", "check_far", "correct", "create_study", "extend", "fail", "get_differences"),
    *("delete", "release", "renew", "restore", "retire", "set_aside", "set_reserve", "sign_in", "tell", "tell_file"),
]
"""Requests that a study may refuse although they are as described: they name its arms, metrics, items and tests, its
values lie in ranges, a key stands for one thing, and an archived study does not change. Fields of a plan must fit each
other, and to sign in takes a token. All that is said of these is that they are not refused as malformed."""

CONFIGURATION = f"""
hooks = {json.dumps(str(Path(__file__).with_name("schemathesis_hooks.py")))}

[checks]
# A body that breaks the description may also be too large.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429]

[[operations]]
include-operation-id = {json.dumps(ABOUT_A_STUDY)}
checks.positive_data_acceptance.enabled = false
"""


@pytest.mark.torture
@pytest.mark.parametrize(("phases", "examples", "least"), [("examples,coverage,fuzzing", 8, 300)])
def test_schemathesis_finds_no_failure(tmp_path: Path, phases: str, examples: int, least: int) -> None:
    """Everything the description allows, and what it does not, is answered as it says; seeded.

    What the description allows is accepted, or is refused by the study that it is about (`ABOUT_A_STUDY`), never as
    malformed.
    """
    path = str(tmp_path / "x.db")
    one = Study.create(ba.Plan.from_data(PLAN), storage=path)
    for test in one.ask(4):
        one.tell(test, 1.0)
    one.ask(4)
    harm = {"metric": "harm", "at_most": 0.5, "noise": "bernoulli"}
    together = PLAN | {"constraints": [harm], "measurements": [{"metrics": ["gain", "harm"]}], "items": 50}
    two = Study.create(ba.Plan.from_data(together), name="together", storage=path)
    for test in two.ask(4):
        two.tell(test, {"gain": 0.5, "harm": 0})
    two.ask(4)
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    program = str(Path(sys.executable).with_name("schemathesis"))
    with running(path) as url:
        checked = subprocess.run(
            [
                *(program, "--config-file", str(tmp_path / "schemathesis.toml"), "run", f"{url}/openapi.json"),
                *("--exclude-path-regex", "events$"),
                *("--phases", phases, "--max-examples", str(examples), "--seed", "1", "--no-color"),
                *("--generation-database", "none", "--request-timeout", str(PATIENCE)),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert checked.returncode == 0, checked.stdout[-5000:] + checked.stderr[-2000:]
    cases = re.search(r"(\d+) generated", checked.stdout)
    assert cases
    assert int(cases[1]) > least, checked.stdout[-2000:]
