"""Parameters of policies: a class declares them, a plan states them, and kernels read them as numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from bestarm.kernel.state import ABSENT
from bestarm.validation import InvalidInput, parse


class NoOptions(NamedTuple):
    """The options of a policy that declares none."""


def checked_options(policy: str, kind: Any, given: Mapping[str, Any]) -> Any:
    """The options that a policy's class `kind` declares, as given, with defaults for the rest.

    Raises `InvalidInput` for an option that the policy does not have, or a value that it does not take.
    """
    for name in given:
        if name not in kind._fields:
            has = f"it has {', '.join(kind._fields)}" if kind._fields else "it has none"
            reason = f"policy {policy!r} has no such option; {has}"
            raise InvalidInput(f"options.{name}", given[name], reason, kind._fields)
    try:
        # Defaults are checked too, so that a float written as 1 is one.
        return parse(kind, {**kind._field_defaults, **given}, strict=True)
    except InvalidInput as error:
        complaints = [one.within("options", f"options.{one.sentence}") for one in error.complaints]
        raise InvalidInput.of(complaints, "; ".join(one.sentence for one in complaints)) from None


@functools.cache
def _texts(kind: Any) -> dict[str, tuple[str, ...]]:
    """The options that are texts, with all that each of them can be."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is Literal}
    return {name: get_args(hint) for name, hint in hints.items() if all(isinstance(one, str) for one in get_args(hint))}


def as_numbers(options: Any) -> Any:
    """The same named tuple with numbers alone: for a text, its place among the texts that the option can be."""
    kind: Any = type(options)
    places = {name: texts.index(getattr(options, name)) for name, texts in _texts(kind).items()}
    return options._replace(**places) if options else ABSENT


def from_numbers(kind: Any, numbers: Any) -> Any:
    """The inverse of `as_numbers`."""
    options = kind(*numbers)
    return options._replace(**{name: texts[getattr(options, name)] for name, texts in _texts(kind).items()})
