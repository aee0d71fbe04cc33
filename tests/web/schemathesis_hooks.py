"""A check for schemathesis, which loads this file: what the description allows is never refused as malformed.

Its own check, that such requests are accepted, cannot hold of requests about names, numbers and tests of a study: the
study may have others.
"""

from __future__ import annotations

from typing import Any

import schemathesis

from bestarm.web.errors import MALFORMED


@schemathesis.check
def described_requests_are_well_formed(ctx: Any, response: Any, case: Any) -> None:
    if case.meta is not None and case.meta.generation.mode.is_positive and response.status_code in (400, 415, 422):
        error = response.json()["error"]
        assert error["kind"] != MALFORMED, f"a request as described was refused as malformed: {error['reason']}"
