"""Seeds of studies: drawn afresh unless they are stated, kept with the study, and shown so that it can be repeated."""

from __future__ import annotations

import io
import json
import random
import runpy
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from benchmarks.measurements import ITEMS, wrong_after_repairs
from tests.lengths import lengths
from tests.study.problems import exported

import bestarm as ba
from bestarm.problem.items import ItemOrder
from bestarm.storage.base import Part, StudyRecord
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import schema
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study.files.backup import restore_backup, write_backup
from bestarm.study.files.exchange import import_results, write_json
from bestarm.study.record import seeds
from bestarm.study.reports.report import record_digest, study_report


def plan(items: int | None = ITEMS, **more: Any) -> ba.Plan:
    return ba.Plan(["old", "new"], ba.maximize("score", noise=ba.Bernoulli()), items=items, **more)


def drawing(patch: pytest.MonkeyPatch, *drawn: int) -> None:
    """Let studies draw these seeds."""
    patch.setattr(seeds, "fresh_seed", iter(drawn).__next__)


def first_items(study: ba.Study, count: int = 10) -> list[str | None]:
    return [study.item_name(place) for place in range(count)]


# ------------------------------------------------------------------------------------------- what the proof rests on


@pytest.mark.parametrize(("studies", "most", "least"), lengths((8, 3, 4), (20, 4, 10)))
def test_an_arm_that_was_repaired_on_the_items_of_an_earlier_study(
    studies: int, most: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new arm is made perfect on the items that a first study met, and stays worse than the old one.

    With the order of the first study, which a stated `items_seed` repeats, a second study meets these items first and
    is nearly always wrong. With an order of its own it is wrong with probability 0.05 at most, so more than 4 of 20
    are wrong with probability 0.003 at most, more than 3 of 8 with probability 0.0004.
    """
    rng = random.Random(1)
    drawing(monkeypatch, *(rng.getrandbits(53) for _ in range(200)))
    wrong = wrong_after_repairs(studies)
    assert wrong["with an order of its own"] <= most
    assert wrong["with the order of the first"] >= least


# --------------------------------------------------------------------------------------------------------- drawing


def test_seeds_differ_from_draw_to_draw() -> None:
    """Equal with probability 100 / 2^53 at most."""
    fresh_seed: Callable[[], int] = runpy.run_path(seeds.__file__)["fresh_seed"]  # the one here always draws 0
    drawn = {fresh_seed() for _ in range(15)}
    assert len(drawn) == 15
    assert all(0 <= seed < 2**53 for seed in drawn)


def test_each_seed_is_drawn_apart_from_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(items: int | None, **stated: Any) -> tuple[int, int | None]:
        record = ba.Study.create(plan(items), storage=":memory:", **stated).record
        return record.seed, record.items_seed

    drawing(monkeypatch, 11, 12, 13, 14, 15)
    assert made(ITEMS) == (12, 11)
    assert made(ITEMS, seed=1) == (1, 13)
    assert made(ITEMS, items_seed=2) == (14, 2)
    assert made(ITEMS, seed=1, items_seed=2) == (1, 2)
    assert made(None) == (15, None)
    assert made(None, seed=1) == (1, None)


def test_a_stated_seed_does_not_fix_the_order_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing(monkeypatch, 11, 12, 13)
    one, other = (ba.Study.create(plan(), storage=":memory:", seed=1) for _ in range(2))
    assert first_items(one) != first_items(other)
    again = ba.Study.create(plan(), storage=":memory:", items_seed=11)
    assert first_items(again) == first_items(one) == [ItemOrder(ITEMS, False, 11).name(place) for place in range(10)]


def test_identify_draws_for_a_new_study_and_goes_on_with_the_seeds_of_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing(monkeypatch, 11, 12)
    asked, where = plan(name="trial"), tmp_path / "s.db"

    def identify(**more: Any) -> ba.Answer:
        return ba.identify(asked, lambda arm, metric, item: float(arm == "new"), storage=where, **more)

    answer = identify(budget=2)
    assert answer.state == "budget_spent"
    assert identify(budget=4, seed=12, items_seed=11).tests == 4
    for stated, kept in (({"seed": 13}, 12), ({"items_seed": 13}, 11)):
        with pytest.raises(ba.InvalidInput, match=f"seed = 13: the study 'trial' was made with {kept}, which cannot"):
            identify(budget=500, **stated)
    assert identify(budget=500).arm == "new"
    record = ba.Study.open("trial", storage=where).record
    assert (record.seed, record.items_seed) == (12, 11)


@pytest.mark.parametrize("field", ["seed", "items_seed"])
@pytest.mark.parametrize("value", [-1, 2**63, 1.0, "1", True])
def test_seeds_that_are_none(field: str, value: Any, tmp_path: Path) -> None:
    stated: dict[str, Any] = {field: value}
    with pytest.raises(ba.InvalidInput, match=rf"^{field} = .*: must be a whole number from 0 to 2\^63 - 1"):
        ba.Study.create(plan(), storage=tmp_path / "s.db", **stated)
    assert not (tmp_path / "s.db").exists()


def test_an_order_where_there_are_no_items() -> None:
    with pytest.raises(ba.InvalidInput, match=r"items_seed = 3: this study has no items, so there is no order of them"):
        ba.Study.create(plan(None), storage=":memory:", items_seed=3)


# --------------------------------------------------------------------------------------------------------- keeping


def test_seeds_stay_with_the_study_and_not_with_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing(monkeypatch, 11, 12, 13, 14)
    storage = open_storage(tmp_path / "s.db", create=True)
    study = ba.Study.create(plan(budget=ba.Budget(tests=50)), storage=storage, name="one")
    study.tell(study.ask(1)[0], 1.0)
    study.correct(1, 0.0, "misread")
    study.extend(100)
    met = first_items(study)
    opened = ba.Study.open("one", storage=storage)
    file = io.StringIO()
    write_backup(storage, study.record, file)
    restore_backup(storage, io.BytesIO(file.getvalue().encode()), "a file", name="copy")
    copy = ba.Study.open("copy", storage=storage)
    for kept in (study, opened, copy):
        status = kept.status()
        assert (status.seed, status.items_seed) == (12, 11)
        assert first_items(kept) == met
    fresh = ba.Study.create(copy.plan, storage=storage, name="new study of the same plan")
    assert (fresh.record.seed, fresh.record.items_seed) == (14, 13)
    assert first_items(fresh) != met
    storage.close()


def at_version_4(path: Path) -> None:
    """Make the database as the program wrote it before it kept the seed of items."""
    with closing(SQLStorage(str(path))) as storage, storage._database.transaction() as connection:
        for column in ("items_seed", "project"):
            connection.exec_driver_sql(f"ALTER TABLE bestarm_studies DROP COLUMN {column}")
        for table in (schema.sessions, schema.acts):
            table.drop(connection)
        connection.execute(sa.update(schema.schema).values(version=4))


def as_before(part: Part) -> Part:
    """A part of a backup as it was written then, of a study called "restored"."""
    if part.table != "studies":
        return part
    [row] = part.rows
    entry = dict(zip(part.columns, row, strict=True)) | {"name": "restored"}
    del entry["items_seed"], entry["project"]
    return Part(part.table, tuple(entry), [tuple(entry.values())])


def test_studies_made_before_keep_their_order(tmp_path: Path) -> None:
    """Theirs follows the seed, which was the seed of everything."""
    path, expected = tmp_path / "s.db", [ItemOrder(ITEMS, False, 7).name(place) for place in range(10)]
    ba.Study.create(plan(), storage=path, seed=7, name="before").storage.close()
    at_version_4(path)
    study = ba.Study.open("before", storage=path)
    assert study.record.items_seed is None
    assert first_items(study) == expected
    # Stated for a new study, these repeat it.
    assert (study.status().seed, study.status().items_seed) == (7, 7)
    # A backup that was written then has no such columns.
    study.storage.restore(map(as_before, study.storage.dump(study.record.key)))
    restored = ba.Study.open("restored", storage=study.storage)
    assert (restored.record.items_seed, restored.record.project) == (None, "default")
    assert first_items(restored) == expected
    study.storage.close()


class OneSeed(SQLStorage):
    """A storage that was written when studies had one seed."""

    keeps_items_seed = False
    notes_authors = False

    def create_study(  # type: ignore[override]
        self, name: str, plan: str, seed: int, *, by_arrival: bool = False, request: str = ""
    ) -> StudyRecord:
        return super().create_study(name, plan, seed, by_arrival=by_arrival, request=request)


def test_a_storage_that_keeps_one_seed_keeps_that_of_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing(monkeypatch, 11, 12)
    cases: list[tuple[dict[str, Any], int]] = [
        ({"seed": 1}, 11),
        ({"seed": 1, "items_seed": 2}, 2),
        ({"items_seed": 3}, 3),
    ]
    for stated, kept in cases:
        study = ba.Study.create(plan(), storage=OneSeed(":memory:", create=True), **stated)
        assert (study.record.seed, study.status().items_seed) == (kept, kept)
        assert first_items(study) == [ItemOrder(ITEMS, False, kept).name(place) for place in range(10)]
    assert ba.Study.create(plan(None), storage=OneSeed(":memory:", create=True), seed=4).record.seed == 4


# --------------------------------------------------------------------------------------------------------- showing


def test_both_are_shown_where_the_study_is() -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=3, items_seed=4)
    assert study.status().to_dict().items() >= {"seed": 3, "items_seed": 4}.items()
    assert "seed 3, items_seed 4" in str(study.status())
    assert "seed 3, items_seed 4" in study._repr_html_()
    report = study_report(study)
    assert "the plan below, seed 3, items_seed 4, and the results" in report
    assert "bestarm new plan.toml --name again --seed 3 --items-seed 4\n" in report
    out = io.StringIO()
    write_json(study, out)
    assert json.loads(out.getvalue()).items() >= {"seed": 3, "items_seed": 4}.items()
    without = ba.Study.create(plan(None), storage=":memory:", seed=3)
    assert "items_seed" not in str(without.status()) + study_report(without)
    out = io.StringIO()
    write_json(without, out)
    assert "items_seed" not in json.loads(out.getvalue())


@pytest.mark.parametrize("repeats", [False, True])
def test_what_the_report_says_repeats_the_study(repeats: bool) -> None:
    study = ba.Study.create(plan(30, repeats=repeats, delta=0.3), storage=":memory:", seed=3, items_seed=4)
    while not study.done:
        study.tell_many([(test, test.arm == "new") for test in study.ask(4)])
    status = study.status()
    assert status.seed is not None
    again = ba.Study.create(study.plan, storage=":memory:", seed=status.seed, items_seed=status.items_seed)
    import_results(again, exported(study).encode(), "record.csv")
    assert again.answer == study.answer
    assert record_digest(again) == record_digest(study)
    other = ba.Study.create(study.plan, storage=":memory:", seed=status.seed, items_seed=5)
    assert record_digest(other) != record_digest(ba.Study.create(study.plan, storage=":memory:", seed=3, items_seed=4))
