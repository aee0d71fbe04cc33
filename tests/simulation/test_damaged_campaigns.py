"""A campaign's files that are damaged are named."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.outside import DEEP, HUGE, PLAN, one_line

import bestarm as ba
from bestarm.simulation.campaign import Campaign


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, Path]:
    grid = Campaign.grid([PLAN], policies=["racing"], runs=20)
    folder = tmp_path_factory.mktemp("campaign")
    grid.run(folder)
    return grid, folder


def damaged_lines(line: str) -> Iterator[str]:
    """The line of a chunk with one field of the wrong kind, and a checksum that is right all the same."""
    chunk = json.loads(line.partition(" ")[2])
    lists = ("answers", "tests", "cost")
    for name in chunk:
        wrong: list[Any] = [None, "x", {}, [], [None], -1, 10**30, float("nan"), True, [[1]], ["1"] * 20, [10**30] * 20]
        wrong += [[float("inf")] * 20, [1.5] * 20] if name in lists else [1.5]
        for value in wrong:
            if (name, value) in (("cost", [1.5] * 20), ("seconds", 1.5), ("seconds", 10**30), ("seconds", True)):
                continue
            data = json.dumps(chunk | {name: value})
            yield f"{zlib.crc32(data.encode()):08x} {data}\n"
        data = json.dumps({key: value for key, value in chunk.items() if key != name})
        yield f"{zlib.crc32(data.encode()):08x} {data}\n"
    for data in ("[]", "null", "[" * DEEP, f'{{"first": {HUGE}}}', '{"cell": "a", "cell": "b"}'):
        yield f"{zlib.crc32(data.encode()):08x} {data}\n"


def test_a_chunk_of_the_wrong_kind_is_named(campaign: tuple[Campaign, Path]) -> None:
    grid, folder = campaign
    path = folder / "chunks.jsonl"
    whole = path.read_bytes()
    try:
        for line in damaged_lines(whole.splitlines()[0].decode()):
            path.write_text(line)
            with pytest.raises(ba.InvalidInput, match=r"chunks.jsonl, line 1, is damaged; delete that line") as refused:
                grid.run(folder)
            one_line(refused.value)
            assert path.read_text() == line
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"[" * DEEP, b'{"seed": ' + HUGE.encode() + b"}", b'{"a": 1, "a": 2}'],
    ids=lambda content: repr(content[:10]),
)
def test_a_description_that_is_damaged_is_named(campaign: tuple[Campaign, Path], content: bytes) -> None:
    grid, folder = campaign
    path = folder / "campaign.json"
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        with pytest.raises(ba.InvalidInput, match=r"campaign.json is damaged: ") as refused:
            grid.run(folder)
        one_line(refused.value)
    finally:
        path.write_bytes(whole)
