"""Results of several trials: k of n."""

from __future__ import annotations

import dataclasses
import operator
import re

from bestarm.kernel.packing import MOST_TRIALS, is_packed, pack, unpack
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

_WRITTEN = re.compile(r"\s*([0-9]+)\s*(?:/|of)\s*([0-9]+)\s*")


@dataclasses.dataclass(frozen=True)
class Share:
    """A result of `Bernoulli`: k of n trials of one test were 1, such as 3 failed requests of 105,800.

    It counts as n results, and as one test. The trials must be independent of each other, and n must not depend on
    them: it is known before the first, or follows from something else. Where the trials of a test share something that
    differs from test to test, such as a server that is slow that day, state `Blocks` or tell one value for each test.

    >>> print(Share(3, 105800))
    3/105800
    """

    k: int
    n: int

    def __post_init__(self) -> None:
        for field in ("k", "n"):
            number = getattr(self, field)
            try:
                # Also NumPy's, but not True.
                whole = None if isinstance(number, bool) else operator.index(number)
            except TypeError:
                whole = None
            if whole is None:
                raise InvalidInput(f"Share.{field}", number, "must be a whole number", shown=quoted(number))
            object.__setattr__(self, field, whole)
        if not 1 <= self.n <= MOST_TRIALS:
            raise InvalidInput("Share.n", self.n, f"must lie between 1 and {MOST_TRIALS:,}: how many trials there were")
        if not 0 <= self.k <= self.n:
            raise InvalidInput("Share.k", self.k, f"must lie between 0 and n = {self.n:,}")

    @property
    def mean(self) -> float:
        return self.k / self.n

    @property
    def packed(self) -> float:
        """The number that is recorded."""
        return pack(self.k, self.n)

    def __str__(self) -> str:
        return f"{self.k}/{self.n}"


def is_share(value: object) -> bool:
    """Whether a value is a share, as it is or as a text such as 3/105800 or 3 of 105800."""
    return isinstance(value, Share) or (isinstance(value, str) and _WRITTEN.fullmatch(value) is not None)


def as_share(value: object) -> Share:
    """
    >>> as_share("3 of 105800")
    Share(k=3, n=105800)
    """
    if isinstance(value, Share):
        return value
    found = _WRITTEN.fullmatch(str(value))
    assert found is not None
    if max(map(len, found.groups())) > 20:
        raise InvalidInput("value", value, f"must be of at most {MOST_TRIALS:,} trials", shown=quoted(value))
    return Share(int(found[1]), int(found[2]))


def as_told(value: float) -> float | str:
    """A recorded number as it was told: several trials as "k/n".

    >>> as_told(0.5), as_told(Share(3, 105800).packed)
    (0.5, '3/105800')
    """
    return str(Share(*unpack(value))) if is_packed(value) else value


def told_words(value: float, form: str = "g") -> str:
    """The same in words."""
    found = as_told(value)
    return found if isinstance(found, str) else repr(found) if form == "r" else f"{found:{form}}"


def as_number(value: float) -> float:
    """A recorded number as a mean: k/n of several trials."""
    if not is_packed(value):
        return value
    k, n = unpack(value)
    return k / n
