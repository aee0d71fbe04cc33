"""What a study file says, in which order, and what is left out of it because it has no effect."""

from __future__ import annotations

from typing import Any

from bestarm.texts import ARM

FILE_ORDER = (
    *("name", "delta", "reserve", "policy", "options", "rules", "bound", "order", "budget", "goal", "top"),
    *("items", "attributes", "repeats", "item_spreads", "blocks", "block_spreads"),
    *("objective", "constraints", "measurements", "baseline", "arm_word", "arms"),
)
WITHOUT_EFFECT: dict[str, Any] = {
    "order": "issue",
    "options": {},
    "measurements": [],
    "repeats": False,
    "reserve": 0.0,
    "goal": "best",
    "top": 1,
    "arm_word": ARM,
}
WITHOUT_EFFECT_OF_ARMS = {"added": 0, "since": 0, "retired": False, "cost": 1.0}
