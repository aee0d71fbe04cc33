"""When calls may begin: so many a minute, and later after a service has asked for patience. By a clock of ours."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

import bestarm as ba
from bestarm.study.work.pace import TRANSIENT, Pace, check_transient, http_status, is_transient, retry_after

PACES = [0.5, 1, 7, 60, 599, 600, 601, 1200, 6000, 50_000]


def response_error(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://service")
    reply = httpx.Response(status, headers={name.replace("_", "-"): text for name, text in headers.items()})
    return httpx.HTTPStatusError(f"{status}", request=request, response=reply)


@pytest.mark.parametrize("per_minute", PACES)
def test_no_minute_has_more_calls_than_it_may(per_minute: float) -> None:
    now, rng, begun = 0.0, random.Random(str(per_minute)), list[float]()
    pace = Pace(per_minute, lambda: now)
    while now < 300.0 and len(begun) < 100_000:
        count = pace.room(rng.choice([1, 3, 32]))
        pace.begin(count)
        begun += [now] * count
        # Now and then there is nothing to begin for a long time. What was not begun is not made up for.
        now += rng.choice([pace.seconds(0.5), rng.random() * 100.0 / per_minute, 20.0 if rng.random() < 0.001 else 0.0])
    most = max(1.0, per_minute)
    for k, start in enumerate(begun):
        last = k + int(most)
        assert last >= len(begun) or begun[last] - start >= 60.0 * (1 - 1e-9), (k, start)


@pytest.mark.parametrize("per_minute", PACES)
def test_every_minute_has_as_many_calls_as_it_may(per_minute: float) -> None:
    now, begun = 0.0, 0
    pace = Pace(per_minute, lambda: now)
    while now < 600.0:
        count = pace.room(32)
        pace.begin(count)
        begun += count
        # A look at the right time finds room, but for the last digits of a number.
        now += pace.seconds(0.5) or 1e-6
    assert begun >= 10 * per_minute * 0.99


def test_pauses_grow_until_a_call_succeeds() -> None:
    now = 0.0
    pace = Pace(clock=lambda: now)

    def seconds_after(*errors: BaseException) -> float:
        for error in errors:
            pace.pause(error)
        assert pace.room(9) == (9 if pace.seconds(1e9) == 0.0 else 0)
        return pace.seconds(1e9)

    assert pace.room(32) == 32
    lengths = []
    for _ in range(8):
        # Many calls fail at once, and count once.
        lengths.append(seconds_after(*[ConnectionError()] * 32))
        now += lengths[-1]
        assert pace.room(32) == 32
    assert lengths == pytest.approx([0.1, 0.4, 1.6, 6.4, 25.6, 60.0, 60.0, 60.0])
    pace.go_on()
    assert seconds_after(ConnectionError()) == pytest.approx(0.1)
    # What the service says goes, within reason.
    assert seconds_after(response_error(429, retry_after="7")) == pytest.approx(7.0)
    assert seconds_after(response_error(503, retry_after="1e9")) == pytest.approx(600.0)


def test_what_libraries_raise() -> None:
    class Plain(Exception):
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    errors: list[tuple[BaseException, int | None, float, bool]] = [
        (response_error(429, retry_after="3"), 429, 3.0, True),
        (response_error(503), 503, 0.0, True),
        (response_error(404), 404, 0.0, False),
        (Plain(status_code=529), 529, 0.0, True),
        (Plain(status=500, headers={"Retry-After": "2"}), 500, 2.0, True),
        (Plain(code=502, headers={"retry-after": "soon"}), 502, 0.0, True),
        (Plain(code="rate_limit_exceeded", status_code=429), 429, 0.0, True),
        (Plain(code=7), None, 0.0, False),
        (ConnectionResetError(), None, 0.0, True),
        (TimeoutError(), None, 0.0, False),
    ]
    for error, status, seconds, transient in errors:
        found = http_status(error), retry_after(error), is_transient(error, TRANSIENT)
        assert found == (status, seconds, transient), error
    past = response_error(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
    assert retry_after(past) == 0.0
    assert retry_after(response_error(429, retry_after="Wed, 21 Oct 2115 07:28:00 GMT")) > 1e9


@pytest.mark.parametrize("wrong", [0, -1, True, "60", float("inf"), float("nan")])
def test_an_impossible_pace(wrong: Any) -> None:
    with pytest.raises(ba.InvalidInput, match=r"per_minute = .*: must be a positive number: how many calls may begin"):
        Pace(wrong)


@pytest.mark.parametrize("wrong", [429, "429", [42], ["429"], [True], [KeyboardInterrupt]])
def test_an_impossible_list_of_errors(wrong: Any) -> None:
    with pytest.raises(ba.InvalidInput, match=r"retry_on = .* such as \[429, 503, ConnectionError\]"):
        check_transient(wrong, 3)
    with pytest.raises(ba.InvalidInput, match="retries = 0: must be at least 1 beside retry_on"):
        check_transient([429], 0)
