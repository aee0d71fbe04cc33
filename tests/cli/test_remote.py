"""Commands on a study of a service: a machine that measures needs no access to the database."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cli.live import DOSE
from tests.lengths import lengths
from tests.program import bestarm
from tests.tools.flaky import FATES, FlakyProxy
from tests.web.service import TOKEN

import bestarm as ba
from bestarm.cli.app.discovery import own_commands
from bestarm.cli.shared.command import flattened
from bestarm.web.server import running

PLAN = ba.Plan(
    arms=["a", "b"],
    objective=ba.maximize("gain", noise=ba.Bounded(0.0, 1.0)),
    constraints=[ba.at_most("harm", 0.9, noise=ba.Bounded(0.0, 1.0))],
    name="shared",
)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture
def service(database: str) -> Iterator[str]:
    with running(database, token=TOKEN) as url:
        yield url


@pytest.mark.parametrize("results", lengths(300, 10_000))
def test_a_worker_behind_a_line_that_drops_one_connection_in_ten(database: str, tmp_path: Path, results: int) -> None:
    """Nothing is lost, nothing doubled: every test is made once, and its one result is the one that was measured."""
    study = ba.Study.create(ba.Plan.of(PLAN, budget=results), storage=database)
    made = tmp_path / "made.txt"
    program = tmp_path / "measure.sh"
    program.write_text('echo "$1" >> "$2"\nprintf "0.5%07d\\n" "$1"\n')
    token = tmp_path / "token"
    token.write_text(f"{study.storage.make_token('bench', 'work')[0]}\n")
    with (
        running(database, tokens=True) as url,
        FlakyProxy(urlsplit(url).port or 0, random.Random(results)) as proxy,
    ):
        command = f"sh {program} {{test}} {made}"
        words = ["--command", command, "--workers", "4", "--db", f"http://127.0.0.1:{proxy.port}"]
        ended = bestarm("run", "shared", *words, "--token", f"@{token}")
    assert ended.code == 0, ended.err
    assert "budget" in ended.out
    # There are some 700 requests or more. At one in ten, the probability of fewer than half as many losses as expected
    # is below 1e-4, and that of a way to lose them that never came up below 1e-5.
    assert proxy.lost.total() > proxy.passed / 20
    assert set(proxy.lost) == set(FATES)
    assert sorted(map(int, made.read_text().split())) == list(range(1, results + 1))
    history = list(study.storage.history(study.record.key))
    assert [(test.id, *(told.value for told in test.outcomes)) for test in history] == [
        (number, float(f"0.5{number:07d}")) for number in range(1, results + 1)
    ]
    kinds = {event.kind for event in study.log()}
    assert kinds == {"created", "asked", "told"}
    assert study.pending() == []


def test_ask_tell_and_status(service: str, database: str, tmp_path: Path) -> None:
    ba.Study.create(PLAN, storage=database)
    there = ["--db", service]

    def run(*words: str, code: int = 0, stdin: bytes = b"") -> str:
        ended = bestarm(*words, *there, cwd=tmp_path, stdin=stdin, BESTARM_TOKEN=TOKEN)
        assert ended.code == code, ended
        return ended.out if code == 0 else ended.err

    asked = json.loads(run("ask", "shared", "-n", "4", "--json", "--worker", "bench"))
    assert [test["id"] for test in asked] == [1, 2, 3, 4]
    assert "Recorded: test 1 = 0.25." in run("tell", "shared", "1", "0.25", "--worker", "bench")
    assert "has the result 0.25 already" in run("tell", "shared", "1", "0.5", code=2)
    assert "Corrected: test 1" in run("tell", "shared", "1", "0.5", "--correct", "--reason", "typo")
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("test,value\n2,0.5\n3,0.5\n")
    assert "Recorded 2 results of shared" in run("tell", "shared", "--csv", str(sheet))
    assert "Nothing new: all its 2 results" in run("tell", "shared", "--csv", str(sheet))
    new = b"arm,metric,value\na,gain,0.5\nb,gain,0.75\n"
    assert "Recorded 2 results of shared" in run("tell", "shared", "--csv", "-", "--key", "k", stdin=new)
    assert "Recorded 2 results of shared" in run("tell", "shared", "--csv", "-", "--key", "k", stdin=new)
    assert "Recorded as test 7" in run("tell", "shared", "--arm", "a", "--metric", "gain", "0.5")
    assert "will be handed out again" in run("release", "shared", "--held-by", "service@bench")
    status = run("status", "shared")
    assert "tests: 6 recorded" in status
    assert "1 pending" in status
    data = json.loads(run("status", "shared", "--json"))
    here = json.loads(bestarm("status", "shared", "--db", database, "--json").out)
    # How to free what is waited for is said with another address.
    assert data | {"awaited": None} == here | {"awaited": None}
    out = tmp_path / "to-fill.csv"
    assert "Fill in value" in run("ask", "shared", "-n", "2", "-o", str(out), "--days", "3")
    assert "UTC" in out.read_text()
    assert "no such study" in run("status", "other", code=2)


def test_tokens_are_wanted_and_not_shown(service: str, database: str, tmp_path: Path) -> None:
    study = ba.Study.create(PLAN, storage=database)
    reader = study.storage.make_token("looker", "read")[0]
    (tmp_path / "token").write_text(TOKEN + "\n")
    for words, code, said in (
        ([], 2, "set BESTARM_TOKEN"),
        (["--token", "wrong-token-of-mine"], 2, "with a token of this service"),
        (["--token", "@nowhere"], 2, "cannot be read: No such file"),
        (["--token", "@token"], 0, ""),
        (["--token", TOKEN], 0, ""),
    ):
        ended = bestarm("status", "shared", "--db", service, *words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (code, True), ended
        assert "wrong-token-of-mine" not in ended.err + ended.out
    # The same by the environment.
    assert bestarm("status", "shared", BESTARM_DB=service, BESTARM_TOKEN=reader).code == 0
    ended = bestarm("ask", "shared", BESTARM_DB=service, BESTARM_TOKEN=reader)
    assert ended.code == 2
    assert "needs the role work; 'looker' has the role read" in ended.err
    ended = bestarm("status", "shared", "--db", database, "--token", TOKEN)
    assert "--token: goes with --db http" in ended.err


HERE_ONLY = {
    "token": ["list"],
    "migrate": ["--check"],
    "serve": [],
    "demo": [],
    "race": ["true", "false"],
    "gate": ["true", "--baseline", "false", "--at-most", "time=2x"],
}
"""Commands about a database itself: of a service they say so."""


def test_every_command_works_on_a_service_or_says_why_not(service: str, database: str, tmp_path: Path) -> None:
    """Each command that takes `--db` is here, in the order in which a study needs it. The others know no studies."""
    (tmp_path / "dose.toml").write_text("reserve = 0.1\nbudget = { tests = 100 }\n" + DOSE)
    (tmp_path / "past.csv").write_text("dose,metric,value\n25 mg,efficacy,0.5\n")
    (tmp_path / "measure.sh").write_text("echo 0.25\n")
    done = set()

    def run(*words: str, code: int = 0) -> str:
        done.add(words[0])
        ended = bestarm(*words, "--url", service, cwd=tmp_path, BESTARM_TOKEN=TOKEN)
        assert ended.code == code, ended
        return ended.out if code == 0 else ended.err

    made = json.loads(run("new", "dose.toml", "--seed", "7", "--json"))
    assert (made["study"], made["seed"], made["db"]) == ("dose", 7, service)
    assert "a study of this name exists already in this service" in run("new", "dose.toml", code=2)
    asked = json.loads(run("ask", "dose", "-n", "5", "--worker", "ann", "--json"))
    assert [test["id"] for test in asked] == [1, 2, 3, 4, 5]
    run("tell", "dose", "1", "0.5")
    assert "Noted." in run("fail", "dose", "2", "--reason", "power cut")
    assert "handed out again" in run("release", "dose", "3")
    run("abandon", "dose", "4", "--reason", "lost")
    assert "Recorded 1 result" in run("import", "dose", "past.csv", "--map", "dose=arm")
    assert "--again" in run("import", "dose", "past.csv", "--map", "dose=arm", code=2)
    assert "Recorded 1 result" in run("import", "dose", "past.csv", "--map", "dose=arm", "--again")
    assert "110 tests" in run("extend", "dose", "--tests", "10")
    assert "150 mg is retired" in run("arms", "retire", "dose", "150 mg")
    assert "takes part" in run("arms", "add", "dose", "75 mg")
    assert "only be changed before the first test" in run("reserve", "dose", "0", code=2)
    run("run", "dose", "--command", "sh measure.sh", "--dry-run")
    assert "3 recorded" in run("status", "dose")
    [line] = json.loads(run("list", "--json"))
    [here] = json.loads(bestarm("list", "--db", database, "--json").out)
    assert line == here
    assert "dose" in run("list")
    for words in (["log", "dose", "--json"], ["log", "dose", "--last", "20000", "--json"], ["export", "dose"]):
        there, local = run(*words), bestarm(*words, "--db", database).out
        assert there == local
        assert there.count("150 mg") > 1
    run("export", "dose", "--all", "-o", "dose.backup")
    assert bestarm("export", "dose", "--all", "-o", "here.backup", "--db", database, cwd=tmp_path).code == 0
    assert (tmp_path / "dose.backup").read_text() == (tmp_path / "here.backup").read_text()
    run("report", "dose", "--no-forecast", "-o", "dose.html")
    assert "150 mg" in (tmp_path / "dose.html").read_text()
    assert "dose is in the project lab-a" in run("move", "dose", "lab-a")
    assert [row["name"] for row in json.loads(run("projects", "--json"))] == ["default", "lab-a"]
    assert "archived" in run("archive", "dose")
    assert json.loads(run("list", "--json")) == []
    assert json.loads(run("list", "--all", "--json"))[0]["archived"]
    assert "1 study" not in run("prune", "--archived-for", "30", "--apply")
    assert "dose is deleted" in run("delete", "dose", "--confirm", "dose")
    assert "Restored dose with" in run("import", "dose.backup")
    assert "1 study:" in run("export", "--all", "-o", "all.backup")
    assert "dose is there already" in run("import", "all.backup")
    acts = [json.loads(line)["event"] for line in run("log", "--audit", "--json-lines").splitlines()]
    assert acts[-2:] == ["study deleted", "study imported"]
    for name, words in HERE_ONLY.items():
        ended = bestarm(name, *words, "--db", service, cwd=tmp_path)
        assert (ended.code, ended.err.count("\n"), "needs the database itself" in ended.err) == (2, 1, True), ended
        assert "with the address that `bestarm serve --db` has" in ended.err
    takes_place = {
        name for name, found in own_commands().items() if "db" in inspect.signature(flattened(found.body)).parameters
    }
    # tests/integrations/test_mlflow.py has the one, and the next test the other.
    assert takes_place - done - HERE_ONLY.keys() == {"track", "doctor"}


def test_doctor_looks_for_the_service(service: str) -> None:
    def found(token: str) -> str:
        parts = json.loads(bestarm("doctor", "--json", BESTARM_DB=service, BESTARM_TOKEN=token).out)["parts"]
        return next(str(part) for part in parts if part["part"] == "service")

    assert "can be reached and has 0 studies" in found(TOKEN)
    assert "needs the header Authorization" in found("")
