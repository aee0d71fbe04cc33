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
    arriving,
    items,
    leases,
    projects,
    reading,
    repeating,
    several,
    studies,
    telling,
)
from bestarm.testing.storages.common import MakeStorage, on_new_study

__all__ = ["STORAGE_CHECKS", "MakeStorage"]

_FILES = (amending, arriving, items, leases, projects, reading, repeating, several, studies, telling)
STORAGE_CHECKS: Sequence[Callable[[MakeStorage], None]] = [
    check for file in _FILES for check in announced(vars(file), on_new_study)
]
