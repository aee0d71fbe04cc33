"""The OpenAPI description of the service, with what a study file may hold."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from bestarm.noises import noise_schema
from bestarm.problem import Plan
from bestarm.validation import LONGEST_NAME
from bestarm.web.roles import ANYBODY, needed

_TOKENS = (
    "A token of the service. Each operation lists the role that it needs: read, work or manage, each of which allows "
    "what those before it do."
)
_NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_NAMED = ("name", "metric", "policy", "bound")
_LIMITS = {
    "delta": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "tolerance": {"minimum": 0},
    "slack": {"minimum": 0},
}


def _plan_schemas() -> dict[str, Any]:
    """A study file, in the short forms that people write; pydantic describes only what it makes of them."""
    plan = TypeAdapter(Plan).json_schema(ref_template="#/components/schemas/Plan{model}")
    parts = {f"Plan{name}": part for name, part in plan.pop("$defs").items()}
    for part in [plan, *parts.values()]:
        part["description"] = part["description"].partition("\n\n>>>")[0]
        for field, schema in part["properties"].items():
            schema |= _LIMITS.get(field, {}) | (_NAME if field in _NAMED else {})
            if field in ("baseline", "per"):
                schema["anyOf"] = [_NAME, {"type": "null"}]
            if field == "noise":
                part["properties"][field] = {"$ref": "#/components/schemas/PlanNoise"}
                part["required"].append(field)
    parts["PlanMeasurement"]["properties"]["metrics"] |= {"items": _NAME, "minItems": 1, "uniqueItems": True}
    plan["properties"]["items"]["anyOf"] = [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True},
        {"type": "null"},
    ]
    plan["properties"]["arms"] |= {"items": {"anyOf": [_NAME, {"$ref": "#/components/schemas/PlanArm"}]}, "minItems": 1}
    return parts | {"Plan": plan, "PlanNoise": noise_schema()}


def describe(app: FastAPI) -> dict[str, Any]:
    """The description, made once."""
    if app.openapi_schema is None:
        whole = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = whole["components"]["schemas"]
        schemas |= _plan_schemas()
        schemas["NewStudy"]["properties"]["plan"] = {"$ref": "#/components/schemas/Plan"}
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        whole["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": _TOKENS}}
        for path, operations in whole["paths"].items():
            for method, operation in operations.items():
                role = needed([method.upper()], path)
                # Either: a service on loopback may be without tokens.
                operation["security"] = [] if role == ANYBODY else [{"token": [role]}, {}]
        app.openapi_schema = whole
    return app.openapi_schema
