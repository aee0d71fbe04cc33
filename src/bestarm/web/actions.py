"""The routes that change a study: ask, tell and the rest, each on behalf of the calling client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from bestarm.study.files.exchange import tell_results
from bestarm.study.heartbeat import LEASE
from bestarm.study.intake.new_results import GivenResult
from bestarm.study.record.checks import UnreadableStudy
from bestarm.study.study import Test
from bestarm.web import inputs, models
from bestarm.web.access import caller_of
from bestarm.web.common import CHANGE, Key, idempotency_key, takes_key
from bestarm.web.errors import Refusal, json_response
from bestarm.web.events import LiveUpdates
from bestarm.web.limits import Limits
from bestarm.web.metrics import Metrics
from bestarm.web.shared import SharedStudy
from bestarm.web.studies import ServedStudies

T = TypeVar("T")
Route = TypeVar("Route", bound=Callable[..., Any])

_CSV = {"requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string"}}}}}

Holder = Annotated[
    str | None, Query(max_length=200, description="The holder's name; by default the token's, and the address.")
]

CheckFar = Annotated[bool, Query(description="Whether to refuse values that need confirmation.")]


def add_actions(router: APIRouter, served: ServedStudies, live: LiveUpdates, limits: Limits, metrics: Metrics) -> None:
    """Put the routes into the router."""

    async def change(
        key: int,
        request: Request,
        holder: str | None,
        act: Callable[[SharedStudy], T],
        how: Callable[[int, Callable[[SharedStudy], T]], Awaitable[T]] = served.record,
    ) -> T:
        """Do something to a study on behalf of the caller."""
        address = request.client.host if request.client else "nowhere"
        repeated, caller = idempotency_key(request), caller_of(request.scope)

        def in_name(study: SharedStudy) -> T:
            with study.on_behalf_of(holder or f"{caller.name or 'somebody'}@{address}", repeated):
                return act(study)

        result = await how(key, in_name)
        live.nudge(key)
        return result

    def action(
        name: str,
        answer: type[BaseModel],
        *,
        keyed: bool = False,
        body: dict[str, Any] | None = None,
        tag: str = "tests",
    ) -> Callable[[Route], Route]:
        """A route of that name under a study; `keyed` if a repeat under the same key must be recognized."""
        extra = (body or {}) | (takes_key() if keyed else {})
        return router.post(
            f"/studies/{{study}}/{name}",
            response_model=answer,
            responses=CHANGE,
            openapi_extra=extra or None,
            tags=[tag],
        )

    def meant(one: SharedStudy, body: inputs.Correct | inputs.OneTest) -> Test | int:
        return one.meant(body.test, body.arm, body.metric, body.item)

    @action("ask", models.Asked, keyed=True)
    async def ask(study: Key, body: inputs.Ask, request: Request) -> Response:
        """Tests to make now. None and not done: wait for results that are out."""

        def act(one: SharedStudy) -> dict[str, Any]:
            tests, done = one.ask_or_done(body.n, body.days, body.lease)
            return {"tests": [one.test_data(test) for test in tests], "done": done}

        return json_response(await change(study, request, body.holder, act, served.decide))

    @action("tell", models.Told)
    async def tell(study: Key, body: inputs.Tell, request: Request) -> Response:
        """Record results of tests, all or none. The same value again has no effect.

        A test of several metrics is told all its values at once, as an object.
        """

        def act(one: SharedStudy) -> None:
            results = [(one.meant(told.test, told.arm, told.metric, told.item), told.value) for told in body.results]
            if len(results) == 1:
                one.tell(*results[0])
            else:
                one.tell_many(results)

        await change(study, request, body.holder, act)
        metrics.told(len(body.results))
        return json_response({"told": len(body.results)})

    @action("add", models.Added, keyed=True)
    async def add(study: Key, body: inputs.Add, request: Request) -> Response:
        """Record results that were measured without asking, all or none."""
        results = [_given(result) for result in body.results]
        ids = await change(
            study, request, body.holder, lambda one: one.add(results, source=body.source, ends=body.ends)
        )
        metrics.told(len(ids))
        return json_response({"ids": ids})

    @action("check-far", models.Nothing)
    async def check_far(study: Key, body: inputs.Typed, request: Request) -> Response:
        """Refuse, with the kind "far value", values that lie far outside those that their metric has shown.

        Nothing is recorded. It is for pages on which people type: ask them, and if the value is right send it as it is.
        """

        def act(one: SharedStudy) -> None:
            told = [(one.meant(row.test, row.arm, row.metric, row.item), row.value) for row in body.told]
            one.check_far(told, [_given(result) for result in body.given])

        await change(study, request, body.holder, act, served.decide)
        return json_response({})

    @action("csv", models.Told, body=_CSV, keyed=True)
    async def csv(study: Key, request: Request, holder: Holder = None, check_far: CheckFar = False) -> Response:
        """Record a CSV file of results, all or none.

        Its columns are test,value or arm,metric,value; or test or arm and a column for each metric. A study with items
        has a column item, too. A test without a value is passed over. With `check_far`, values that lie far outside
        those that their metric has shown are refused with the kind "far value".
        """
        data = await request.body()
        lines = data.count(b"\n") + data.count(b"\r")
        if lines > limits.csv_lines:
            raise Refusal(413, f"the file has too many lines: at most {limits.csv_lines:,} are accepted")
        recorded = await change(
            study,
            request,
            holder,
            lambda one: tell_results(one, data, "the file", check_far=check_far),
            served.do_slowly,
        )
        metrics.told(recorded.results)
        counts = {"known": recorded.known, "skipped": recorded.skipped}
        return json_response({"told": recorded.results, **{key: count for key, count in counts.items() if count}})

    @action("correct", models.Nothing)
    async def correct(study: Key, body: inputs.Correct, request: Request) -> Response:
        """Replace a result that was told wrongly; the old one stays in the log. Look for mistakes by a rule that does
        not depend on values: correcting only surprising values voids the guarantee."""
        await change(study, request, body.holder, lambda one: one.correct(meant(one, body), body.value, body.reason))
        return json_response({})

    @action("fail", models.Nothing, keyed=True)
    async def fail(study: Key, body: inputs.OneTest, request: Request) -> Response:
        """Say that an attempt failed, for a reason that has nothing to do with its result: it is made again."""
        await change(study, request, body.holder, lambda one: one.fail(meant(one, body), body.reason))
        return json_response({})

    @action("set-aside", models.Nothing, keyed=True)
    async def set_aside(study: Key, body: inputs.SetAside, request: Request) -> Response:
        """Say that the holder's attempt failed. The test is set aside until it is known what that counts as."""
        await change(
            study, request, body.holder, lambda one: one.set_aside(meant(one, body), body.reason, kind=body.kind)
        )
        return json_response({})

    @action("abandon", models.Nothing)
    async def abandon(study: Key, body: inputs.OneTest, request: Request) -> Response:
        """Give a test up, for a reason that has nothing to do with its result."""
        await change(study, request, body.holder, lambda one: one.abandon(meant(one, body), body.reason))
        return json_response({})

    @action("release", models.Released, keyed=True)
    async def release(study: Key, body: inputs.FreedTests, request: Request) -> Response:
        """Free unmeasured tests, yours or others': those named, or all that `held_by` holds."""
        held_by = body.held_by
        if held_by is not None and body.tests:
            raise Refusal(422, "held_by: give it, or the tests, and not both", "held_by")

        def act(one: SharedStudy) -> list[int]:
            if held_by is not None:
                return one.release_held_by(held_by)
            one.release(body.tests)
            return body.tests

        return json_response({"released": await change(study, request, body.holder, act)})

    @action("renew", models.Nothing)
    async def renew(study: Key, body: inputs.HeldTests, request: Request) -> Response:
        """A heartbeat: the holder promises the next one within `lease` seconds."""
        lease = LEASE if body.lease is None else body.lease
        await change(study, request, body.holder, lambda one: one.renew(body.tests, lease))
        return json_response({})

    @action("extend", models.Allowed, keyed=True, tag="studies")
    async def extend(study: Key, body: inputs.Extend, request: Request) -> Response:
        """Allow more tests than before, or tests of more cost. The guarantee stays as it is."""
        now = await change(study, request, body.holder, lambda one: one.extend(body.tests, body.cost), served.decide)
        return json_response({"tests": now.tests, "cost": now.cost})

    @action("arms/add", models.Nothing, keyed=True, tag="studies")
    async def add_arms(study: Key, body: inputs.NewArms, request: Request) -> Response:
        """Add arms. The study's plan must have a reserve for them."""
        await change(study, request, body.holder, lambda one: one.add_arms(body.arms), served.decide)
        return json_response({})

    @action("arms/retire", models.Nothing, keyed=True, tag="studies")
    async def retire(study: Key, body: inputs.RetiredArm, request: Request) -> Response:
        """Retire an arm: it is no longer measured, and the question is about the others."""
        await change(study, request, body.holder, lambda one: one.retire(body.arm, body.reason), served.decide)
        return json_response({})

    @action("archive", models.Nothing, tag="studies")
    async def archive(study: Key, body: Annotated[inputs.Archive, Body()], request: Request) -> Response:
        """Put the study away: it can be read and not changed."""
        try:
            await change(study, request, None, lambda one: one.archive(undo=body.undo), served.decide)
        except UnreadableStudy:
            # A study that cannot be read can still be archived.
            await served.do(lambda: served.storage.archive(study, "service", undo=body.undo))
            live.nudge(study)
        return json_response({})


def _given(result: inputs.NewResult | inputs.NewResults) -> GivenResult:
    """A result measured without asking, as a study takes it."""
    item: tuple[()] | tuple[str | int] = () if result.item is None else (result.item,)
    if isinstance(result, inputs.NewResults):
        return (result.arm, result.values, *item)
    return (result.arm, result.metric, result.value, *item)
