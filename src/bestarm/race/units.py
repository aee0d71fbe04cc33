"""Times, sizes, shares and multiples as people write them: 150ms, 500MB, 1%, 1.02x."""

from __future__ import annotations

import math
import re

from bestarm.parsing import read_decimal
from bestarm.validation import InvalidInput

TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SIZES = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}

_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9.]*)\s*")


def read_time(field: str, text: str) -> float:
    """A time in seconds; a bare number is in seconds.

    >>> read_time("timeout", "150ms"), read_time("timeout", "2"), read_time("timeout", "1.5 min")
    (0.15, 2.0, 90.0)
    """
    return _read(field, text, TIMES, "a time such as 150ms, 2s or 1.5min")


def read_size(field: str, text: str) -> float:
    """A size in bytes; a bare number is in bytes. MB are 10^6 bytes, MiB are 2^20.

    >>> read_size("memory", "500MB"), read_size("memory", "1KiB"), read_size("memory", "12")
    (500000000.0, 1024.0, 12.0)
    """
    return _read(field, text, SIZES, "a size such as 500MB or 2GiB")


def read_share(field: str, text: str) -> float:
    """A share from 0 to 1, or in percent.

    >>> read_share("failures", "1%"), read_share("failures", "0.25")
    (0.01, 0.25)
    """
    share = _read(field, text, {"%": 0.01}, "a share such as 1% or 0.01")
    if not share < 1.0:
        raise InvalidInput(field, text, "must be less than 100%")
    return share


def read_multiple(text: str) -> float | None:
    """So many times the baseline; None if the text is something else.

    >>> read_multiple("1.02x"), read_multiple("2s")
    (1.02, None)
    """
    number = text.strip()
    if not number.endswith(("x", "×")):
        return None
    try:
        factor = read_decimal(number[:-1])
    except ValueError:
        return None
    return factor if 0.0 < factor < math.inf else None


def _read(field: str, text: str, units: dict[str, float], wanted: str) -> float:
    found = _QUANTITY.fullmatch(text)
    try:
        number = read_decimal(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if not found or not number > 0.0:
        raise InvalidInput(field, text, f"must be {wanted}")
    unit = found[2]
    if unit and unit not in units:
        raise InvalidInput(field, text, f"unknown unit {unit!r}; must be {wanted}", tuple(units))
    amount = number * units.get(unit, 1.0)
    if not 1e-12 <= amount <= 1e18:
        raise InvalidInput(field, text, "is too small or too large")
    return amount


def time_words(seconds: float) -> str:
    """A time with three digits, in the unit that fits.

    >>> time_words(0.0123), time_words(2.5), time_words(90.0), time_words(0.0)
    ('12.3 ms', '2.5 s', '90 s', '0 s')
    """
    for unit in ("s", "ms", "us"):
        if abs(seconds) >= TIMES[unit]:
            return f"{seconds / TIMES[unit]:.3g} {unit}" if abs(seconds) < 999.5 else f"{seconds:,.0f} s"
    return f"{seconds:.3g} s"


def size_words(size: float) -> str:
    """A size with three digits, in the unit that fits.

    >>> size_words(5e8), size_words(999.0), size_words(0.0)
    ('500 MB', '999 B', '0 B')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(size) >= SIZES[unit]:
            return f"{size / SIZES[unit]:.3g} {unit}" if abs(size) < 999.5e12 else f"{size / 1e12:,.0f} TB"
    return f"{size:.3g} B"
