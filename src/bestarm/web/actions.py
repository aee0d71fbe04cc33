"""The routes that change a study: ask, tell and the rest, each on behalf of the calling client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from bestarm.study.files.exchange import tell_results
from bestarm.study.heartbeat import LEASE
from bestarm.study.intake.new_results import GivenResult
from bestarm.study.record.checks import UnreadableStudy
from bestarm.web import inputs, models
from bestarm.web.access import caller_of
from bestarm.web.common import CHANGE, Key, idempotency_key, takes_key
from bestarm.web.errors import Refusal, json_response
from bestarm.web.events import LiveUpdates
from bestarm.web.limits import Limits
from bestarm.web.metrics import Metrics
from bestarm.web.shared import SharedStudy
from bestarm.web.studies import ServedStudies

Route = TypeVar("Route", bound=Callable[..., Any])
Act = TypeVar("Act", bound=Callable[..., Any])
How = Callable[[int, Callable[[SharedStudy], Any]], Awaitable[Any]]
"""How something is done with a study: `record`, `decide` or `do_slowly` of `ServedStudies`."""

_CSV: dict[str, Any] = {"requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string"}}}}}

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
        act: Callable[[SharedStudy], Any],
        how: How = served.record,
    ) -> Any:
        """Do something to a study on behalf of the caller."""
        address = request.client.host if request.client else "nowhere"
        repeated, caller = idempotency_key(request), caller_of(request.scope)

        def for_holder(study: SharedStudy) -> Any:
            with study.on_behalf_of(holder or f"{caller.name or 'somebody'}@{address}", repeated):
                return act(study)

        result = await how(key, for_holder)
        live.nudge(key)
        return result

    def post(
        name: str, answer: type[BaseModel] = models.Nothing, *, keyed: bool = False, tag: str = "tests", **extra: Any
    ) -> Callable[[Route], Route]:
        """A route of that name under a study; `keyed` if a repeat under the same key must be recognized."""
        return router.post(
            f"/studies/{{study}}/{name}",
            response_model=answer,
            responses=CHANGE,
            openapi_extra=extra | (takes_key() if keyed else {}) or None,
            tags=[tag],
        )

    def action(
        name: str, answer: type[BaseModel] = models.Nothing, how: How = served.record, **options: Any
    ) -> Callable[[Act], Act]:
        """Makes a route of a function of the study and the request's body. What it returns is sent as JSON."""

        def add(act: Act) -> Act:
            async def route(study: Key, body: Any, request: Request) -> Response:
                return json_response(await change(study, request, body.holder, lambda one: act(one, body), how) or {})

            route.__name__, route.__doc__ = act.__name__, act.__doc__
            route.__annotations__["body"] = get_type_hints(act)["body"]
            post(name, answer, **options)(route)
            return act

        return add

    @action("ask", models.Asked, served.decide, keyed=True)
    def ask(one: SharedStudy, body: inputs.Ask) -> dict[str, Any]:
        """Tests to make now. None and not done: wait for results that are out."""
        tests, done = one.ask_or_done(body.n, body.days, body.lease)
        return {"tests": [one.test_data(test) for test in tests], "done": done}

    @action("tell", models.Told)
    def tell(one: SharedStudy, body: inputs.Tell) -> dict[str, int]:
        """Record results of tests, all or none. The same value again has no effect.

        A test of several metrics is told all its values at once, as an object.
        """
        results = [(one.find_test(told), told.value) for told in body.results]
        if len(results) == 1:
            one.tell(*results[0])
        else:
            one.tell_many(results)
        metrics.told(len(results))
        return {"told": len(results)}

    @action("add", models.Added, keyed=True)
    def add(one: SharedStudy, body: inputs.Add) -> dict[str, list[int]]:
        """Record results that were measured without asking, all or none."""
        ids = one.add([_given(result) for result in body.results], source=body.source, ends=body.ends)
        metrics.told(len(ids))
        return {"ids": ids}

    @action("check-far", how=served.decide)
    def check_far(one: SharedStudy, body: inputs.Typed) -> None:
        """Refuse, with the kind "far value", values that lie far outside those that their metric has shown.

        Nothing is recorded. It is for pages on which people type: ask them, and if the value is right send it as it is.
        """
        told = [(one.find_test(row), row.value) for row in body.told]
        one.check_far(told, [_given(result) for result in body.given])

    @post("csv", models.Told, keyed=True, **_CSV)
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

    @action("correct")
    def correct(one: SharedStudy, body: inputs.Correct) -> None:
        """Replace a result that was told wrongly; the old one stays in the log. Look for mistakes by a rule that does
        not depend on values: correcting only surprising values voids the guarantee."""
        one.correct(one.find_test(body), body.value, body.reason)

    @action("fail", keyed=True)
    def fail(one: SharedStudy, body: inputs.OneTest) -> None:
        """Say that an attempt failed, for a reason that has nothing to do with its result: it is made again."""
        one.fail(one.find_test(body), body.reason)

    @action("set-aside", keyed=True)
    def set_aside(one: SharedStudy, body: inputs.SetAside) -> None:
        """Say that the holder's attempt failed. The test is set aside until it is known what that counts as."""
        one.set_aside(one.find_test(body), body.reason, kind=body.kind)

    @action("abandon")
    def abandon(one: SharedStudy, body: inputs.OneTest) -> None:
        """Give a test up, for a reason that has nothing to do with its result."""
        one.abandon(one.find_test(body), body.reason)

    @action("release", models.Released, keyed=True)
    def release(one: SharedStudy, body: inputs.FreedTests) -> dict[str, list[int]]:
        """Free unmeasured tests, yours or others': those named, or all that `held_by` holds."""
        if body.held_by is None:
            one.release(body.tests)
            return {"released": body.tests}
        if body.tests:
            raise Refusal(422, "held_by: give it, or the tests, and not both", "held_by")
        return {"released": one.release_held_by(body.held_by)}

    @action("renew")
    def renew(one: SharedStudy, body: inputs.HeldTests) -> None:
        """A heartbeat: the holder promises the next one within `lease` seconds."""
        one.renew(body.tests, LEASE if body.lease is None else body.lease)

    @action("extend", models.Allowed, served.decide, keyed=True, tag="studies")
    def extend(one: SharedStudy, body: inputs.Extend) -> dict[str, float | None]:
        """Allow more tests than before, or tests of more cost. The guarantee stays as it is."""
        now = one.extend(body.tests, body.cost)
        return {"tests": now.tests, "cost": now.cost}

    @action("arms/add", how=served.decide, keyed=True, tag="studies")
    def add_arms(one: SharedStudy, body: inputs.NewArms) -> None:
        """Add arms. The study's plan must have a reserve for them."""
        one.add_arms(body.arms)

    @action("arms/retire", how=served.decide, keyed=True, tag="studies")
    def retire(one: SharedStudy, body: inputs.RetiredArm) -> None:
        """Retire an arm: it is no longer measured, and the question is about the others."""
        one.retire(body.arm, body.reason)

    @post("archive", tag="studies")
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
