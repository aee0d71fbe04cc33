"""Projects: each study belongs to one, and a role can be limited to one."""

from __future__ import annotations

from bestarm.validation import InvalidInput

DEFAULT_PROJECT = "default"
"""The project of studies for which none is stated, and of all that were made before there were projects."""

LONGEST_PROJECT = 100

_SEPARATORS = "@/,="
"""What separates projects from other words, in roles and addresses."""


def check_project(name: object, field: str = "project") -> str:
    """The name of a project, as a user gives it."""
    if (
        not isinstance(name, str)
        or name != name.strip()
        or not 1 <= len(name) <= LONGEST_PROJECT
        or not name.isprintable()
        or any(sign in name for sign in _SEPARATORS)
    ):
        reason = f"must be text of 1 to {LONGEST_PROJECT} printable characters, none of them @ / , or ="
        reason += ", without spaces at its ends"
        raise InvalidInput(field, name, reason)
    return name
