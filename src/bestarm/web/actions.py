"""The routes that change a study: ask, tell and the rest, each on behalf of the calling client."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from bestarm.problem.budget import UNITS
from bestarm.storage.audit import in_ranges
from bestarm.study.files.exchange import Recorded, import_results, read_columns, tell_results
from bestarm.study.heartbeat import LEASE
from bestarm.study.intake.names import Test
from bestarm.study.intake.new_results import GivenResult
from bestarm.study.intake.values import RefusedValue, Result
from bestarm.study.intake.xlsx_file import XLSX, ZIPPED
from bestarm.study.record.checks import UnreadableStudy
from bestarm.validation import Complaint, InvalidInput
from bestarm.web import inputs, models
from bestarm.web.access import DONE, caller_of, who_asks
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

_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            XLSX: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}

Holder = Annotated[
    str | None, Query(max_length=200, description="The holder's name; by default the token's, and the address.")
]

CheckFar = Annotated[bool, Query(description="Whether to refuse values that need confirmation.")]

Ignore = Annotated[
    list[str] | None, Query(max_length=100, description="Columns that the study does not know, and that are left out.")
]


Columns = Annotated[
    list[str] | None,
    Query(alias="map", max_length=100, description="What a column means, as COLUMN=MEANING. Goes with past."),
]

Past = Annotated[
    bool, Query(description="Whether all are past results, and the tests of an export are recorded as new ones.")
]

Again = Annotated[bool, Query(description="Whether to take a file that is in the study already. Goes with past.")]


def add_actions(router: APIRouter, served: ServedStudies, live: LiveUpdates, limits: Limits, metrics: Metrics) -> None:
    """Put the routes into the router."""

    async def change(
        key: int,
        request: Request,
        holder: str | None,
        act: Callable[[SharedStudy], Any],
        how: How = served.record,
        body: BaseModel | None = None,
    ) -> Any:
        """Do something to a study on behalf of the caller."""
        repeated, who = idempotency_key(request), who_asks(request, holder)

        def for_holder(study: SharedStudy) -> Any:
            with study.on_behalf_of(who, repeated):
                return act(study)

        result = await how(key, for_holder)
        request.scope[DONE] = who, in_ranges(set(_tests_in(body, result)))
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
                return json_response(
                    await change(study, request, body.holder, lambda one: act(one, body), how, body) or {}
                )

            route.__name__, route.__doc__ = act.__name__, act.__doc__
            route.__annotations__["body"] = get_type_hints(act)["body"]
            post(name, answer, **options)(route)
            return act

        return add

    @action("ask", models.Asked, served.decide, keyed=True)
    def ask(one: SharedStudy, body: inputs.Ask) -> dict[str, Any]:
        """Tests to make now. None and not done: wait for results that are out."""
        tests, done = one.ask_or_done(None if body.block else body.n, body.days, body.lease)
        return {"tests": [one.test_data(test) for test in tests], "done": done}

    @action("tell", models.Told)
    def tell(one: SharedStudy, body: inputs.Tell) -> dict[str, int]:
        """Record results of tests, all or none. The same value again has no effect.

        A test of several metrics is told all its values at once, as an object.
        """
        results = [(one.find_test(told), told.value) for told in body.results]
        with _naming_all(one, results, "results"):
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
        with _naming_all(one, told, "told"):
            one.check_far(told, [_given(result) for result in body.given])

    @post("csv", models.Told, keyed=True, **_FILE)
    async def tell_file(
        study: Key,
        request: Request,
        holder: Holder = None,
        check_far: CheckFar = False,
        ignore: Ignore = None,
        columns: Columns = None,
        past: Past = False,
        again: Again = False,
    ) -> Response:
        """Record a file of results, CSV or an Excel workbook, all or none. It is read as what it is.

        Its columns are test,value or arm,metric,value; or test or arm and a column for each metric. A study with items
        has a column item, too. A test without a value is passed over. With `check_far`, values that lie far outside
        those that their metric has shown are refused with the kind "far value".
        Columns that the study does not know are refused, too, unless `ignore` names them.
        """
        data = await request.body()
        lines = 0 if data.startswith(ZIPPED) else data.count(b"\n") + data.count(b"\r")
        if lines > limits.csv_lines:
            raise Refusal(413, f"the file has too many lines: at most {limits.csv_lines:,} are accepted")
        how: dict[str, Any] = {"check_far": check_far, "ignore": ignore or ()}
        if past:
            how |= {"once": not again, "columns": read_columns(columns)}
        elif columns or again:
            raise Refusal(422, "past: must be true for map and again", "past")

        def record(one: SharedStudy) -> Recorded:
            return (import_results if past else tell_results)(one, data, "the file", **how)

        recorded = await change(study, request, holder, record, served.do_slowly)
        metrics.told(recorded.results)
        counts = {"known": recorded.known, "skipped": recorded.skipped}
        return json_response({"told": recorded.results, **{key: count for key, count in counts.items() if count}})

    @action("correct")
    def correct(one: SharedStudy, body: inputs.Correct) -> None:
        """Replace a result that was told wrongly; the old one stays in the log. Look for mistakes by a rule that does
        not depend on values: correcting only surprising values voids the guarantee."""
        one.correct(one.find_test(body), body.value, body.reason)

    @action("fail", keyed=True)
    def fail(one: SharedStudy, body: inputs.EndedTests) -> None:
        """Say that an attempt failed, for a reason that has nothing to do with its result: it is made again."""
        one.for_each(_named(body), lambda test: one.fail(test, body.reason))

    @action("set-aside", keyed=True)
    def set_aside(one: SharedStudy, body: inputs.SetAside) -> None:
        """Say that the holder's attempt failed. The test is set aside until it is known what that counts as."""
        one.set_aside(one.find_test(body), body.reason, kind=body.kind)

    @action("abandon")
    def abandon(one: SharedStudy, body: inputs.EndedTests) -> None:
        """Give a test up, for a reason that has nothing to do with its result."""
        one.for_each(_named(body), lambda test: one.abandon(test, body.reason))

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
        """Allow more tests than before, tests of more cost, or more blocks. The guarantee stays as it is."""
        now = one.extend(body.tests, body.cost, blocks=body.blocks, hours=body.hours)
        return {name: getattr(now, name) for name in UNITS}

    @action("arms/add", how=served.decide, keyed=True, tag="studies")
    def add_arms(one: SharedStudy, body: inputs.NewArms) -> None:
        """Add arms. The study's plan must have a reserve for them."""
        one.add_arms(body.arms)

    @action("reserve", how=served.decide, keyed=True, tag="studies")
    def set_reserve(one: SharedStudy, body: inputs.NewReserve) -> None:
        """Before the first test: change the share of delta that is kept for arms that come later or are retired."""
        one.set_reserve(body.share)

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
            await served.do(lambda: served.storage.archive(study, who_asks(request, None), undo=body.undo))
            live.nudge(study)
        return json_response({})

    @post("delete", tag="studies")
    async def delete(study: Key, body: Annotated[inputs.Delete, Body()], request: Request) -> Response:
        """Remove an archived study and all its results, for good. Its name and number stay in the audit."""
        caller = caller_of(request.scope)
        await served.delete(study, body.name, who_asks(request, None), caller.project)
        live.nudge(study)
        return json_response({})


def _tests_in(body: BaseModel | None, result: Any) -> Iterator[int]:
    """The numbers of the tests that a request names, and its answer."""
    if isinstance(result, Recorded) and result.first is not None and result.last is not None:
        yield from range(result.first, result.last + 1)
    yield from () if body is None else _numbers([getattr(body, "test", None)])
    for data in ({} if body is None else vars(body), result if isinstance(result, dict) else {}):
        for name in ("tests", "results", "ids", "released"):
            yield from _numbers(data.get(name))


def _numbers(listed: Any) -> Iterator[int]:
    """The numbers in a list of tests, of results, or of numbers. Other fields may have the same name."""
    for one in listed if isinstance(listed, list) else ():
        number = one["id"] if isinstance(one, dict) else getattr(one, "test", one)
        if isinstance(number, int):
            yield number


def _named(body: inputs.EndedTests) -> list[inputs.NamedTest]:
    """The tests that a request is about: one that it describes, or several by their numbers."""
    described = {"arm": body.arm, "metric": body.metric, "item": body.item}
    if (body.test is None) == (not body.tests):
        raise Refusal(422, "test: give it, or the tests, and not both", "test")
    if body.test is not None:
        return [inputs.NamedTest(test=body.test, **described)]
    if any(name is not None for name in described.values()):
        raise Refusal(422, "tests: several are given by their numbers alone", "tests")
    return [inputs.NamedTest(test=test) for test in dict.fromkeys(body.tests)]


@contextlib.contextmanager
def _naming_all(study: SharedStudy, results: Sequence[tuple[Test | int, Result]], path: str) -> Iterator[None]:
    """If a value is refused, complain of all values that would be, each by its place in the request."""
    try:
        yield
    except RefusedValue as error:
        wrong: list[Complaint] = []
        for k, (test, value) in enumerate(results):
            try:
                study.check_told(test, value)
            except InvalidInput as refused:
                wrong += [one.within(f"{path}[{k}]", one.sentence) for one in refused.complaints]
        sentences = dict.fromkeys([str(error), *(complaint.sentence for complaint in wrong)])
        raise RefusedValue.of(wrong or error.complaints, "\n".join(sentences)) from None


def _given(result: inputs.NewResult | inputs.NewResults) -> GivenResult:
    """A result measured without asking, as a study takes it."""
    item: tuple[()] | tuple[str | int] = () if result.item is None else (result.item,)
    if isinstance(result, inputs.NewResults):
        return (result.arm, result.values, *item)
    return (result.arm, result.metric, result.value, *item)
