"""A page of headings, text, tables and figures, as Markdown and as HTML."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any


@dataclasses.dataclass(frozen=True)
class Heading:
    """A section's title."""

    text: str
    level: int = 2


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph; words in backquotes are code."""

    text: str


@dataclasses.dataclass(frozen=True)
class Items:
    """A list of points."""

    items: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table; the first column is text, the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture in a file beside the page, which also exists as SVG, as PDF and as data."""

    stem: str
    caption: str


Block = Heading | Text | Items | Grid | Figure

_KINDS: dict[str, type[Block]] = {kind.__name__: kind for kind in (Heading, Text, Items, Grid, Figure)}


def to_json(blocks: Sequence[Block]) -> str:
    """The blocks as text for a file, until they are put on a page with others."""
    return json.dumps([{"kind": type(block).__name__, **dataclasses.asdict(block)} for block in blocks], indent=1)


def from_json(text: str) -> list[Block]:
    """What `to_json` wrote; anything else is a `ValueError`."""
    try:
        return [
            _KINDS[entry.pop("kind")](**{field: _frozen(value) for field, value in entry.items()})
            for entry in json.loads(text)
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not blocks of a page: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Items(items):
            return "\n".join(f"- {item}" for item in items)
        case Grid(header, rows):
            rule = ("---", *["---:"] * (len(header) - 1))
            return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
        case Figure(stem, caption):
            links = f"[SVG]({stem}.svg), [PDF]({stem}.pdf), [data]({stem}.csv)"
            return f"![{caption}]({stem}.png)\n\n*{caption}* ({links})"


def to_markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _words(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_words(text)}</h{level}>"
        case Text(text):
            return f"<p>{_words(text)}</p>"
        case Items(items):
            return f"<ul>{''.join(f'<li>{_words(item)}</li>' for item in items)}</ul>"
        case Grid(header, rows):
            head = "".join(f"<th>{_words(cell)}</th>" for cell in header)
            body = "".join(f"<tr>{''.join(f'<td>{_words(cell)}</td>' for cell in row)}</tr>" for row in rows)
            return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        case Figure(stem, caption):
            kinds = {"PNG": "png", "SVG": "svg", "PDF": "pdf", "data": "csv"}
            links = ", ".join(f'<a href="{stem}.{suffix}">{kind}</a>' for kind, suffix in kinds.items())
            picture = f'<img src="{stem}.svg" alt="{escape(caption)}">'
            return f"<figure>{picture}<figcaption>{_words(caption)} ({links})</figcaption></figure>"


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222;
       background: #fff }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .92rem }
td, th { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child { text-align: left }
figure { margin: 1.5rem 0 } img { max-width: 100% } figcaption { color: #555 }
@media print { h1, h2, h3, h4 { break-after: avoid } tr, figure, li { break-inside: avoid }
               .scroll { overflow: visible } }
"""


def to_html(blocks: Sequence[Block], title: str) -> str:
    body = "\n".join(map(_html, blocks))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )
