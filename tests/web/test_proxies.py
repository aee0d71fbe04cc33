"""Proxies that are trusted say who a client is and where it finds the service; others do not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from tests.tools.patience import PATIENCE
from tests.web.service import TOKEN, refused

import bestarm as ba
from bestarm.web.proxies import TrustedProxies, check_root_path
from bestarm.web.server import check_access, running, serve

CLIENT = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "203.0.113.9"}


@pytest.mark.parametrize(
    ("proxies", "sent", "seen"),
    [
        ((), "203.0.113.9", "127.0.0.1"),
        (("10.0.0.0/8",), "203.0.113.9", "127.0.0.1"),
        (("127.0.0.1",), "203.0.113.9", "203.0.113.9"),
        (("10.0.0.0/8,127.0.0.0/8",), "203.0.113.9, 10.0.0.1", "203.0.113.9"),
        # What a client wrote itself stands to the left of what the proxy adds.
        (("127.0.0.1",), "10.9.9.9, 203.0.113.9", "203.0.113.9"),
    ],
)
def test_only_trusted_proxies_name_the_client(tmp_path: Path, proxies: Sequence[str], sent: str, seen: str) -> None:
    log = tmp_path / "access.log"
    with running(str(tmp_path / "x.db"), token=TOKEN, proxies=proxies, access_log=str(log)) as url:
        httpx.get(f"{url}/api/studies", headers=CLIENT | {"X-Forwarded-For": sent}, timeout=PATIENCE)
    assert json.loads(log.read_text())["address"] == seen


def test_what_is_not_an_address_or_a_path_is_refused(tmp_path: Path) -> None:
    for stated in ("proxy.example", "10.0.0.1/8", "*", "", "10.0.0.0/8,"):
        with pytest.raises(ba.InvalidInput, match=r"^trusted-proxies = .*: must be an address or a network"):
            TrustedProxies([stated])
    for path in (
        "bestarm",
        "/a//b",
        "//host",
        "/a b",
        "/..",
        "/a/./b",
        '/"x',
        "/a?b",
        "http://host/a",
        "/" + 300 * "x",
    ):
        with pytest.raises(ba.InvalidInput, match=r"^root-path = .*: must begin with /"):
            check_root_path(path)
    for path in ("/api", "/studies/bestarm", "/static/"):
        with pytest.raises(ba.InvalidInput, match=r"must not begin with /\w+, an address of the service itself"):
            check_root_path(path)
    for wrong in ({"proxies": ["proxy.example"]}, {"root_path": "bestarm"}):
        with pytest.raises(ba.InvalidInput, match=r"^(trusted-proxies|root-path) = "):
            serve(str(tmp_path / "x.db"), token=TOKEN, **wrong)
    assert not list(tmp_path.iterdir()), "no database is made before that"
    with pytest.raises(ba.InvalidInput, match=r"trusted-proxies = '10\.0\.0\.1': a proxy lets other machines in"):
        check_access("127.0.0.1", None, (), ["10.0.0.1"])


def test_a_prefix_counts_from_a_trusted_proxy_only(tmp_path: Path) -> None:
    prefix = {"X-Forwarded-Prefix": "/bestarm"}
    with (
        running(str(tmp_path / "x.db"), token=TOKEN) as trusting_nobody,
        running(str(tmp_path / "x.db"), token=TOKEN, proxies=["127.0.0.1"]) as url,
        httpx.Client(timeout=PATIENCE) as client,
    ):
        # The proxy may have taken it off the path, or not.
        for path in ("/bestarm/api/health", "/api/health", "/bestarm", "/bestarm/", "/"):
            assert client.get(url + path, headers=prefix).status_code == 200
        assert client.get(f"{url}/bestarmed/api/health", headers=prefix).status_code == 404
        assert client.get(f"{url}/bestarm/api/health").status_code == 404
        assert client.get(f"{trusting_nobody}/bestarm/api/health", headers=prefix).status_code == 404
        refused(client.get(url, headers={"X-Forwarded-Prefix": "//evil.example"}), 400, "must begin with /")


def test_the_path_does_not_open_what_needs_a_token(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), token=TOKEN, root_path="/bestarm/") as url:
        assert url.endswith("/bestarm")
        for path in ("/api/studies", "/metrics", "/openapi.json", "/api"):
            refused(httpx.get(url + path, timeout=PATIENCE), 401, "Authorization: Bearer")
            refused(httpx.get(url.removesuffix("/bestarm") + path, timeout=PATIENCE), 401, "Authorization: Bearer")
