"""Who holds a test, and for how long."""

from __future__ import annotations

import gc
import math
import time
from pathlib import Path

import pytest
from tests.study.problems import two_arms
from tests.tools.patience import wait_until

import bestarm as ba
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study import heartbeat


def test_who_holds_a_test(tmp_path: Path) -> None:
    mine = ba.Study.create(two_arms(policy="racing"), storage=tmp_path / "s.db")
    yours = ba.Study.open("study", storage=tmp_path / "s.db")
    first = mine.ask(4, lease=1e-6)
    # I have been silent for longer than I said, and still am when you look again.
    assert yours.ask(1) == []
    assert yours.ask(1) == first[:1]
    assert mine.ask(4) == first[1:]
    assert yours.ask(4) == []
    # Which of the two attempts counts was decided then, and not by who is quicker.
    with pytest.raises(ba.AlreadyTold, match=r"test = 1 \('gain' of 'a'\): was handed to .* in the meantime, whose"):
        mine.tell(first[0], 1.0)
    with pytest.raises(ba.AlreadyTold, match="was handed to"):
        mine.tell_many([(first[0], 1.0)])
    with pytest.raises(ba.AlreadyTold, match="was handed to"):
        mine.abandon(first[0], "broke")
    yours.tell(first[0], 2.0)
    mine.release(first[1:3])
    assert yours.ask(4) == first[1:3]
    # A former holder can no longer free the test; others can.
    mine.release(first[1:3])
    mine.fail(first[1], "not mine any more")
    assert mine.ask(4) == []
    ba.Study.open("study", storage=tmp_path / "s.db").fail(first[1], "the assay failed")
    assert mine.ask(4) == [first[1]]
    assert [event.detail for event in mine.log() if event.kind == "failed"] == ["not mine any more", "the assay failed"]


def test_a_program_that_lives_keeps_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes: else results that take long, and may be adverse, would never be heard."""
    monkeypatch.setattr(heartbeat, "_EVERY", 0.02)
    mine = ba.Study.create(two_arms(policy="racing"), storage=tmp_path / "s.db")
    yours = ba.Study.open("study", storage=tmp_path / "s.db")
    first = mine.ask(4)
    renewed = {row.expires for _, row in mine.pending()}
    wait_until(lambda: not {row.expires for _, row in yours.pending()} & renewed)
    mine.tell(first[0], 1.0)
    # When it is gone, so are its holds.
    del mine
    gc.collect()
    later = time.time() + 2 * heartbeat.LEASE
    assert isinstance(yours.storage, SQLStorage)
    yours.storage._database.clock = lambda: later
    assert yours.ask(4) == [], "it may be the other machine that was asleep"
    later += heartbeat.LEASE
    assert yours.ask(4) == first[1:]
    assert {event.kind for event in yours.log()} >= {"handed on"}


def test_who_asks_for_days_keeps_tests_without_a_heartbeat(tmp_path: Path) -> None:
    mine = ba.Study.create(two_arms(policy="racing"), storage=tmp_path / "s.db", holder="ann")
    tests = mine.ask(4, days=1e-9)
    yours = ba.Study.open("study", storage=tmp_path / "s.db", holder="bob")
    del mine
    assert yours.ask(4) == yours.ask(4) == []
    awaited = yours.awaited()
    assert awaited is not None
    assert (awaited.test, awaited.holder, awaited.state) == (1, "ann", "overdue")
    assert awaited.command == f"bestarm release study 1 --db {tmp_path / 's.db'}"
    assert "test 1 (gain of a), which ann has held for" in str(awaited)
    assert "bestarm release study 1" in str(yours.status().awaited)
    ba.Study.open("study", storage=tmp_path / "s.db", holder="ann").tell(tests[0], 1.0)
    yours.release(tests[1])
    assert yours.ask(4) == tests[1:2]
    for bad in (0, -1, math.nan, 1e9, True, "2"):
        with pytest.raises(ba.InvalidInput, match=r"days = .*: must be a positive number of days"):
            yours.ask(1, days=bad)  # type: ignore[arg-type]
    for bad in (0, -1, math.nan, math.inf, True, "2"):
        with pytest.raises(ba.InvalidInput, match=r"lease = .*: must be a positive number of seconds"):
            yours.ask(1, lease=bad)  # type: ignore[arg-type]
        with pytest.raises(ba.InvalidInput, match=r"lease = .*: must be a positive number of seconds"):
            yours.renew(tests, bad)  # type: ignore[arg-type]
    with pytest.raises(ba.InvalidInput, match="days, lease: give one of them"):
        yours.ask(1, days=1, lease=1)
