"""Checked values: one path of validation for Python, TOML, JSON and HTTP, with errors in the user's words."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import numbers
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as _pydantic_dataclass

# Imported from here by other modules.
from bestarm.errors import UNSTATED as UNSTATED
from bestarm.errors import Complaint as Complaint
from bestarm.errors import InvalidInput as InvalidInput
from bestarm.errors import NotFound as NotFound
from bestarm.texts import LONGEST_QUOTE, listed, quoted

T = TypeVar("T")

LONGEST_NAME = 200

MOST_COMPLAINTS = 10
LONGEST_SENTENCE = 1000
"""The longest message about one invalid value, and the most values reported at once."""

LEAST, MOST = 1e-50, 1e50
"""The sizes of numbers that are accepted: products, squares and sums of them, and ratios, are finite numbers too."""
LEAST_PROBABILITY = 1e-100
LEAST_SHARE = 1e-6
MOST_TESTS = 10**12
"""Tests of a study. Tables of functions of their number go as far, and no study will."""


_GROUPED = re.compile(r"\s*[+-]?[0-9]{1,3}([.,'’ \u00a0][0-9]{3})+([.,][0-9]*)?\s*")

_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_WORDS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "string_type": "must be text",
    "dataclass_type": "must be a table of fields",
    "dict_type": "must be a table of fields",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "literal_error": "must be one of {expected}",
}


class NotStated(ValueError):
    """A required statement is missing. Its message says what to state, and follows the name of the field."""


def _is_unstated(error: Any) -> bool:
    return isinstance(error.get("ctx", {}).get("error"), NotStated)


def _path(location: Iterable[str | int]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            # Fields of our own have such names; others may hold anything.
            name = part if part.replace(" ", "_").isidentifier() and len(part) <= LONGEST_QUOTE else quoted(part)
            path += f".{name}" if path else name
    return path


def _reason(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    words: str = _WORDS.get(error["type"], error["msg"])
    return words.format(**error.get("ctx", {}))


def _fields(kind: Any) -> dict[str, Any]:
    """The fields of the checked classes that a type is made of, with their types."""
    if (own := getattr(kind, "__pydantic_fields__", None)) is not None:
        return {name: field.annotation for name, field in own.items()}
    return {name: inner for part in get_args(kind) for name, inner in _fields(part).items()}


def _unknown(kind: Any, location: Sequence[str | int]) -> str:
    """What to say of a field that its table does not have: the tables that have it, or the field that is like it."""
    import difflib  # rarely needed

    *path, key = location
    top = own = _fields(kind)
    for part in path:
        own = own if isinstance(part, int) else _fields(own.get(part))
    places = ["at the top"] if key in top else []
    places += [f"in {name}" for name, inner in top.items() if key in _fields(inner)]
    if places:
        return f"is not a known field here, but {listed(places)}"
    near = difflib.get_close_matches(str(key).lower(), own, 1, 0.7)
    return f"is not a known field{f'; did you mean {near[0]!r}?' if near else ''}"


def _sentence(error: Any, reason: str) -> str:
    location = _path(error["loc"])
    if not location:
        return _shortened(reason)
    if _is_unstated(error):
        return f"{location} {reason}"
    if error["type"].startswith("missing"):
        return _shortened(f"{location} {reason}")
    return _shortened(f"{location} = {quoted(error['input'])}: {reason}")


def _complaints(error: Any) -> list[Complaint]:
    """What one of pydantic's errors says: one thing, or several if something inside complained of several."""
    cause, location = error.get("ctx", {}).get("error"), _path(error["loc"])
    if isinstance(cause, InvalidInput):
        return [inner.within(location, _sentence(error, inner.sentence)) for inner in cause.complaints]
    reason = _reason(error)
    if _is_unstated(error):
        return [Complaint(_sentence(error, reason), location or None, UNSTATED, reason)]
    given = UNSTATED if error["type"].startswith("missing") or not location else error["input"]
    return [Complaint(_sentence(error, reason), location or None, given, _shortened(reason))]


def refusal(error: ValidationError, kind: Any) -> InvalidInput:
    """All complaints of a validation error of this type, in the user's words."""
    errors = error.errors(include_url=False)
    # What there is to choose takes several lines. They are said once, at the end.
    told = sorted(errors[:MOST_COMPLAINTS], key=_is_unstated)
    for item in told:
        if item["type"] in _UNKNOWN:
            item["msg"] = _unknown(kind, item["loc"])
    sentences = [_sentence(item, _reason(item)) for item in told]
    for place, item in enumerate(told[:-1]):
        if _is_unstated(item):
            sentences[place] = f"{_path(item['loc'])} must be stated"
    rest = len(errors) - len(told)
    sentence = "; ".join([*sentences, *([f"and {rest:,} more"] if rest else [])])
    return InvalidInput.of([complaint for item in told for complaint in _complaints(item)], sentence)


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= LONGEST_SENTENCE else f"{sentence[:LONGEST_SENTENCE]}…"


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass that checks its fields when it is made and refuses unknown ones."""
    config = ConfigDict(extra="forbid")
    checked: Any = _pydantic_dataclass(frozen=True, config=config)(cls)
    make = checked.__init__
    names = [field.name for field in dataclasses.fields(checked) if not field.kw_only]

    @functools.wraps(make)
    def init(self: T, *args: Any, **fields: Any) -> None:
        if len(args) > len(names):
            raise InvalidInput(f"{cls.__name__} takes {', '.join(names) or 'no fields'}; {len(args)} values were given")
        # By name, so that a complaint can name the field.
        positional = dict(zip(names, args, strict=False))
        if twice := sorted(positional.keys() & fields.keys()):
            given = fields[twice[0]]
            raise InvalidInput(twice[0], given, "is given twice", shown=quoted(given))
        try:
            make(self, **positional, **fields)
        except ValidationError as error:
            raise refusal(error, checked) from None

    checked.__init__ = init
    wrapped: type[T] = checked
    return wrapped


def parse(kind: Any, data: object, *, strict: bool | None = None) -> Any:
    """Make a checked value from plain data (dictionaries, lists, numbers, text). If `strict`, True is no number, and a
    text is none either, even where a type does not check that itself."""
    try:
        return TypeAdapter(kind).validate_python(data, strict=strict)
    except ValidationError as error:
        raise refusal(error, kind) from None


def dump(instance: object) -> Any:
    """Plain data from a checked value: what `parse` takes, less what is absent."""
    return TypeAdapter(type(instance)).dump_python(instance, mode="json", exclude_none=True)


def exact(number: float) -> str:
    """A number as a person would write it, with every digit that it has.

    >>> exact(10.0), exact(0.1), exact(1000000000.25)
    ('10', '0.1', '1000000000.25')
    """
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))


def is_boolean(data: object) -> bool:
    """Whether it is True or False, Python's own or NumPy's."""
    return isinstance(data, bool) or type(data).__name__ in ("bool", "bool_")


def finite_number(data: object) -> float:
    """A finite number, and nothing that merely looks like one."""
    if isinstance(data, bool) or not isinstance(data, numbers.Real):
        is_grouped = isinstance(data, str) and _GROUPED.fullmatch(data) is not None
        raise ValueError(f"must be a number{', without thousands separators, as in 1234.5' if is_grouped else ''}")
    try:
        number = float(data)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("must be a finite number")
    return number


def moderate(number: float) -> float:
    """A number of a size that can be computed with."""
    if not -MOST <= number <= MOST:
        raise ValueError(f"must lie between {-MOST:g} and {MOST:g}")
    return number


def _positive(number: float) -> float:
    if not number > 0.0:
        raise ValueError("must be a positive number")
    if not LEAST <= number <= MOST:
        raise ValueError(f"must lie between {LEAST:g} and {MOST:g}")
    return number


def _non_negative(number: float) -> float:
    if number < 0.0:
        raise ValueError("must not be negative")
    return moderate(number)


def _probability(number: float) -> float:
    if not 0.0 < number < 1.0:
        raise ValueError("must lie strictly between 0 and 1")
    if number < LEAST_PROBABILITY:
        raise ValueError(f"must be at least {LEAST_PROBABILITY:g}")
    return number


def _whole(number: float) -> int:
    if number != int(number) or not 0 <= number <= MOST_TESTS:
        raise ValueError("must be a whole number, 0 or more")
    return int(number)


def _share(number: float) -> float:
    if not 0.0 <= number < 1.0:
        raise ValueError("must be 0, or lie between 0 and 1")
    if 0.0 < number < LEAST_SHARE:
        raise ValueError(f"must be 0, or at least {LEAST_SHARE:g}")
    return number


def parse_name(data: object) -> str:
    """A name as people give it to arms, metrics and items."""
    if not isinstance(data, str):
        raise ValueError("must be text")
    if not data.strip():
        raise ValueError("must not be empty")
    if data != data.strip():
        raise ValueError("must not begin or end with white space")
    if len(data) > LONGEST_NAME:
        raise ValueError(f"must have at most {LONGEST_NAME} characters, not {len(data)}")
    # What is printable has none of them, and is known at once.
    if not data.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in data):
        raise ValueError("must not contain control characters such as line breaks, or unpaired surrogates")
    return data


def _after(check: Callable[[float], float]) -> BeforeValidator:
    return BeforeValidator(lambda data: check(finite_number(data)))


def _range(data: object) -> object:
    """A guess: a number, or two numbers between which it lies."""
    if not isinstance(data, list | tuple):
        return moderate(finite_number(data))
    if len(data) != 2:
        raise ValueError("must be a number or a range [LOW, HIGH]")
    low, high = (moderate(finite_number(end)) for end in data)
    if not low <= high:
        raise ValueError("must be a range [LOW, HIGH] with LOW at most HIGH")
    return low, high


def _factor(data: object) -> object:
    """A positive number, or one by metric."""
    if not isinstance(data, Mapping):
        return _positive(finite_number(data))
    found = {}
    for name, number in data.items():
        try:
            found[parse_name(name)] = _positive(finite_number(number))
        except ValueError as error:
            raise InvalidInput(f"[{name!r}]", number, str(error)) from None
    return found


def _parameter(data: object) -> object:
    """A parameter of a policy: a number, true, false, or a word."""
    if is_boolean(data):
        return bool(data)
    if isinstance(data, numbers.Integral):
        return int(moderate(int(data)))
    return parse_name(data) if isinstance(data, str) else moderate(finite_number(data))


def not_text(reason: str) -> BeforeValidator:
    """Refuses a text, for a reason that quotes it."""

    def check(data: object) -> object:
        if isinstance(data, str):
            raise ValueError(reason.format(quoted(data)))
        return data

    return BeforeValidator(check)


def described(**limits: float | bool) -> Any:
    """What a description in JSON schema says of a type, besides its kind. The readers above refuse in better words."""
    return Field(json_schema_extra={**limits})


Guess = Annotated[float | tuple[float, float], BeforeValidator(_range)]
Factor = Annotated[float | dict[str, float], BeforeValidator(_factor)]
Number = Annotated[float, _after(moderate), described(minimum=-MOST, maximum=MOST)]
Positive = Annotated[float, _after(_positive), described(minimum=LEAST, maximum=MOST)]
NonNegative = Annotated[float, _after(_non_negative), described(minimum=0, maximum=MOST)]
WholeNumber = Annotated[
    int, BeforeValidator(lambda data: _whole(finite_number(data))), described(minimum=0, maximum=MOST_TESTS)
]
Share = Annotated[float, _after(_share), described(minimum=0, exclusiveMaximum=1)]
Probability = Annotated[float, _after(_probability), described(minimum=LEAST_PROBABILITY, exclusiveMaximum=1)]
Name = Annotated[str, BeforeValidator(parse_name), described(minLength=1, maxLength=LONGEST_NAME)]
Parameter = Annotated[bool | int | float | str, BeforeValidator(_parameter)]


def pandas() -> Any:
    """The package pandas, for data frames."""
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise InvalidInput("a data frame needs pandas: pip install 'bestarm[frame]'") from None
