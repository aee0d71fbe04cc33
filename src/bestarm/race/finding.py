"""Which study a race goes on with: the newest of its name, or a new one if a program has changed since."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from bestarm.problem import Plan
from bestarm.race.run_log import RunLog, changed, file_beside
from bestarm.storage.base import Storage
from bestarm.study import Study
from bestarm.study.work.workers import create_or_open
from bestarm.validation import InvalidInput

_ADVICE = "--fresh starts over, and --study NAME makes another race"


class Found(NamedTuple):
    """The study of a race."""

    name: str
    run_log: RunLog
    replaces: str
    """Why there is a new study, if there is an older one of the same race."""


def find_race(storage: Storage, db: str | None, name: str, files: Mapping[str, str], *, fresh: bool) -> Found:
    """The newest study of this race, or a new one if that cannot go on."""

    def log_of(study: str) -> RunLog:
        return RunLog(None if db is None else file_beside(db, study))

    newest, following = name, name
    # The studies of one race are numbered, the oldest first.
    for following in itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2))):
        if storage.find_study(following) is None:
            break
        newest = following
    run_log = log_of(newest)
    altered = changed(run_log.about.get("files", {}), files)
    if following == newest or not (fresh or altered):
        return Found(newest, run_log, "")
    why = f"{', '.join(altered)} changed since this race began" if altered else "as you asked"
    return Found(following, log_of(following), f"Started over as {following!r}, {why}; {newest!r} is kept.")


def study_before(storage: Storage, name: str) -> Study | None:
    """The study that an earlier session of a race left; None if there is none."""
    if storage.find_study(name) is None:
        return None
    study = Study.open(name, storage=storage)
    study._heeds_remarks = False
    return study


def study_of(plan: Plan, storage: Storage, seed: int | None, delta: float, before: Study | None) -> Study:
    """The study of a race, which has its share of `delta`; an error if the one `before` is another."""
    if before is not None and before.plan.delta != plan.delta:
        was = before.plan
        if dataclasses.replace(was, delta=plan.delta, budget=plan.budget, rules=plan.rules) == plan:
            reason = f"this race began with {delta * was.delta / plan.delta:g}; {_ADVICE}"
            raise InvalidInput("--delta", delta, reason)
    study = create_or_open(plan, storage, seed, advice=_ADVICE)
    study._heeds_remarks = False
    return study
