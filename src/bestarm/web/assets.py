"""The dashboard as browsers get it: a page, one script and one style sheet, under names that change with their content.

The sources are plain ES modules and style sheets. They are joined when the service starts, so there is nothing to
build, and a browser that knows this version asks for the page only.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response

from bestarm.web.compression import accepts_gzip
from bestarm.web.errors import Refusal

STATIC = Path(__file__).parent / "static"

_STYLES = ("css/base.css", "css/study.css", "css/reference.css", "css/compare.css", "vendor/uplot/uPlot.min.css")
_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|\* as (\w+)|(\w+)) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export \{ (\w+) as default \};$", re.MULTILINE)
_ADDRESS = re.compile(r'(href|src)="/')


class Asset(NamedTuple):
    """A file that never changes under its name."""

    name: str
    kind: str
    body: bytes
    zipped: bytes


class Dashboard:
    """The page and what it loads."""

    def __init__(self) -> None:
        styles = [_read(name) for name in _STYLES]
        self._assets = [
            _asset("app.js", "text/javascript", join_modules(STATIC / "js" / "main.js")),
            _asset("theme.js", "text/javascript", _read("js/theme.js")),
            _asset("style.css", "text/css", "\n".join([*styles, f"@media print {{\n{_read('css/print.css')}}}\n"])),
            _asset("icon.svg", "image/svg+xml", _read("icon.svg")),
        ]
        self._page = _read("index.html")
        for asset in self._assets:
            self._page = self._page.replace(f'"/assets/{_plain(asset.name)}"', f'"/assets/{asset.name}"')

    def page(self, root_path: str, headers: Headers) -> Response:
        """The page, for a service that is found under that path."""
        text = self._page.replace('data-root=""', f'data-root="{root_path}"')
        body = _ADDRESS.sub(rf'\1="{root_path}/', text).encode()
        answer = {"ETag": f'W/"{_digest(body)}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if answer["ETag"] in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=answer)
        return Response(body, headers=answer, media_type="text/html")

    def asset(self, name: str, headers: Headers) -> Response:
        """A file of the page.

        While replicas are upgraded one after the other, a page may ask for a file of another version. It gets this
        version's, which is not kept.
        """
        for asset in self._assets:
            if _plain(asset.name) == _plain(name):
                kept = "public, max-age=31536000, immutable" if asset.name == name else "no-cache"
                answer = {"Cache-Control": kept, "Vary": "Accept-Encoding"}
                if not accepts_gzip(headers):
                    return Response(asset.body, headers=answer, media_type=asset.kind)
                answer["Content-Encoding"] = "gzip"
                return Response(asset.zipped, headers=answer, media_type=asset.kind)
        raise Refusal(404, "there is nothing at this address")


@functools.cache
def load_dashboard() -> Dashboard:
    """The dashboard of this installation."""
    return Dashboard()


def join_modules(entry: Path) -> str:
    """An ES module with all that it imports as one script, in which each module is a function that runs once."""
    names: dict[Path, str] = {}
    parts: list[str] = []

    def add(path: Path) -> str:
        """Add a module after those that it imports. Returns the name of what it exports."""
        if path in names:
            if not names[path]:
                raise ValueError(f"{path.name} imports itself by way of others")
            return names[path]
        names[path] = ""
        source = _IMPORT.sub(functools.partial(bind, path), path.read_text(encoding="utf-8"))
        if default := _DEFAULT.search(source):
            source, exports = _DEFAULT.sub("", source), [f"default: {default[1]}"]
        else:
            exports = [found[1] for found in _EXPORT.findall(source)]
            source = _EXPORT.sub(r"\1", source)
        names[path] = f"module{len(parts)}"
        parts.append(
            f"// {path.name}\nconst {names[path]} = (() => {{\n{source}\nreturn {{ {', '.join(exports)} }};\n}})();\n"
        )
        return names[path]

    def bind(path: Path, found: re.Match[str]) -> str:
        some, everything, default, address = found.groups()
        module = add((path.parent / address).resolve())
        if everything:
            return f"const {everything} = {module};"
        if default:
            return f"const {default} = {module}.default;"
        return f"const {{{some.replace(' as ', ': ')}}} = {module};"

    add(entry.resolve())
    return "".join(parts)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _asset(name: str, kind: str, text: str) -> Asset:
    body = text.encode()
    stem, _, ending = name.partition(".")
    return Asset(f"{stem}-{_digest(body)}.{ending}", kind, body, gzip.compress(body, mtime=0))


def _plain(name: str) -> str:
    """The name without the digest of its content.

    >>> _plain("app-0123456789abcdef.js")
    'app.js'
    """
    return re.sub(r"-[0-9a-f]{16}(?=\.)", "", name)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]
