"""The claims of docs/security.md: each names a test, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

from bestarm.testing.storages import STORAGE_CHECKS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_claim_has_its_test() -> None:
    there = set(
        re.findall(r"^def (test_\w+)", "\n".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py")), re.M)
    )
    checks = {check.__name__ for check in STORAGE_CHECKS}
    claims = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| claim", "| ---"))]
    assert len(claims) > 20
    for claim in claims:
        _, _, tests, _ = claim.split("|")
        named = re.findall(r"`(test_\w+)(?:\[(check_\w+)\])?`", tests)
        assert named, f"no test is named for: {claim}"
        for test, check in named:
            assert test in there, f"{test} is not there"
            assert not check or check in checks, f"{check} is not there"
