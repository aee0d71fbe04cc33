"""Workflows and actions acted out on this machine: what their `run:` says, in the same shells and with the same files.

Of the services it knows what the examples use. Steps that use a published action are only noted down.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"], "": ["bash", "-e"]}
"""How a script is started, where a shell is named, and where none is."""
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_WORD = re.compile(r"'[^']*'|[\w.-]+(?:\(\))?|&&|\|\||[!=]=|\s+|[()]")


def read(file: Path) -> Any:
    # YAML 1.1 takes the key `on` for "true"; the service does not.
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in data.items()}


@dataclass
class Acted:
    """What a job or action came to."""

    failed: bool = False
    log: str = ""
    summary: str = ""
    used: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The published actions, and what was given to them."""
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass
class Stage:
    """Where steps are acted out: a folder, the variables, and what expressions may name."""

    folder: Path
    environment: dict[str, str]
    context: dict[str, Any]
    own_actions: Mapping[str, Path] = field(default_factory=dict)
    acted: Acted = field(default_factory=Acted)

    def job(self, job: Mapping[str, Any]) -> Acted:
        self.environment |= {name: self.filled(value) for name, value in job.get("env", {}).items()}
        return self.steps(job["steps"])

    def steps(self, steps: list[Mapping[str, Any]]) -> Acted:
        found: dict[str, Any] = {}
        self.context["steps"] = found
        for step in steps:
            if not self.is_due(step):
                continue
            outputs, ok = self._used(step) if "uses" in step else self._run(step)
            self.acted.failed |= not ok
            if "id" in step:
                found[step["id"]] = {"outputs": outputs}
        return self.acted

    def is_due(self, step: Mapping[str, Any]) -> bool:
        condition = str(step.get("if", ""))
        if self.acted.failed and "always()" not in condition:
            return False
        return bool(self.value(condition)) if condition else True

    def filled(self, text: object) -> str:
        """The text with what its expressions stand for."""
        return _EXPRESSION.sub(lambda found: str(self.value(found[1])), str(text))

    def value(self, expression: str) -> Any:
        words = _WORD.findall(expression)
        assert "".join(words) == expression, f"an expression that is not known here: {expression}"
        signs: dict[str, Callable[[str], str]] = {"&&": lambda _: " and ", "||": lambda _: " or "}
        written = [
            signs[word](word)
            if word in signs
            else word
            if word.isspace() or word in ("==", "!=", "(", ")") or word.startswith("'")
            else repr(True)
            if word == "always()"
            else repr(self._named(word))
            for word in words
        ]
        return eval("".join(written).strip(), {})

    def _named(self, name: str) -> Any:
        """What a name stands for; empty if there is nothing of this name, as there."""
        found: Any = self.context
        for part in name.split("."):
            found = found.get(part, "") if isinstance(found, Mapping) else ""
        return found

    def _used(self, step: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
        given = {name: self.filled(value) for name, value in step.get("with", {}).items()}
        action = self.own_actions.get(step["uses"])
        if action is None:
            self.acted.used.append((step["uses"], given))
            return {}, True
        data = read(action)
        unknown = given.keys() - data["inputs"].keys()
        lacking = [name for name, one in data["inputs"].items() if one.get("required") and name not in given]
        assert (unknown, lacking) == (set(), [])
        inputs = {name: given.get(name, one.get("default", "")) for name, one in data["inputs"].items()}
        github = self.context.get("github", {}) | {"action_path": str(action.parent)}
        inside = Stage(self.folder, self.environment, {"inputs": inputs, "github": github}, {}, Acted())
        acted = inside.steps(data["runs"]["steps"])
        outputs = {name: inside.filled(one["value"]) for name, one in data["outputs"].items()}
        self.acted.log += acted.log
        self.acted.summary += acted.summary
        self.acted.used += acted.used
        self.acted.outputs = outputs
        return outputs, not acted.failed

    def _run(self, step: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
        # What others say must not become a part of the script.
        assert "${{" not in step["run"]
        names = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH")
        files = {name: self.folder.parent / name.lower() for name in names}
        for file in files.values():
            file.write_text("")
        own = {name: self.filled(value) for name, value in step.get("env", {}).items()}
        script = self.folder.parent / "script.sh"
        script.write_text(step["run"])
        ended = subprocess.run(
            [*SHELLS[step.get("shell", "")], script],
            cwd=self.folder,
            env=self.environment | own | {name: str(file) for name, file in files.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.acted.log += ended.stdout
        self.acted.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        assert files["GITHUB_ENV"].read_text() == ""
        for line in files["GITHUB_PATH"].read_text().splitlines():
            self.environment["PATH"] = f"{line}{os.pathsep}{self.environment['PATH']}"
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        return dict(line.split("=", 1) for line in lines), ended.returncode == 0
