"""The OpenAPI description of the service, with what a study file may hold."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from bestarm.noises import noise_schema
from bestarm.problem import Plan
from bestarm.web.roles import ANYBODY, demand

_TOKENS = (
    "A token of the service. Each operation lists the role that it needs: read, work or manage, each of which allows "
    "what those before it do. A role can be limited to projects; what concerns all studies takes it in all of them."
)


def _plan_schemas() -> dict[str, Any]:
    """A study file, in the short forms that people write, and its parts. Their names begin with "Plan"."""
    plan = TypeAdapter(Plan).json_schema(ref_template="#/components/schemas/Plan{model}")
    parts = {f"Plan{name}": part for name, part in plan.pop("$defs").items()} | {"Plan": plan}
    for name, part in parts.items():
        part["title"] = name
        part["description"] = part["description"].partition("\n\n>>>")[0]
        for field, schema in part["properties"].items():
            if field == "noise":
                part["properties"][field] = {"$ref": "#/components/schemas/PlanNoise"}
                part["required"].append(field)
            elif "$ref" in schema:
                # Python takes None for what is not stated; a study file leaves it out.
                schema.pop("default", None)
    return parts | {"PlanNoise": noise_schema()}


def describe(app: FastAPI) -> dict[str, Any]:
    """The description, made once."""
    if app.openapi_schema is None:
        whole = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = whole["components"]["schemas"]
        schemas |= _plan_schemas()
        for name in ("NewStudy", "StudyStatus"):
            schemas[name]["properties"]["plan"] = {"$ref": "#/components/schemas/Plan"}
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        whole["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": _TOKENS}}
        for path, operations in whole["paths"].items():
            for method, operation in operations.items():
                role, _ = demand([method.upper()], path)
                # Either: a service on loopback may be without tokens.
                operation["security"] = [] if role == ANYBODY else [{"token": [role]}, {}]
        app.openapi_schema = whole
    return app.openapi_schema
