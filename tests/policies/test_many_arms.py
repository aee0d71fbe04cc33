"""Studies of many arms: the work grows with the tests, not with the tests times the arms. Counted, not timed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

import bestarm as ba
from bestarm.analysis.status.status import Status
from bestarm.cli.look import _event
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study.files.exchange import write_csv, write_json
from bestarm.web.shared import SharedStudy


def problem(arms: int) -> ba.Problem:
    noise = ba.Gaussian(1.0)
    return ba.Problem(
        arms=[f"arm {k}" for k in range(arms)],
        objective=ba.maximize("gain", noise=noise),
        constraints=[ba.at_most("harm", 0.0, noise=noise)],
    )


def first_round(study: ba.Study, at_once: int) -> Status:
    """Ask for a result of every stream, in pieces, and tell them."""
    asked = 0
    while asked < 2 * len(study.plan.arms):
        tests = study.ask(at_once)
        asked += len(tests)
        study.tell_many([(test, 0.25) for test in tests[1:]])
        study.tell(tests[0], 0.25)
    return study.status()


def everything(arms: int) -> None:
    study = ba.Study.create(problem(arms), storage=":memory:")
    first_round(study, 20)
    study.add([(f"arm {k}", "gain", 1.0) for k in range(arms)])
    study.ask(arms)
    study.pending()
    for event in study.log():
        _event(study, event)
    for write in (write_csv, write_json):
        write(study, io.StringIO())
    SharedStudy(study.storage, study.record).snapshot()


def test_names_are_read_in_proportion_to_the_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    def name(arm: ba.Arm) -> str:
        nonlocal reads
        reads += 1
        return str(vars(arm)["name"])

    def count(arms: int) -> int:
        nonlocal reads
        reads = 0
        everything(arms)
        return reads

    monkeypatch.setattr(ba.Arm, "name", property(name), raising=False)
    # Few enough for nothing to be compiled.
    few, many = count(10), count(40)
    assert 0 < few <= many <= 4 * few


def read_plans(storage: SQLStorage, act: Callable[[], object]) -> int:
    """How many of the statements that `act` makes read a study's plan."""
    found = 0

    def look(_1: object, _2: object, statement: str, *_3: object) -> None:
        nonlocal found
        found += 'bestarm_studies."plan"' in statement

    engine = storage._database.engine
    sa.event.listen(engine, "before_cursor_execute", look)
    try:
        act()
    finally:
        sa.event.remove(engine, "before_cursor_execute", look)
    return found


def test_a_plan_is_read_once(tmp_path: Path) -> None:
    study = ba.Study.create(problem(5), storage=tmp_path / "s.db")
    storage = study.storage
    assert isinstance(storage, SQLStorage)
    assert read_plans(storage, lambda: first_round(study, 2)) == 0
    shared = SharedStudy(storage, study.record)
    assert read_plans(storage, shared.snapshot) == 0
    assert read_plans(storage, lambda: ba.Study.open("study", storage=storage)) == 1


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_in_pieces_or_at_once_the_tests_are_the_same(at_once: int) -> None:
    study = ba.Study.create(problem(7), storage=":memory:")
    asked: list[ba.Test] = []
    while len(asked) < 14:
        asked += study.ask(at_once)
    assert [(test.id, test.arm, test.metric) for test in asked[:14]] == [
        (k + 1, f"arm {k // 2}", ("gain", "harm")[k % 2]) for k in range(14)
    ]


def test_files_whose_columns_are_in_another_order(tmp_path: Path) -> None:
    """As in databases made before the plan came last."""
    file = tmp_path / "s.db"
    ba.Study.create(problem(3), storage=file).storage.close()
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        for column, kind in (("created", "FLOAT NOT NULL DEFAULT 1.5"), ("seed", "BIGINT NOT NULL DEFAULT 0")):
            connection.exec_driver_sql(f"ALTER TABLE bestarm_studies DROP COLUMN {column}")
            connection.exec_driver_sql(f"ALTER TABLE bestarm_studies ADD COLUMN {column} {kind}")
    engine.dispose()
    study = ba.Study.open("study", storage=file)
    assert first_round(study, 4).tests >= 6
    assert (study.record.seed, study.record.created) == (0, 1.5)
    assert study.plan == ba.Plan.of(problem(3))


def test_a_status_as_plain_data() -> None:
    status = ba.Study.create(problem(2), storage=":memory:").status()
    data = status.to_dict()
    # These are there where there is something to say.
    rare = ("arm_word", "judges", "blocks", "endless", "unasked", "held", "ends", "budget_left", "outlook")
    assert list(data) == [name for name in vars(status) if name not in rare]
    assert data["arms"][0]["metrics"][0] == {
        "metric": "gain",
        "statistic": "mean",
        "share": None,
        "tests": 0,
        "trials": None,
        "mean": None,
        "low": None,
        "high": None,
        "threshold": None,
        "verdict": None,
    }
    assert (data["arms"][1]["name"], data["tests"], data["answer"]) == ("arm 1", 0, None)
