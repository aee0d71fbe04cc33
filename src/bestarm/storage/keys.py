"""Keys that callers make up, so that an action is carried out once."""

from __future__ import annotations

import uuid

from bestarm.texts import quoted
from bestarm.validation import InvalidInput

LONGEST_KEY = 200


def new_key() -> str:
    """A unique key."""
    return uuid.uuid4().hex


def check_key(key: object, field: str = "key") -> str:
    """A key as a user gives it."""
    if not isinstance(key, str) or not key or len(key) > LONGEST_KEY or not key.isprintable():
        raise InvalidInput(field, key, f"must be text of 1 to {LONGEST_KEY} printable characters", shown=quoted(key))
    return key
