"""How observations scatter around a stream's mean. A noise is one file, found by name; there is no list to edit."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, GetJsonSchemaHandler, InstanceOf, PlainSerializer

from bestarm.noises.base import NoiseModel, OnItems
from bestarm.noises.bounded import Bounded
from bestarm.noises.registry import all_noises, find_noise
from bestarm.noises.sets.bounded import BoundedSet
from bestarm.noises.sets.gaussian import GaussianSet
from bestarm.noises.sets.judged import JudgedSet
from bestarm.noises.sets.symmetric import SymmetricSet
from bestarm.validation import NotStated, parse

OnItems.bounded = Bounded
OnItems.bounded_set = BoundedSet
OnItems.gaussian_set = GaussianSet
OnItems.symmetric_set = SymmetricSet
OnItems.judged_set = JudgedSet


def _accepted() -> str:
    """All noises, as a study file states them."""
    forms = [noise.in_a_file() for noise in all_noises().values()]
    return f"must be {', '.join(forms[:-1])} or {forms[-1]}"


def noises_in_words() -> str:
    """All noises, a line for each: how to state it, and when to choose it."""
    lines = []
    for noise in all_noises().values():
        only = ", for constraints only" if noise.is_share else ""
        when = noise.about[:1].lower() + noise.about[1:]
        lines.append(f"{noise.in_python()}, in a study file {noise.in_a_file()}{only}: {when}")
    return "\n  ".join(lines)


def _read(data: object) -> Any:
    """The noise that a study file describes."""
    if isinstance(data, NoiseModel):
        return data
    if data is None:
        raise NotStated(f"must be stated: how single results scatter. Choose one of these:\n  {noises_in_words()}")
    if isinstance(data, type) and issubclass(data, NoiseModel):
        raise ValueError(f"must be made first: {data.in_python()}")
    name, numbers = data, None
    if isinstance(data, dict) and len(data) == 1:
        [(name, numbers)] = data.items()
    noise = find_noise(name) if isinstance(name, str) else None
    if noise is not None:
        fields = list(noise.stated)
        if isinstance(data, str) and not fields:
            return noise()
        if isinstance(data, str):
            raise ValueError(noise.if_unstated or f"must be stated with its numbers: {noise.in_a_file()}")
        if isinstance(data, dict) and len(fields) == 1:
            return parse(noise, {fields[0]: numbers})
        if isinstance(data, dict) and fields and isinstance(numbers, list | tuple) and len(numbers) == len(fields):
            return parse(noise, dict(zip(fields, numbers, strict=True)))
    raise ValueError(_accepted())


def noise_choices() -> list[dict[str, Any]]:
    """The noises that a form offers: name, label, a sentence on each, whether it is for constraints only, and the
    numbers to state, in order.

    In a study file a noise without numbers is written as its name, one with a single number as { name = number }, and
    one with several as { name = [numbers] }.
    """
    return [noise.choice() for noise in all_noises().values()]


def noise_schema() -> dict[str, Any]:
    """What a study file may say about a noise, as JSON schema. Exactly one of its forms applies."""
    noises = all_noises().values()
    named = {"title": "NamedNoise", "type": "string", "enum": [noise.name for noise in noises if not noise.stated]}
    return {
        "title": "Noise",
        "description": "How single measurements scatter.",
        "oneOf": [named, *(noise.file_schema() for noise in noises if noise.stated)],
    }


class _FileSchema:
    """Describes a noise as study files have it, plug-ins included."""

    def __get_pydantic_json_schema__(self, _: object, __: GetJsonSchemaHandler) -> dict[str, Any]:
        return noise_schema()


Noise = Annotated[
    InstanceOf[NoiseModel], BeforeValidator(_read), PlainSerializer(lambda noise: noise.file_form()), _FileSchema()
]
"""One of the noises, also as a study file states it."""
