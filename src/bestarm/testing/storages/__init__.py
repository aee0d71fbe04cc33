"""What every storage must do. Run each of `STORAGE_CHECKS` on your own:

@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_my_storage(check, tmp_path):
    check(lambda: MyStorage(tmp_path / "studies"))

Each call of the function opens the same database, which is empty at first. Checks close what they open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bestarm.testing.announcing import announced
from bestarm.testing.storages import (
    amending,
    archiving,
    arriving,
    giving,
    items,
    leases,
    reading,
    repeating,
    several,
    studies,
    telling,
    threads,
)
from bestarm.testing.storages.common import MakeStorage

__all__ = ["STORAGE_CHECKS", "MakeStorage"]

_FILES = (amending, archiving, arriving, giving, items, leases, reading, repeating, several, studies, telling, threads)
STORAGE_CHECKS: Sequence[Callable[[MakeStorage], None]] = [check for file in _FILES for check in announced(vars(file))]
