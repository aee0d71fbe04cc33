"""The OpenAPI description of the service, with what a study file may hold."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from bestarm.noises import noise_choices
from bestarm.plan import Plan
from bestarm.validation import LONGEST_NAME

_NUMBER = {"type": "number"}


def _only(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


_NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_NAMED = ("name", "metric", "policy", "bound")
_LIMITS = {
    "delta": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "tolerance": {"minimum": 0},
    "slack": {"minimum": 0},
}


def _noise_schema(described: list[dict[str, Any]]) -> dict[str, Any]:
    """The noises that there are, in the short forms that people write; `described` is what pydantic knows of them."""

    def number(choice: dict[str, Any]) -> dict[str, Any]:
        name = choice["numbers"][0]["name"]
        for one in described:
            if [*one["properties"]] == [name]:
                return {key: part for key, part in one["properties"][name].items() if key != "title"}
        return _NUMBER

    def numbers(count: int) -> dict[str, Any]:
        return {"type": "array", "items": _NUMBER, "minItems": count, "maxItems": count}

    choices = noise_choices()
    bare = [choice["name"] for choice in choices if not choice["numbers"]]
    stated = [
        _only(choice["name"], number(choice) if count == 1 else numbers(count))
        for choice in choices
        if (count := len(choice["numbers"]))
    ]
    forms = [*([{"type": "string", "enum": bare}] if bare else []), *stated]
    return {"title": "Noise", "description": "How single measurements scatter.", "anyOf": forms}


def _plan_schemas() -> dict[str, Any]:
    """A study file, in the short forms that people write; pydantic describes only what it makes of them."""
    plan = TypeAdapter(Plan).json_schema(ref_template="#/components/schemas/Plan{model}")
    parts = {f"Plan{name}": part for name, part in plan.pop("$defs").items()}
    noises = [parts.pop(name) for name in _references(parts["PlanObjective"]["properties"]["noise"])]
    for part in [plan, *parts.values()]:
        part["description"] = part["description"].partition("\n\n>>>")[0]
        for field, schema in part["properties"].items():
            schema |= _LIMITS.get(field, {}) | (_NAME if field in _NAMED else {})
            if field == "noise":
                part["properties"][field] = {"$ref": "#/components/schemas/PlanNoise"}
    plan["properties"]["arms"] |= {"items": {"anyOf": [_NAME, {"$ref": "#/components/schemas/PlanArm"}]}, "minItems": 1}
    return parts | {"Plan": plan, "PlanNoise": _noise_schema(noises)}


def _references(schema: dict[str, Any]) -> list[str]:
    """The names of the schemas that one refers to."""
    return [one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", []) if "$ref" in one]


def describe(app: FastAPI) -> dict[str, Any]:
    """The description, made once."""
    if app.openapi_schema is None:
        whole = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = whole["components"]["schemas"]
        schemas |= _plan_schemas()
        schemas["NewStudy"]["properties"]["plan"] = {"$ref": "#/components/schemas/Plan"}
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        whole["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        # Either: a service on loopback may be without a token.
        whole["security"] = [{"token": []}, {}]
        whole["paths"]["/api/health"]["get"]["security"] = []
        app.openapi_schema = whole
    return app.openapi_schema


def allowed_methods(app: FastAPI, path: str) -> str | None:
    """The methods that an address takes, as the header Allow lists them."""
    for template, operations in describe(app)["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return ", ".join(sorted(method.upper() for method in operations))
    return None
