"""Who may use the service, and from where."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.tools.patience import PATIENCE
from tests.web.service import CSV, JSON, TOKEN, refused

import bestarm as ba
from bestarm.web.app import create_app
from bestarm.web.guard import is_loopback
from bestarm.web.server import check_access, running


def operations() -> list[tuple[str, str]]:
    paths = create_app(":memory:").openapi()["paths"]
    return [(method, path) for path, found in paths.items() for method in found]


def test_the_description_has_every_route(service: httpx.Client) -> None:
    found = {f"{method} {path.removeprefix('/api')}" for method, path in operations()}
    verbs = ["ask", "tell", "add", "csv", "correct", "fail", "set-aside", "abandon", "release", "renew", "archive"]
    verbs += ["extend", "arms/add", "arms/retire", "reserve", "check-far", "delete", "move"]
    looks = ["differences", "pending", "history", "forecast", "done", "log", "export", "report", "sheet"]
    looks += ["events", "waiting", "backup"]
    assert found == {
        "get /health",
        "get /events",
        "get /choices",
        "get /metrics",
        "get /livez",
        "get /readyz",
        "get /audit",
        "get /backup",
        "post /backup",
        "get /comparison",
        "get /projects",
        "get /studies",
        "post /studies",
        "get /session",
        "post /session",
        "post /session/end",
        "get /studies/{study}",
        *(f"get /studies/{{study}}/{look}" for look in looks),
        *(f"post /studies/{{study}}/{verb}" for verb in verbs),
    }
    description = service.get("/openapi.json").json()
    for path, methods in description["paths"].items():
        for operation in methods.values():
            assert operation["summary"]
            errors = {code: one for code, one in operation["responses"].items() if code[0] in "45"}
            assert errors, path
            for one in errors.values():
                assert one["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


@pytest.mark.parametrize(("method", "path"), [*operations(), ("get", "/openapi.json"), ("get", "/api/nothing")])
def test_wrong_and_missing_tokens_are_refused(guarded: str, method: str, path: str) -> None:
    url = guarded + path.replace("{study}", "1")
    headers = CSV if path.endswith("/csv") else JSON
    bad: list[dict[str, str]] = [
        {},
        *({"Authorization": f"Bearer {wrong}"} for wrong in ("wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper())),
        {"Authorization": "Bearer"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"token={TOKEN}"},
        {"X-Token": TOKEN},
    ]
    with httpx.Client(timeout=PATIENCE) as client:
        if path in ("/api/health", "/livez", "/readyz"):
            assert client.get(url).status_code == 200
            return
        for extra in bad:
            answer = client.request(method, url, headers=headers | extra)
            refused(answer, 401, "Authorization: Bearer", "Authorization")
            assert answer.headers["www-authenticate"] == "Bearer"
        refused(client.request(method, url, headers=headers, params={"token": TOKEN}), 401, "Bearer")
        twice = [*headers.items(), ("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {TOKEN}")]
        refused(client.request(method, url, headers=twice), 401, "Bearer")
        if not path.endswith("/events"):
            right = client.request(method, url, headers=headers | {"Authorization": f"Bearer {TOKEN}"})
            assert right.status_code != 401


def test_with_a_token_any_host_may_be_named_unless_some_are_allowed(guarded: str, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "lab.example", "Origin": "http://elsewhere.example"}
    assert httpx.get(f"{guarded}/api/studies", headers=headers, timeout=PATIENCE).status_code == 200
    with running(str(tmp_path / "x.db"), token=TOKEN, allowed_hosts=["lab.example"]) as url:
        assert httpx.get(f"{url}/api/studies", headers=headers, timeout=PATIENCE).status_code == 200
        refused(
            httpx.get(f"{url}/api/studies", headers=headers | {"Host": "other.example"}, timeout=PATIENCE),
            403,
            "does not answer under the host name 'other.example'; --allow-host",
            "Host",
        )


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "[::2]"])
def test_without_a_token_other_host_names_are_refused(service: httpx.Client, host: str) -> None:
    for path in ("/api/studies", "/", "/openapi.json"):
        refused(service.get(path, headers={"Host": host}), 403, "loopback names only", "Host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.8.9.1", "[::1]:80"])
def test_loopback_names_are_answered(service: httpx.Client, host: str) -> None:
    assert service.get("/api/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"])
def test_without_a_token_other_sites_are_refused(service: httpx.Client, study: str, origin: str) -> None:
    refused(service.get(study, headers={"Origin": origin}), 403, "other sites", "Origin")
    refused(service.post(f"{study}/ask", json={}, headers={"Origin": origin}), 403, "other sites")
    refused(service.get(study, headers={"Sec-Fetch-Site": "cross-site"}), 403, "other sites")
    own = f"http://{service.base_url.netloc.decode()}"
    assert service.post(f"{study}/ask", json={}, headers={"Origin": own}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/api/health", 200), ("/api/studies/999999", 404), ("/nothing", 404), ("/static/index.html", 200)],
)
def test_security_headers_are_on_everything(service: httpx.Client, path: str, status: int) -> None:
    answer = service.get(path)
    assert answer.status_code == status
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers
    if path.startswith("/api"):
        assert answer.headers["cache-control"] == "no-store"


def test_addresses_that_others_can_reach_need_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        assert is_loopback(host)
        check_access(host, None)
    for host in ("0.0.0.0", "::", "192.168.1.7", "lab.example", ""):
        with pytest.raises(ba.InvalidInput, match="needs a token"):
            check_access(host, None)
        check_access(host, TOKEN)
    for options in ((["lab.example"],), ((), ["127.0.0.1"])):
        with pytest.raises(ba.InvalidInput, match="needs a token"):
            check_access("127.0.0.1", None, *options)
        check_access("127.0.0.1", TOKEN, *options)
        # Those of the database do as well.
        check_access("127.0.0.1", None, *options, tokens=True)
    check_access("127.0.0.1", None, ["localhost"])
    for name in ("https://lab.example/", "a b", ""):
        with pytest.raises(ba.InvalidInput, match=r"^allow-host = .* must be a host name or an address"):
            check_access("127.0.0.1", TOKEN, [name])
    for token in ("short", "with space in it, long", "ungültig-aber-lang-genug"):
        with pytest.raises(ba.InvalidInput, match="token: must have at least 16"):
            check_access("127.0.0.1", token)
