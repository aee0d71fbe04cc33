"""Behind a login of one's own: a trusted proxy says who asks, and no other peer can."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.program import bestarm
from tests.tools.nginx import nginx
from tests.tools.patience import PATIENCE
from tests.web.service import PLAN, TOKEN, refused

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.opening import open_storage
from bestarm.web.proxy_identity import ProxyIdentity
from bestarm.web.server import check_access, running

USER, GROUPS = "X-Forwarded-User", "X-Forwarded-Groups"
IDENTITY = ProxyIdentity(USER, GROUPS, ["staff=read", "lab=work", "lab-admins=manage"])
SCRIPT = {"X-Requested-With": "test"}
PEOPLE = {"ann": "lab-admins,staff", "bob": "staff, lab", "eve": "visitors", "josé@example.com": "staff"}


@pytest.fixture(scope="module")
def behind(folder: Path) -> Iterator[str]:
    """A service that trusts this machine to be the proxy."""
    with running(str(folder / "behind.db"), proxies=["127.0.0.1"], proxy_identity=IDENTITY) as url:
        yield url


def ask(url: str, *headers: tuple[str, str], path: str = "/api/session") -> httpx.Response:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return httpx.get(url + path, headers=raw, timeout=PATIENCE)


def test_the_user_is_who_the_proxy_says(behind: str) -> None:
    roles = {"ann": "manage", "bob": "work", "josé@example.com": "read"}
    for name, role in roles.items():
        answer = ask(behind, (USER, name), (GROUPS, PEOPLE[name]))
        assert answer.json() == {"name": name, "role": role, "through": "proxy"}
    refused(ask(behind, (USER, "eve"), (GROUPS, PEOPLE["eve"])), 403, "'eve' is in none of the groups", GROUPS)
    refused(ask(behind, (USER, "eve")), 403, "'eve' is in none of the groups", GROUPS)
    reader = {USER: "x", GROUPS: "staff"} | SCRIPT
    refused(httpx.post(f"{behind}/api/studies", json={}, headers=reader, timeout=PATIENCE), 403, "role manage")


@pytest.mark.parametrize(
    "headers",
    [
        [(USER, "")],
        [(USER, "ann"), (USER, "bob")],
        [(USER, "ann"), (USER, "ann")],
        [(USER, "ann, bob")],
        [(USER, "ann"), (USER.lower(), "bob")],
        [(USER, "service")],
        [(USER, "a" * 101)],
        [(USER, "a\tb")],
        [(USER, "a\u200bb")],
        [(USER, "ann"), (GROUPS, "lab"), (GROUPS, "lab-admins")],
    ],
)
def test_a_name_that_is_not_clear_is_refused(behind: str, headers: list[tuple[str, str]]) -> None:
    groups = [] if any(name == GROUPS for name, _ in headers) else [(GROUPS, "lab-admins")]
    answer = ask(behind, *headers, *groups)
    assert answer.status_code in (400, 403), answer.text
    assert "lab-admins" not in answer.text


def test_a_name_that_is_no_utf8_is_refused(behind: str) -> None:
    headers = [(USER.encode(), b"ann\xff"), (GROUPS.encode(), b"lab-admins")]
    refused(httpx.get(f"{behind}/api/session", headers=headers, timeout=PATIENCE), 403, "once, as UTF-8", USER)


def test_without_a_user_nothing_is_said(behind: str) -> None:
    reason = f"needs the header {USER}, from a trusted proxy"
    for headers in (
        [],
        [(GROUPS, "lab-admins")],
        [("X_Forwarded_User", "ann")],
        [("Authorization", f"Bearer {TOKEN}")],
    ):
        refused(ask(behind, *headers), 401, reason)
    assert ask(behind, path="/api/health").json()["token"] is True


@pytest.mark.parametrize("header", [USER, USER.upper(), GROUPS])
def test_the_headers_of_others_are_refused(tmp_path: Path, header: str) -> None:
    database = str(tmp_path / "x.db")
    with running(database, token=TOKEN, proxies=["10.0.0.0/8"], proxy_identity=IDENTITY) as url:
        bearer = ("Authorization", f"Bearer {TOKEN}")
        assert ask(url, bearer).json()["name"] == "service"
        for extra in ([], [bearer], [("X-Forwarded-For", "10.1.2.3")], [("Forwarded", "for=10.1.2.3")]):
            refused(ask(url, (header, "ann"), *extra), 403, "counts from a trusted proxy only")


def test_only_the_peer_itself_is_trusted() -> None:
    """Over a Unix socket there is no address. An IPv4 address may come in the form of IPv6."""
    import asyncio

    from bestarm.web.app import create_app

    app = create_app(":memory:", proxies=["127.0.0.1", "10.0.0.0/8"], proxy_identity=IDENTITY)

    async def status(client: tuple[str, int] | None) -> int:
        transport = httpx.ASGITransport(app, client=client)  # type: ignore[arg-type] # as a Unix socket has it
        async with httpx.AsyncClient(transport=transport, base_url="http://lab.example") as asking:
            return (await asking.get("/api/session", headers={USER: "ann", GROUPS: "lab"})).status_code

    peers = [
        ("127.0.0.1", 1),
        ("::ffff:10.1.2.3", 1),
        ("10.255.0.1", 1),
        ("::1", 1),
        ("::ffff:11.1.2.3", 1),
        ("", 0),
        None,
    ]
    found = [asyncio.run(status(peer)) for peer in peers]
    app.state.live.close()
    assert found == [200, 200, 200, 403, 403, 403, 403]


def test_tokens_work_beside_the_proxy(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    with running(database, tokens=True, proxies=["127.0.0.1"], proxy_identity=IDENTITY) as url:
        storage = open_storage(database)
        token, _ = storage.make_token("bench-1", "work")
        storage.close()
        bearer = ("Authorization", f"Bearer {token}")
        assert ask(url, bearer).json() == {"name": "bench-1", "role": "work", "through": "token"}
        # Who comes through the login is who they logged in as.
        assert ask(url, bearer, (USER, "ann"), (GROUPS, "staff")).json()["name"] == "ann"


def test_pages_of_other_sites_cannot_use_the_login(behind: str) -> None:
    ann = {USER: "ann", GROUPS: "lab-admins"}
    body = {"plan": PLAN, "name": "from elsewhere"}

    def post(**headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(f"{behind}/api/studies", json=body, headers=ann | named, timeout=PATIENCE)

    refused(post(), 403, "a change by a user whom a browser signs in takes the header X-Requested-With")
    refused(post(X_Requested_With="x", Origin="https://evil.example"), 403, "other sites")
    refused(post(X_Requested_With="x", Sec_Fetch_Site="same-site"), 403, "other sites")
    assert post(X_Requested_With="x", Sec_Fetch_Site="same-origin").status_code == 201


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    serve = ("serve", "--db", str(tmp_path / "x.db"))
    proxied = ("--trusted-proxies", "127.0.0.1", "--proxy-user-header", USER)
    for words, said in {
        ("--proxy-user-header", USER): "proxy-user-header: needs --trusted-proxies",
        ("--proxy-role", "work"): "proxy-user-header: is needed",
        (*proxied, "--proxy-role", "boss"): "proxy-role = 'boss': must be read, work or manage, or",
        (*proxied, "--proxy-role", "lab=boss"): "proxy-role = 'boss': must be read, work or manage, or",
        (*proxied, "--proxy-role", "lab=work"): "proxy-role = 'lab=work': needs --proxy-groups-header",
        (*proxied, "--proxy-groups-header", GROUPS): f"proxy-groups-header = '{GROUPS}': needs a role for a group",
        ("--trusted-proxies", "127.0.0.1", "--proxy-user-header", "a b"): "proxy-user-header = 'a b': must be the name",
        ("--trusted-proxies", "127.0.0.1", "--proxy-user-header", "authorization"): "a header that only the proxy sets",
    }.items():
        ended = bestarm(*serve, *words, cwd=tmp_path)
        assert ended.code == 2, ended
        assert said in ended.err
    with pytest.raises(ba.InvalidInput, match="needs a token"):
        check_access("0.0.0.0", None, (), ["10.0.0.1"])
    check_access("0.0.0.0", None, (), ["10.0.0.1"], is_proxied=True)


# ------------------------------------------------------------------------------------------------ with a real proxy


def work_through(url: str, log_in: Callable[[str], dict[str, str]]) -> None:
    """What people do through a login: a cookie says who they are, and headers of their own count for nothing."""
    forged = {USER: "ann", GROUPS: "lab-admins"}
    assert httpx.get(f"{url}/api/session", headers=forged, timeout=PATIENCE).status_code in (302, 401, 403)
    bob, ann = log_in("bob"), log_in("ann")
    found = httpx.get(f"{url}/api/session", headers=bob | forged, timeout=PATIENCE).json()
    assert found == {"name": "bob", "role": "work", "through": "proxy"}
    made = httpx.post(f"{url}/api/studies", json={"plan": PLAN, "name": url}, headers=ann | SCRIPT, timeout=PATIENCE)
    assert made.status_code == 201, made.text
    study = f"{url}/api/studies/{made.json()['id']}"
    for holder, status in ((None, 200), ("bob@bench-3", 200), ("ann", 422)):
        asked = httpx.post(f"{study}/ask", json={"holder": holder}, headers=bob | SCRIPT, timeout=PATIENCE)
        assert asked.status_code == status, asked.text
    pending = httpx.get(f"{study}/pending", headers=ann, timeout=PATIENCE).json()
    assert [row["holder"].split("@")[0] for row in pending] == ["bob", "bob"]
    assert httpx.get(f"{url}/api/session", headers=log_in("eve"), timeout=PATIENCE).status_code == 403


class Login(http.server.BaseHTTPRequestHandler):
    """A login that believes a cookie, asked by nginx as oauth2-proxy and Authelia are, or itself the proxy."""

    protocol_version = "HTTP/1.1"
    upstream = ""
    always: str | None = None
    """Who it takes everybody for."""

    def _handle(self) -> None:
        found = re.search(r"who=(\w+)", self.headers.get("Cookie", ""))
        name = found[1] if found else self.always
        if self.path in ("/oauth2/auth", "/api/authz/auth-request"):
            said = {"Location": "https://login.example/"}
            if name is not None:
                said = {"X-Auth-Request-User": name, "X-Auth-Request-Groups": PEOPLE[name]}
                said |= {"Remote-User": name, "Remote-Groups": PEOPLE[name]}
            self._answer(401 if name is None else 202, said, b"")
        elif name is None:
            self._answer(401, {}, b"log in first")
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            passed = {k: v for k, v in self.headers.items() if k.lower() not in (USER.lower(), GROUPS.lower())}
            passed |= {USER: name, GROUPS: PEOPLE[name], "X-Forwarded-For": self.client_address[0]}
            answer = httpx.request(
                self.command, self.upstream + self.path, content=body, headers=passed, timeout=PATIENCE
            )
            said = {
                name: text for name, text in answer.headers.items() if name.startswith(("content-type", "bestarm-"))
            }
            self._answer(answer.status_code, said, answer.content)

    do_GET = do_POST = _handle  # noqa: N815 (the server's names)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def login(upstream: str, always: str | None = None) -> Iterator[str]:
    handler = type("Handler", (Login,), {"upstream": upstream, "always": always})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def by_cookie(name: str) -> dict[str, str]:
    return {"Cookie": f"who={name}"}


def test_people_work_through_a_proxy(behind: str) -> None:
    with login(behind) as url:
        work_through(url, by_cookie)


def recipe(name: str) -> str:
    """A recipe of the documents, as it stands there."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "sign-in-with-your-own-login.md").read_text(
        encoding="utf-8"
    )
    found: str
    [found] = re.findall(rf"```nginx\n# {name}\n(.*?)```", page, re.S)
    return found


@pytest.mark.parts("nginx")
@pytest.mark.parametrize("name", ["oauth2-proxy", "Authelia"])
def test_people_work_through_nginx_as_documented(behind: str, tmp_path: Path, name: str) -> None:
    with login(behind) as helper:
        text = recipe(name)
        for stated, real in {
            "http://127.0.0.1:4180": helper,
            "http://127.0.0.1:9091": helper,
            "http://127.0.0.1:8000": behind,
        }.items():
            text = text.replace(stated, real)
        with nginx(tmp_path / "nginx", text) as proxy:
            work_through(proxy.url, by_cookie)


@pytest.mark.parts("nginx")
def test_machines_work_beside_people_as_documented(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    with running(database, tokens=True, proxies=["127.0.0.1"], proxy_identity=IDENTITY) as service:
        storage = open_storage(database)
        token, _ = storage.make_token("bench-1", "manage")
        storage.close()
        with nginx(tmp_path / "nginx", recipe("machines").replace("http://127.0.0.1:8000", service)) as proxy:
            forged = {USER: "ann", GROUPS: "lab-admins"}
            refused(httpx.get(f"{proxy.url}/machines/api/session", headers=forged, timeout=PATIENCE), 401, "token")
            client = Client(f"{proxy.url}/machines", token)
            problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
            assert client.create(problem, name="by machine", delta=0.05, holder="rig").holder == "bench-1@rig"
            client.close()


def test_the_python_client_works_through_the_login(behind: str) -> None:
    with login(behind, always="ann") as url:
        client = Client(url)
        problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
        study = client.create(problem, name="by program", delta=0.05, holder="rig")
        [test] = study.ask(1)
        study.tell(test, 0.0)
        assert study.holder == "ann@rig"
        client.close()
