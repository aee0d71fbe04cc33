"""`docs/architecture.md` names paths that exist, and the rooms that the linter knows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bestarm"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_path_exists() -> None:
    paths = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE))
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (PACKAGE / path).exists() and not (ROOT / path).exists()] == []


def test_the_map_lists_the_import_layers_in_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rooms = [
        room.removesuffix("/").removesuffix(".py") for room in re.findall(r"^\| `([\w/.]+)` \|", PAGE, re.MULTILINE)
    ]
    assert rooms == layers
