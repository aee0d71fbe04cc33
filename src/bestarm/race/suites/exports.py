"""A gate on a suite as files of other programs: hyperfine's JSON, CSV, Markdown, Bencher Metric Format, what
github-action-benchmark reads, what benchstat reads, and JUnit's XML."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import statistics
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from bestarm.answer import finite, plain
from bestarm.race.suites.result import Standing, SuiteGate
from bestarm.race.suites.words import limit_words, notes, ratio_words, rows, verdict
from bestarm.race.tables import markdown_table

_NS = 1e9
_ALONE = {"absent": "only the baseline has it", "new": "only the candidate has it"}


def _programs(one: Standing) -> Iterator[tuple[str, tuple[float, ...]]]:
    yield "baseline", one.old
    yield "candidate", one.new


def as_json(gate: SuiteGate) -> str:
    """hyperfine's keys for each benchmark in each program, and all else under `bestarm`."""
    results = [
        {
            "command": f"{one.name} ({program})",
            "mean": statistics.fmean(times),
            "stddev": statistics.stdev(times) if len(times) > 1 else None,
            "median": statistics.median(times),
            "user": None,
            "system": None,
            "min": min(times),
            "max": max(times),
            "times": list(times),
            "parameters": {"benchmark": one.name, "program": program},
        }
        for one in gate.compared
        for program, times in _programs(one)
        if times
    ]
    return json.dumps({"results": results, "bestarm": to_dict(gate)}, indent=2, ensure_ascii=False)


def to_dict(gate: SuiteGate) -> dict[str, Any]:
    """The verdicts and what they rest on."""
    ratio, low, high = map(finite, gate.geometric_mean)
    return {
        "found": gate.found,
        "decided": gate.decided,
        "verdict": verdict(gate),
        "void_because": [*gate.void_because],
        "delta": gate.delta,
        "pairs": gate.pairs,
        "seed": gate.seed,
        "pauses_seen": [one.name for one in gate.pauses_seen],
        "geometric_mean": ratio,
        "geometric_mean_interval": [low, high],
        "benchmarks": [
            {
                "name": one.name,
                "verdict": one.verdict,
                "limit": finite(one.limit),
                "ratio": finite(one.ratio),
                "interval": [finite(one.low), finite(one.high)],
                "pauses_rarer_than": one.pauses_rarer_than,
                "paused": [*one.paused],
                "withheld": one.withheld or None,
            }
            for one in gate.benchmarks
        ],
        "notes": plain([*notes(gate)]),
        "is_interrupted": gate.is_interrupted,
    }


def as_csv(gate: SuiteGate) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["benchmark", "verdict", "limit", "baseline", "candidate", "ratio", "low", "high"])
    for one in gate.benchmarks:
        means = [statistics.fmean(times) if times else None for _, times in _programs(one)]
        figures = [one.limit, *means, one.ratio, one.low, one.high]
        cells = ["" if figure is None or not math.isfinite(figure) else figure for figure in figures]
        writer.writerow([one.name, one.verdict, *cells])
    return table.getvalue()


def as_markdown(gate: SuiteGate) -> str:
    """A table, and the verdict below it."""
    lines = markdown_table(["Benchmark", "Verdict", "Limit", "Baseline", "Candidate", "Ratio"], rows(gate), {0, 1})
    return "\n".join([*lines, "", verdict(gate), "", next(notes(gate)), ""])


def as_bencher(gate: SuiteGate) -> str:
    """Bencher Metric Format: the candidate's latencies in nanoseconds. Its bounds are the least and the largest run."""
    found = {
        one.name: {
            "latency": {
                "value": _NS * statistics.fmean(one.new),
                "lower_value": _NS * min(one.new),
                "upper_value": _NS * max(one.new),
            }
        }
        for one in gate.compared
        if one.new
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def as_github(gate: SuiteGate) -> str:
    """What github-action-benchmark reads as `customSmallerIsBetter`: the candidate's times."""
    found = [
        {
            "name": one.name,
            "unit": "ns",
            "value": _NS * statistics.fmean(one.new),
            "range": f"± {_NS * statistics.stdev(one.new):.4g}" if len(one.new) > 1 else "",
            "extra": f"{one.verdict}, at most {limit_words(one.limit)}: {ratio_words(one)}",
        }
        for one in gate.compared
        if one.new
    ]
    return json.dumps(found, indent=2, ensure_ascii=False)


def as_benchstat(gate: SuiteGate) -> str:
    """Every run as `go test -bench` prints it. `benchstat -col program FILE` compares the two programs."""
    lines = []
    for place, program in enumerate(("baseline", "candidate")):
        lines.append(f"program: {program}")
        for one in gate.compared:
            lines += [f"{_go_name(one.name)} 1 {_NS * time:.6g} ns/op" for time in (one.old, one.new)[place]]
    return "\n".join([*lines, ""])


def _go_name(name: str) -> str:
    """A name as Go has them: without spaces, and beginning with Benchmark and no small letter."""
    joined = re.sub(r"\s+", "_", name)
    if re.fullmatch(r"Benchmark([^a-z].*)?", joined):
        return joined
    return f"Benchmark{joined[:1].upper()}{joined[1:]}"


def as_junit(gate: SuiteGate) -> str:
    """A test for each benchmark: refuted is a failure; undecided, absent and new are skipped."""
    refuted, passed = len(gate.of("refuted")), len(gate.of("certified"))
    counts = {"tests": len(gate.benchmarks), "failures": refuted, "skipped": len(gate.benchmarks) - refuted - passed}
    suite = ElementTree.Element(
        "testsuite", {"name": "bestarm", "errors": "0"} | {key: str(counts[key]) for key in counts}
    )
    for one in gate.benchmarks:
        seconds = f"{statistics.fmean(one.new):.9f}" if one.new else "0"
        case = ElementTree.SubElement(suite, "testcase", classname="benchmarks", name=_xml(one.name), time=seconds)
        figures = f"{ratio_words(one)}, at most {limit_words(one.limit)}"
        if one.verdict != "certified":
            kind = "failure" if one.verdict == "refuted" else "skipped"
            why = one.withheld or _ALONE.get(one.verdict) or (figures if one.old else "not run in pairs")
            ElementTree.SubElement(case, kind, message=_xml(f"{one.verdict}: {why}"))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    properties = ElementTree.Element("properties")
    ElementTree.SubElement(properties, "property", name="verdict", value=_xml(verdict(gate)))
    suite.insert(0, properties)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Without the characters that XML cannot have."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


EXPORTS = {
    "json": as_json,
    "csv": as_csv,
    "markdown": as_markdown,
    "bencher": as_bencher,
    "github": as_github,
    "benchstat": as_benchstat,
    "junit": as_junit,
}
"""By the name of the option: --export-json and so on."""
