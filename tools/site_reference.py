"""Pages of the documentation site that are made from the program itself: its commands, its HTTP routes, its names."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import typer

import bestarm
import bestarm.client
import bestarm.integrations
from bestarm.cli.app import app
from bestarm.web.app import create_app

GROUPS = {
    "What is asked": ("Problem", "Arm", "Objective", "Constraint", "maximize", "minimize", "at_most", "at_least"),
    "Comparisons with a baseline": ("duel", "both_orders", "Duel"),
    "What one test yields, and with what it is made": ("measurement", "Measurement", "Blocks"),
    "How measurements scatter": ("Symmetric", "Bounded", "Bernoulli", "Share", "Quantile", "Exact", "Gaussian"),
    "Plans and planning": ("Plan", "Budget", "forecast", "Forecast"),
    "Live studies": (
        "Study",
        "Test",
        "Status",
        "Answer",
        "Health",
        "HealthNote",
        "identify",
        "identify_async",
        "TRANSIENT",
        "plot",
    ),
    "Simulation": ("simulate", "Simulation", "Campaign", "CampaignResult", "instance", "instance_names"),
    "Theory": ("analyze", "Theory"),
    "Policies of your own": ("Policy", "Stop", "KernelPolicy", "Kernels", "conclusion"),
    "Errors": ("InvalidInput", "AlreadyTold", "FarValue", "StorageError", "OutcomeUnknown", "MeasurementFailed"),
}
FURTHER = {
    "Work with other packages": bestarm.integrations,
    "A service somewhere else": bestarm.client,
}
"""Modules with public names that are not in `bestarm` itself."""


def cell(text: str) -> str:
    """Text that stays in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


# ------------------------------------------------------------------------------------------------ command line


def command_page() -> str:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("bestarm", ["doctor"], resilient_parsing=True)
    lines = [
        "# The command line",
        "",
        cell(group.help or ""),
        "",
        "The exit status is 0, 2 for a mistake of the user's, and 1 for anything else. `bestarm COMMAND --help` says "
        "the same as this page, which is made from the program.",
        "",
    ]
    for name in group.list_commands(context):
        lines += _command(name, group.get_command(context, name))
    return "\n".join(lines)


def _command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=f"bestarm {name}")
    yield from (f"## bestarm {name}", "", (command.help or "").strip(), "")
    yield from ("```text", " ".join(["bestarm", name, *command.collect_usage_pieces(context)]), "```", "")
    rows = list(_parameters(command, context))
    if rows:
        yield from ("| argument or option | meaning |", "| --- | --- |", *rows, "")


def _parameters(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None or "--help" in parameter.opts:
            continue
        name, help_text = record
        yield f"| `{cell(name)}` | {cell(_plain(help_text))} |"


def _plain(text: str) -> str:
    """Without what a terminal would show in color, and with angle brackets that are no markup."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("<", "&lt;")


# ------------------------------------------------------------------------------------------------ HTTP


def http_page() -> str:
    """Every route with what it takes and gives, and every kind of data with its fields."""
    application = create_app(":memory:")
    whole = application.openapi()
    lines = [
        "# The HTTP interface",
        "",
        f"{whole['info']['description']} [The service](../service.md) says how it is started and used; a running one "
        "gives this description, from which the page is made, as `GET /openapi.json`.",
        "",
    ]
    errors: dict[str, str] = {}
    for path, operations in whole["paths"].items():
        for method, operation in operations.items():
            lines += _operation(method, path, operation, errors)
    lines += ["## Errors", "", "| status | meaning |", "| --- | --- |"]
    lines += [f"| {status} | {cell(meaning)} |" for status, meaning in sorted(errors.items())]
    lines += ["", "## Data", ""]
    for name, schema in sorted(whole["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines)


def _operation(method: str, path: str, operation: dict[str, Any], errors: dict[str, str]) -> Iterator[str]:
    """A route. What statuses mean that stand for errors is alike everywhere, and collected in `errors`."""
    yield from (f"## `{method.upper()} {path}`", "", operation.get("description") or operation.get("summary", ""), "")
    rows = [
        f"| `{each['name']}` | {each['in']} | {_kind(each.get('schema', {}))} | {cell(each.get('description', ''))} |"
        for each in operation.get("parameters", ())
    ]
    if rows:
        yield from ("| parameter | in | type | meaning |", "| --- | --- | --- | --- |", *rows, "")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield from (f"Body (`{media}`): {_kind(content.get('schema', {}))}", "")
    failures = []
    for status, response in operation["responses"].items():
        if status >= "400":
            failures.append(f"[{status}](#errors)")
            errors[status] = response["description"]
            continue
        contents = [
            f"{_kind(content['schema'])} (`{media}`)" if content.get("schema") else f"`{media}`"
            for media, content in response.get("content", {}).items()
        ]
        said = response["description"].replace("Successful Response", "Done.")
        yield from (f"Answer: {status}, {', '.join(contents) or said}", "")
    yield from (f"Errors: {', '.join(failures)}", "")


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "", (schema.get("description") or "").strip(), "")
    required = schema.get("required", ())
    rows = [
        f"| `{field}`{may} | {_kind(part)} | {cell(part.get('description', ''))} |"
        for field, part in schema.get("properties", {}).items()
        for may in ["" if field in required else " (optional)"]
    ]
    if rows:
        yield from ("| field | type | meaning |", "| --- | --- | --- |", *rows, "")
    else:
        yield from (_kind(schema), "")


def _kind(schema: dict[str, Any]) -> str:
    """A type in a few words, with a link to the data it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[choice])))
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object" and schema.get("properties"):
        return "{" + ", ".join(f"`{name}`: {_kind(part)}" for name, part in schema["properties"].items()) + "}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return str(kind)


# ------------------------------------------------------------------------------------------------ names


def names_page() -> str:
    """The public names, in groups, each from its docstring."""
    grouped = [name for names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(bestarm.__all__):
        raise ValueError(f"GROUPS must hold every public name once; see {sorted({*grouped} ^ {*bestarm.__all__})}")
    lines = ["# Python", "", "Nearly all of it is in one module: `import bestarm as ba`.", ""]
    for title, names in GROUPS.items():
        lines += [f"## {title}", "", *(line for name in names for line in _name(bestarm, name, "ba."))]
    for title, module in FURTHER.items():
        lines += [f"## {title}", "", f"In `{module.__name__}`.", ""]
        lines += [line for name in module.__all__ for line in _name(module, name, "")]
    return "\n".join(lines)


def _name(module: Any, name: str, prefix: str) -> list[str]:
    value = getattr(module, name)
    if inspect.ismodule(value):
        home = value.__name__
    elif hasattr(value, "__qualname__"):
        home = f"{value.__module__}.{value.__qualname__}"
    else:  # A constant does not know its module.
        home = next(f"{known.__name__}.{name}" for known in [*sys.modules.values()] if _defines(known, name, value))
    return [f"::: {home}", "    options:", f"      heading: {prefix}{name}", f"      toc_label: {name}", ""]


def _defines(module: Any, name: str, value: object) -> bool:
    """Whether a module of ours has this constant, and its annotation."""
    is_ours = getattr(module, "__name__", "").startswith("bestarm.")
    return is_ours and name in vars(module).get("__annotations__", {}) and vars(module)[name] is value
