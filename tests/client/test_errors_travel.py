"""What a study refuses, it refuses in the same way over HTTP: the same class, sentence, field, value and choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.client.scripted import Connect, Serve, answer
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.client import Client, RemoteStudy
from bestarm.client.connection import _complaints
from bestarm.storage.errors import NameTaken
from bestarm.study.intake.values import RefusedValue
from bestarm.study.study import AlreadyTold
from bestarm.validation import UNSTATED, InvalidInput, NotFound
from bestarm.web.server import running

PROBLEM = ba.Problem(
    arms=["a", "b"],
    objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
    constraints=[ba.at_most("harm", 0.5, noise=ba.Bernoulli())],
)

Both = Callable[[Any], object]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(str(tmp_path_factory.mktemp("errors") / "there.db")) as found:
        yield found


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url) as found:
        yield found


@pytest.fixture
def pair(client: Client, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[ba.Study, RemoteStudy]:
    """A study here and the same on a server, each with a result of test 1."""
    name = request.node.name
    here = ba.Study.create(PROBLEM, name=name, storage=tmp_path / "here.db")
    there = client.create(PROBLEM, name=name)
    for study in (here, there):
        study.add([("a", "gain", 1.0)])
    return here, there


@pytest.mark.parametrize(
    ("act", "kind", "field", "value"),
    [
        (lambda study: study.tell(7, 1.0), NotFound, "test", 7),
        (lambda study: study.tell(1, 2.0), AlreadyTold, "test", 1),
        (lambda study: study.tell_many([(1, 2.0), (7, 1.0)]), NotFound, "test", 7),
        (lambda study: study.tell(ba.study.study.Test(1, "b", "gain"), 1.0), InvalidInput, "test", 1),
        (lambda study: study.add([("c", "gain", 1.0)]), InvalidInput, "arm", "c"),
        (lambda study: study.add([("a", "pain", 1.0)]), InvalidInput, "metric", "pain"),
        (lambda study: study.add([("a", "harm", 0.5)]), RefusedValue, "value", 0.5),
        (lambda study: study.add([("a", "gain", 1e60)]), RefusedValue, "value", 1e60),
        (lambda study: study.archive() or study.ask(1), InvalidInput, "study", None),
    ],
)
def test_the_same_error_here_and_there(
    pair: tuple[ba.Study, RemoteStudy], act: Both, kind: type[InvalidInput], field: str, value: object
) -> None:
    errors = []
    for study in pair:
        with pytest.raises(kind) as raised:
            act(study)
        errors.append(raised.value)
    here, there = errors
    assert str(here) == str(there)
    assert here.complaints == there.complaints
    assert (there.field, there.value if value is not None else None) == (field, value)


def test_a_name_that_is_taken(client: Client) -> None:
    client.create(PROBLEM, name="taken")
    with pytest.raises(
        NameTaken, match="name = 'taken': a study of this name exists already in this service"
    ) as raised:
        client.create(PROBLEM, name="taken")
    assert (raised.value.field, raised.value.value) == ("name", "taken")


def test_several_complaints_in_one_answer(url: str) -> None:
    plan = ba.Plan.of(PROBLEM).to_data() | {"delta": 2, "name": " x", "policy": 7}
    error = httpx.post(f"{url}/api/studies", json={"plan": plan}, timeout=PATIENCE).json()["error"]
    assert error["kind"] == "invalid"
    assert {one["field"] for one in error["complaints"]} == {"plan.delta", "plan.name", "plan.policy"}
    assert error["reason"] == "; ".join(one["sentence"] for one in error["complaints"])
    by_field = {one["field"]: one for one in error["complaints"]}
    assert by_field["plan.delta"]["value"] == 2
    assert by_field["plan.delta"]["reason"] == "must lie strictly between 0 and 1"
    assert [one.field for one in _complaints(error)] == [one["field"] for one in error["complaints"]]


def test_the_storage_url_is_never_revealed(client: Client, url: str) -> None:
    client.create(PROBLEM, name="secret")
    answer = httpx.post(
        f"{url}/api/studies", json={"plan": ba.Plan.of(PROBLEM).to_data(), "name": "secret"}, timeout=PATIENCE
    )
    assert answer.status_code == 409
    assert ".db" not in answer.text


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({}, InvalidInput),
        ({"kind": "of tomorrow"}, InvalidInput),
        *(({"kind": kind.kind}, kind) for kind in (InvalidInput, NotFound, AlreadyTold, RefusedValue, NameTaken)),
    ],
)
def test_a_mistake_is_of_the_class_that_the_service_names(
    serve: Serve, connect: Connect, told: dict[str, str], kind: type[InvalidInput]
) -> None:
    """Without a class, or with one that this version does not know, it is the most general. The status says nothing."""
    error = {"field": "value", "reason": "value of 'harm' = 3: must be 0 or 1", **told}
    with pytest.raises(InvalidInput) as raised:
        connect(serve(answer({"error": error}, "409 Conflict")).url).post("/x", {}, key="k")
    assert type(raised.value) is kind
    [complaint] = raised.value.complaints
    assert (complaint.sentence, complaint.field, complaint.value) == (error["reason"], "value", UNSTATED)
