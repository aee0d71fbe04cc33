"""Policies as commands name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bestarm.policies.base import Policy


def chosen_policy(text: str) -> str | type[Policy]:
    """A policy's name, or the class that FILE.py:CLASS names."""
    from bestarm.policies.from_file import load_policy, names_a_file

    return load_policy(text) if names_a_file(text) else text
