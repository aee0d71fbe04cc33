"""What makes a function a command of the program."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec

LIVE_STUDIES = "Live studies"
_LAST = 1000

PAIR = "NAME VALUE"
"""The metavar of an option that is followed by two words, or by NAME=VALUE, and may be repeated."""

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Command(Generic[P]):
    """A function that can be called from the command line, and how it is listed there.

    An argument whose type is a data class stands for a group of options, one for each of its fields.
    """

    body: Callable[P, None]
    panel: str | None = None
    """The heading that `bestarm --help` lists it under."""
    place: int = _LAST
    """Commands are listed in the order of these numbers."""
    takes_names: bool = False
    """Its arguments are names, which may begin with a dash, and values, which may be negative."""
    instead: Mapping[str, str] | None = None
    """Its arguments are commands. By option of other programs that run commands: what to type instead."""
    configured: bool = False
    """Its options can be set in the environment and in a file, too: `bestarm.cli.app.configured`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        self.body(*args, **kwargs)


def flattened(body: Callable[..., None]) -> Any:
    """The function as Typer reads it: with every option of a group as an argument of its own."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(body, eval_str=True).parameters.values():
        group: Any = parameter.annotation
        if isinstance(group, type) and dataclasses.is_dataclass(group):
            groups[parameter.name] = group
            parameters += inspect.signature(group, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        body(**given)

    # The lines of a paragraph are joined, since a terminal has lines of its own. \b is click's mark to leave them.
    parts = inspect.cleandoc(body.__doc__ or "").split("\n\n")
    call.__doc__ = "\n\n".join(part if "\b" in part else " ".join(part.split()) for part in parts)
    signature = inspect.Signature([one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters])
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def command(
    place: int, panel: str | None = None, instead: Mapping[str, str] | None = None, *, configured: bool = False
) -> Callable[[Callable[P, None]], Command[P]]:
    """Make the function below a command."""
    return lambda body: Command(body, panel=panel, place=place, instead=instead, configured=configured)


def study_command(place: int) -> Callable[[Callable[P, None]], Command[P]]:
    """Make the function below a command that works on live studies."""
    return lambda body: Command(body, panel=LIVE_STUDIES, place=place, takes_names=True)
