"""Several studies side by side, over HTTP."""

from __future__ import annotations

import httpx
import pytest
from tests.web.service import new_study, refused, tell

from bestarm.web.comparing import MOST_ARMS, MOST_STUDIES


def number(study: str) -> int:
    return int(study.rpartition("/")[2])


def test_studies_side_by_side(service: httpx.Client) -> None:
    first = new_study(service, "compared, first")
    second = new_study(
        service, "compared, second", arms=[f"arm {k}" for k in range(MOST_ARMS + 3)], constraints=[], delta=0.1
    )
    asked = service.post(f"{second}/ask", json={"n": MOST_ARMS + 3}).json()["tests"]
    assert tell(service, second, *((row["id"], 5.0 if row["arm"] == "arm 14" else 1.0) for row in asked)).is_success
    answer = service.get("/api/comparison", params={"studies": f"{number(second)},{number(first)}"})
    assert answer.status_code == 200
    found = answer.json()
    # In the order in which they were asked for, each with its line of the list.
    assert [row["line"]["name"] for row in found] == ["compared, second", "compared, first"]
    lines = {row["id"]: row for row in service.get("/api/studies", params={"limit": 1000}).json()}
    for row, study in zip(found, (second, first), strict=True):
        status = service.get(study).json()
        assert row["line"] == lines[number(study)]
        assert (row["known"], row["progress"]) == (status["known"], status["progress"])
        assert (row["objective"], row["goal"]) == ("gain", "maximize")
        by_name = {arm["name"]: arm for arm in status["arms"]}
        assert len(row["arms"]) + row["further"] == len(by_name)
        for arm in row["arms"]:
            of_arm = by_name[arm["name"]]["metrics"][0]
            assert arm["verdict"] == by_name[arm["name"]]["verdict"]
            assert [arm[key] for key in ("tests", "mean", "low", "high")] == [
                of_arm[key] for key in ("tests", "mean", "low", "high")
            ]
    assert found[0]["arms"][0]["name"] == found[0]["line"]["leader"] == "arm 14"
    assert found[0]["further"] == 3


@pytest.mark.parametrize("studies", ["", "x", "1,", "0", "-1", "1;2", "1, 2", ",".join(map(str, range(1, 99)))])
def test_only_a_list_of_numbers_is_accepted(service: httpx.Client, studies: str) -> None:
    refused(service.get("/api/comparison", params={"studies": studies}), 422, "")


def test_unknown_and_too_many_studies(service: httpx.Client, study: str) -> None:
    refused(service.get("/api/comparison", params={"studies": f"{number(study)},999999999"}), 404, "no such study")
    many = ",".join(str(k) for k in range(1, MOST_STUDIES + 2))
    refused(service.get("/api/comparison", params={"studies": many}), 422, f"at most {MOST_STUDIES}")
    assert service.get("/api/comparison").status_code == 422
    twice = service.get("/api/comparison", params={"studies": f"{number(study)},{number(study)}"}).json()
    assert len(twice) == 1
