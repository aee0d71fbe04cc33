"""A study keeps the edition of the rules that it began with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bestarm as ba
from bestarm.problem import NEWEST_RULES
from bestarm.study.reports.report import record_digest

PLAN = ba.Plan(arms=["a", "b"], objective=ba.maximize("yield", noise=ba.Gaussian(1.0)), name="trial", delta=0.1)


def _without_rules(database: str) -> None:
    """Make the one study in a database one from before there were several rules."""
    import sqlalchemy as sa

    engine = sa.create_engine(database)
    with engine.begin() as connection:
        (plan,) = connection.execute(sa.text("select plan from bestarm_studies")).scalars()
        data = json.loads(plan)
        del data["rules"]
        connection.execute(sa.text("update bestarm_studies set plan = :plan"), {"plan": json.dumps(data)})
    engine.dispose()


def test_new_plans_say_which_rules_decide() -> None:
    assert PLAN.rules == NEWEST_RULES == PLAN.to_data()["rules"]
    written = PLAN.to_toml()
    assert f"rules = {NEWEST_RULES}\n" in written
    assert ba.Plan.from_toml(written) == PLAN
    hand_written = written.replace(f"rules = {NEWEST_RULES}\n", "")
    assert ba.Plan.from_toml(hand_written).rules == NEWEST_RULES


@pytest.mark.parametrize("rules", [0, 1.5, NEWEST_RULES + 1, True, "two"])
def test_unknown_rules_are_refused(rules: object) -> None:
    with pytest.raises(ba.InvalidInput, match="rules"):
        ba.Plan.from_data({**PLAN.to_data(), "rules": rules})


def test_a_study_from_before_keeps_the_first_rules(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'studies.db'}"
    study = ba.Study.create(PLAN, seed=1, storage=database)
    for _ in range(40):
        (test,) = study.ask(1)
        study.tell(test, 0.3 if test.arm == "a" else 0.0)
    newer = record_digest(study)
    _without_rules(database)
    before = ba.Study.open("trial", storage=database)
    assert before.plan.rules == 1
    # The evidence for a pair is another one.
    assert before.status().confidence != study.status().confidence
    assert record_digest(before) != newer
    # Its plan, written and read again, is the same.
    assert ba.Plan.from_toml(before.plan.to_toml()) == before.plan
    assert ba.Plan.from_json(before.plan.to_json()).rules == 1


def test_a_script_of_today_goes_on_with_a_study_from_before(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'studies.db'}"
    ba.Study.create(PLAN, seed=1, storage=database)
    _without_rules(database)
    answer = ba.identify(PLAN, lambda arm, metric: 3.0 if arm == "a" else 0.0, storage=database, seed=1)
    assert answer.arm == "a"
    assert ba.Study.open("trial", storage=database).plan.rules == 1
