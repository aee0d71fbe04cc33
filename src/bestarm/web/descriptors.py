"""How many files and connections this process may have open, and so how many clients it can serve."""

from __future__ import annotations

import contextlib

RESERVE = 128
"""Descriptors that are not for clients: the database, temporary and static files, and connections just accepted."""

_IF_UNKNOWN = 1024


def available(wanted: int) -> int:
    """How many descriptors there are, after asking the system for so many."""
    try:
        import resource
    except ImportError:  # not a Unix
        return _IF_UNKNOWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(soft, wanted)


def room_for_clients(wanted: int) -> int:
    """How many connections can be open at once, `wanted` at most."""
    there = available(wanted + RESERVE)
    return min(wanted, max(there - RESERVE, there // 4, 1))
