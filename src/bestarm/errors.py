"""What a user gave and cannot be accepted: a sentence, and the field, value, reason and choices it is made of."""

from __future__ import annotations

import copyreg
import dataclasses
import enum
from collections.abc import Iterable
from typing import Any, ClassVar, Self, overload


class Unstated(enum.Enum):
    """Stands for a value that was not given, or that is not repeated."""

    UNSTATED = "unstated"

    def __repr__(self) -> str:
        return self.name


UNSTATED = Unstated.UNSTATED


@dataclasses.dataclass(frozen=True)
class Complaint:
    """One thing that cannot be accepted: the field, what was given for it, why it will not do, and what would."""

    sentence: str
    """All of it, as people are shown it."""
    field: str | None = None
    value: object = UNSTATED
    reason: str = ""
    choices: tuple[str, ...] = ()

    def within(self, path: str, sentence: str) -> Complaint:
        """The same of a field inside of another."""
        inner = self.field or ""
        dot = "." if path and inner and not inner.startswith("[") else ""
        return dataclasses.replace(self, sentence=sentence, field=f"{path}{dot}{inner}" or None)

    def portable(self) -> Complaint:
        """The same with its value only if that is plain data, which every process can read."""
        is_plain = self.value is None or isinstance(self.value, str | int | float)
        return self if is_plain else dataclasses.replace(self, value=UNSTATED)


class InvalidInput(ValueError):
    """What a user gave cannot be accepted. The message names the field, the value and what is accepted.

    Made of a field, its value, the reason and perhaps the choices there are; or of a whole sentence, if no field is at
    fault. `shown` is the value as the message has it, if not as Python writes it; `sentence` is another message.

    >>> error = InvalidInput("delta", 2, "must lie strictly between 0 and 1")
    >>> print(error)
    delta = 2: must lie strictly between 0 and 1
    >>> error.field, error.value, error.reason
    ('delta', 2, 'must lie strictly between 0 and 1')
    """

    kind: ClassVar[str] = "invalid"
    """Which mistake it is, for programs; every class of mistakes has its own."""

    complaints: tuple[Complaint, ...]
    """Everything that is wrong: mostly one thing."""

    @overload
    def __init__(self, sentence: str = "", /) -> None: ...
    @overload
    def __init__(
        self,
        field: str,
        value: object,
        reason: str,
        choices: Iterable[str] = (),
        *,
        shown: str | None = None,
        sentence: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        field: str = "",
        value: object = UNSTATED,
        reason: str | None = None,
        choices: Iterable[str] = (),
        *,
        shown: str | None = None,
        sentence: str | None = None,
    ) -> None:
        if reason is None:
            complaint = Complaint(str(field), reason=str(field))
        else:
            if sentence is None:
                given = "" if value is UNSTATED else f" = {repr(value) if shown is None else shown}"
                sentence = f"{field}{given}: {reason}"
            complaint = Complaint(sentence, field, value, reason, tuple(choices))
        super().__init__(complaint.sentence)
        self.complaints = (complaint,)

    @classmethod
    def of(cls, complaints: Iterable[Complaint], sentence: str) -> Self:
        """Combine several complaints into one sentence."""
        error = cls.__new__(cls, sentence)
        error.complaints = tuple(complaints)
        return error

    def about(self, where: str) -> InvalidInput:
        """The same, said of something that has a name, such as a file."""
        return InvalidInput.of(self.complaints, f"{where}: {self}")

    @property
    def field(self) -> str | None:
        """The field at fault, the first if there are several."""
        return self.complaints[0].field

    @property
    def value(self) -> object:
        """What was given for it; `UNSTATED` if nothing was, or if it must not be repeated."""
        return self.complaints[0].value

    @property
    def reason(self) -> str:
        """Why it cannot be accepted, without a word on the field."""
        return self.complaints[0].reason

    @property
    def choices(self) -> tuple[str, ...]:
        """What could have been given, where that can be listed."""
        return self.complaints[0].choices

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.__dict__ | {"complaints": tuple(complaint.portable() for complaint in self.complaints)}
        # Not through `__init__`: what a class is made with differs, and the sentence is made already.
        return copyreg.__newobj__, (type(self), *self.args), state  # type: ignore[attr-defined]


class NotFound(InvalidInput):
    """There is nothing of that name or number."""

    kind = "not found"
