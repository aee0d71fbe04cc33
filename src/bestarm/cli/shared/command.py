"""What makes a function a command of the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, ParamSpec

LIVE_STUDIES = "Live studies"
_LAST = 1000

PAIR = "NAME VALUE"
"""The metavar of an option that is followed by two words, or by NAME=VALUE, and may be repeated."""

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Command(Generic[P]):
    """A function that can be called from the command line, and how it is listed there."""

    body: Callable[P, None]
    panel: str | None = None
    """The heading that `bestarm --help` lists it under."""
    place: int = _LAST
    """Commands are listed in the order of these numbers."""
    takes_names: bool = False
    """Its arguments are names, which may begin with a dash, and values, which may be negative."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        self.body(*args, **kwargs)


def command(place: int, panel: str | None = None) -> Callable[[Callable[P, None]], Command[P]]:
    """Make the function below a command."""
    return lambda body: Command(body, panel=panel, place=place)


def study_command(place: int) -> Callable[[Callable[P, None]], Command[P]]:
    """Make the function below a command that works on live studies."""
    return lambda body: Command(body, panel=LIVE_STUDIES, place=place, takes_names=True)
