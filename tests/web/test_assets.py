"""The dashboard is few files, compressed and kept by browsers, and everything works behind a path of a proxy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.program import bestarm
from tests.tools.nginx import Nginx, nginx
from tests.tools.patience import PATIENCE, wait_until
from tests.web.browser import Visit, Visitor, create, fill_in
from tests.web.service import PLAN, TOKEN, client_at

import bestarm as ba
from bestarm.analysis.standing.arms import ASIDE, VERDICTS
from bestarm.client import Client
from bestarm.web.assets import STATIC, join_modules
from bestarm.web.server import running

STRIPPING = """
location /bestarm/ {{
  proxy_pass {service}/;
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $remote_addr;
  proxy_set_header X-Forwarded-Prefix /bestarm;
  proxy_buffering off;
}}
"""
PASSING_ON = """
location /bestarm/ {{
  proxy_pass {service};
  proxy_set_header Host $http_host;
  proxy_buffering off;
}}
"""


def assets_of(page: httpx.Response) -> list[str]:
    return sorted(set(re.findall(r'"((?:/\w+)?/assets/[^"]+)"', page.text)))


def test_files_are_compressed_and_kept(service: httpx.Client) -> None:
    page = service.get("/")
    assert page.headers["cache-control"] == "no-cache"
    same = service.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert [re.sub(r"-[0-9a-f]{16}", "-X", path) for path in assets_of(page)] == [
        f"/assets/{name}" for name in ("app-X.js", "icon-X.svg", "style-X.css", "theme-X.js")
    ]
    for path in assets_of(page):
        zipped = service.get(path)
        assert zipped.headers["content-encoding"] == "gzip"
        assert zipped.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert zipped.headers["vary"] == "Accept-Encoding"
        for refusing in ("identity", "gzip;q=0", "br"):
            plain = service.get(path, headers={"Accept-Encoding": refusing})
            assert "content-encoding" not in plain.headers
            assert plain.content == zipped.content
        # A page of another version, while replicas are upgraded one after the other.
        other = service.get(re.sub(r"[0-9a-f]{16}", "0123456789abcdef", path))
        assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert service.get("/assets/app.py").status_code == 404


def test_verdicts_have_one_order() -> None:
    words = (STATIC / "js" / "library" / "words.js").read_text(encoding="utf-8")
    for name, verdicts in (("VERDICTS", VERDICTS), ("ASIDE", ASIDE)):
        [listed] = re.findall(rf"^export const {name} = (.*);$", words, re.MULTILINE)
        assert json.loads(listed) == list(verdicts)


def test_one_script_has_every_module(tmp_path: Path) -> None:
    script = join_modules(STATIC / "js" / "main.js")
    sources = {path.name for path in (STATIC / "js").rglob("*.js")} - {"theme.js"}
    assert set(re.findall(r"^// (\S+\.js)$", script, re.MULTILINE)) == sources | {"uPlot.esm.js"}
    first, second = tmp_path / "first.js", tmp_path / "second.js"
    first.write_text('import { two } from "./second.js";\nexport const one = 1;\n')
    second.write_text('import { one } from "./first.js";\nexport const two = 2;\n')
    with pytest.raises(ValueError, match=r"first\.js imports itself by way of others"):
        join_modules(first)


def test_large_answers_are_compressed_unless_another_site_asks(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), token=TOKEN) as url, client_at(url) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        made = client.post(
            "/api/studies", json={"plan": PLAN | {"arms": [f"arm {k}" for k in range(300)]}, "name": "x"}
        )
        study = f"/api/studies/{made.json()['id']}"
        for path in (study, f"{study}/export?format=json", "/openapi.json", "/api/choices"):
            answer = client.get(path)
            assert answer.headers["content-encoding"] == "gzip", path
            assert answer.headers["vary"] == "Accept-Encoding"
            for more in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Accept-Encoding": "br"}):
                assert "content-encoding" not in client.get(path, headers=more).headers, path
        assert "content-encoding" not in client.get("/api/health").headers, "it is small"
        for path in (f"{study}/events", "/api/events"):
            with client.stream("GET", path) as events:
                assert "content-encoding" not in events.headers
                assert next(events.iter_text()).startswith("event:")


@pytest.mark.parametrize("visible", [lambda url: url, lambda url: url + "/"], ids=["without a slash", "with a slash"])
def test_programs_find_a_service_behind_a_path(tmp_path: Path, visible: Callable[[str], str]) -> None:
    with running(str(tmp_path / "x.db"), root_path="/tools/bestarm") as url, Client(visible(url)) as client:
        assert url.endswith("/tools/bestarm")
        study = client.create(ba.Plan.from_record(PLAN | {"name": "far"}), name="far")
        [test] = study.ask(1)
        study.tell(test, 0.0)
        assert client.open("far").status().tests == 1
        shown = bestarm("status", "far", "--db", visible(url), "--json")
        assert json.loads(shown.out)["tests"] == 1
        document = httpx.get(f"{url}/openapi.json", timeout=PATIENCE).json()
        assert document["servers"] == [{"url": "/tools/bestarm"}]
        made = httpx.post(f"{url}/api/studies", json={"plan": PLAN, "name": "near"}, timeout=PATIENCE)
        assert made.headers["location"] == "/tools/bestarm/api/studies/2"
        page = httpx.get(f"{url}/studies/1", timeout=PATIENCE)
        addresses = re.findall(r'(?:href|src)="(/[^"]*)"', page.text)
        assert len(addresses) > 8
        assert all(address.startswith("/tools/bestarm/") for address in addresses)


@pytest.mark.parts("nginx")
@pytest.mark.parametrize("stripped", [True, False], ids=["stripped", "passed on"])
def test_the_dashboard_works_behind_a_proxy(visit: Visit, tmp_path: Path, stripped: bool) -> None:
    options = {"proxies": ["127.0.0.1"]} if stripped else {"root_path": "/bestarm"}
    configuration = STRIPPING if stripped else PASSING_ON
    with running(str(tmp_path / "x.db"), **options) as url:
        service = url.removesuffix("/bestarm")
        with nginx(tmp_path / "nginx", configuration.format(service=service)) as proxy:
            visitor = visit(f"{proxy.url}/bestarm")
            _look_at_all_pages(visitor)
            # All that it asked for is behind the path.
            visitor.check()
            # 499 is a page that was left before it had its answer.
            assert {line.split()[2] for line in proxy.requests()} <= {"200", "201", "304", "499"}, proxy.requests()
            assert all(line.split()[1].startswith("/bestarm/") for line in proxy.requests())
            _count_requests(visitor, proxy)


def _look_at_all_pages(visitor: Visitor) -> None:
    page = visitor.go("/")
    page.get_by_role("link", name="Create the first study").click()
    fill_in(page, "behind a proxy")
    create(page)
    page.get_by_role("heading", level=1, name="behind a proxy").wait_for()
    # Another client's change comes by the stream of events.
    with client_at(visitor.url) as client:
        added = {"results": [{"arm": "25 mg", "metric": "efficacy", "value": 0.25}] * 2}
        client.post(f"/api/studies/{page.url.rpartition('/')[2]}/add", json=added).raise_for_status()
    page.locator("#log td", has_text="result without asking").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Report").click()
    assert "behind a proxy" in Path(download.value.path()).read_text(encoding="utf-8")
    page.get_by_role("link", name="Compare").first.click()
    page.get_by_role("heading", level=1).wait_for()
    page.get_by_role("link", name="API").click()
    page.get_by_text("curl ").first.wait_for(state="attached")
    assert f"curl {visitor.url}/api/" in str(page.locator("pre").first.text_content())
    page.get_by_role("link", name="bestarm", exact=True).click()
    page.get_by_role("link", name="behind a proxy").click()
    page.get_by_role("heading", level=1, name="behind a proxy").wait_for()
    page.get_by_role("link", name="Studies").first.click()
    page.get_by_role("heading", level=1, name="Studies").wait_for()


def _count_requests(visitor: Visitor, proxy: Nginx) -> None:
    """How many a first visit and a later one make, the program's own questions left out."""

    def load() -> list[str]:
        before = len(proxy.requests())
        page = visitor.go("/")
        page.get_by_role("link", name="behind a proxy").wait_for()
        page.goto("about:blank")
        # Nginx writes down a stream when it has ended.
        wait_until(lambda: any("/api/events" in line for line in proxy.requests()[before:]))
        lines = [re.sub(r"-[0-9a-f]{16}", "", line) for line in proxy.requests()[before:]]
        return sorted(line.removeprefix("GET /bestarm") for line in lines if "/api/" not in line)

    session = visitor.context.new_cdp_session(visitor.page)
    session.send("Network.clearBrowserCache")
    assets = [f"/assets/{name} 200" for name in ("app.js", "icon.svg", "style.css", "theme.js")]
    assert load() == ["/ 200", *assets]
    assert load() == ["/ 304"]
