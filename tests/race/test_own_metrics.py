"""Metrics that are read from what commands print: how they are written, found, counted, decided and shown."""

from __future__ import annotations

import contextlib
import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import lengths
from tests.race.simulated import Draw, Drawn, a_run

from bestarm.race.closing import closing_line
from bestarm.race.contestants import contestants_of
from bestarm.race.exports import as_csv, as_json, as_markdown
from bestarm.race.limits import read_limits, read_objective
from bestarm.race.limits_found import LimitFound
from bestarm.race.own_metrics import measured, read_metric, read_metrics
from bestarm.race.pauses import cutoffs_of, is_pause
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run, Runner
from bestarm.race.summary import difference_lines, limit_lines, note_lines, verdict
from bestarm.study.work.failures import MeasurementFailed
from bestarm.study.work.reading import Unreadable, reader_of, readers_of
from bestarm.validation import InvalidInput

RPS = "rps[1/s]=regex:Requests/sec:\\s+([\\d.]+)"


def printing(values: dict[str, Callable[[random.Random], str]], status: dict[str, int] | None = None) -> Draw:
    def draw(command: str, rng: random.Random) -> Run:
        run = a_run(0.1 + rng.gauss(0, 0.005), status=(status or {}).get(command, 0))
        return Run(**{**run.__dict__, "printed": values[command](rng)})

    return draw


def requests(mean: float, scatter: float = 20.0) -> Callable[[random.Random], str]:
    return lambda rng: f"Requests/sec: {mean + rng.gauss(0, scatter):.3f}\n"


def race(
    draw: Draw,
    metrics: Sequence[str],
    *,
    commands: Sequence[str] = ("old", "new"),
    objective: str = "time",
    at_most: Sequence[str] = (),
    at_least: Sequence[str] = (),
    baseline: str | None = None,
    db: str | None = None,
    seed: int = 0,
    conditions: Conditions | None = None,
    **question: object,
) -> RaceResult:
    known = read_metrics(metrics)
    limits = tuple(read_limits(at_most, baseline, at_least, known))
    asked = Question(objective, limits, baseline, known=known, **question)  # type: ignore[arg-type]
    conditions = conditions or Conditions(timeout=10.0)
    return Race(contestants_of(commands), asked, conditions, db=db, runners=[Drawn(draw, seed)]).run()


@pytest.mark.parametrize(
    ("reader", "output", "found"),
    [
        ("json:.latency.p99", '{"latency": {"p99": 1.25}}', "1.25"),
        ("json:.", "3\n", "3"),
        ("json:.a", 'loading\n{"a": true}\n', "true"),
        ('json:.["p 99"][1]', '{"p 99": [1, 2]}', "2"),
        ("json:.errors", '{"errors": [3, 105800]}', "3/105800"),
        ("json:.runs[-1].mean", '{"runs": [{"mean": 1}, {"mean": 2e3}]}', "2000.0"),
        ("regex:Requests/sec:\\s+([\\d.]+)", "Requests/sec:   991.5\n", "991.5"),
        ("regex:^rps ([0-9]+)$", "rps 1\nrps 2\nrps 3 or so\n", "2"),
        ("regex:[0-9]+", "a 12 b 34", "34"),
        ("regex:99%\\s+(\\S+)", "  90%  1.1ms\n  99%  2.25ms\n", "2.25ms"),
        ("last-line", "x\n 0.5 \n\n", "0.5"),
    ],
)
def test_what_readers_find(reader: str, output: str, found: str) -> None:
    assert reader_of("--metric", reader)(output) == found


@pytest.mark.parametrize(
    ("reader", "output", "complaint"),
    [
        ("json:.p99", '{"latency": 1}', "json:.p99: there is no 'p99' in {\"latency\": 1}; the output ends with"),
        ("json:.a[2]", '{"a": [1, 2]}', "there is no 2 in [1, 2]"),
        ("json:.a", '{"a": {}}', "{} is no number"),
        ("json:.a", "a: 1", "neither the output nor its last line is JSON"),
        ("regex:rps ([0-9]+)", "0 rps", "regex:rps ([0-9]+): nothing matches; the output ends with '0 rps'"),
        ("regex:a(b)?", "a", "the last match lacks a group"),
        ("last-line", " \n", "there is no line; nothing was printed on standard output"),
    ],
)
def test_what_readers_say_otherwise(reader: str, output: str, complaint: str) -> None:
    with pytest.raises(Unreadable) as raised:
        reader_of("--metric", reader)(output)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("p99", "must be NAME=READER"),
        ("p99=xpath:/a", "must say how it is read, as in json:.latency.p99"),
        ("p99=json:", "must say how it is read"),
        ("p99=json:latency", "must be a path such as .latency.p99"),
        ("p99=regex:(", "is no regular expression"),
        ("p99=regex:(a)(b)(c)", "one group for the number, or two"),
        ("time=last-line", "'time' means something else already"),
        ("candidate=last-line", "means something else already"),
        ("x[ms, s]=last-line", "has two units, ms and s"),
        ("x[5..1]=last-line", "the low end of its range must be below the high end"),
        ("x[a..1]=last-line", "an end of the range a..1 must be a number"),
    ],
)
def test_mistakes_in_metrics(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_metric(text)
    assert complaint in str(raised.value)


def test_names_are_there_once() -> None:
    with pytest.raises(InvalidInput, match="there is a metric 'x' already"):
        read_metrics(["x=last-line", "x=json:.x"])


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_text_makes_it_fail_otherwise(one: str, other: str) -> None:
    with contextlib.suppress(InvalidInput):
        metric = read_metric(f"x[{one}]={other}")
        with contextlib.suppress(InvalidInput):
            metric.read("--at-most", other)
        measured(Run(1.0, 1.0, 0.0, 1.0, 1, 0, False, "", printed=one), [metric])
    with contextlib.suppress(InvalidInput):
        reader = reader_of("--metric", f"json:{one}")
        with contextlib.suppress(Unreadable):
            reader(other)


def test_units_of_values_and_limits() -> None:
    known = read_metrics(
        ["p99[ms]=last-line", "size[MB]=last-line", RPS, "score[-5..5]=last-line", "busy[%]=last-line"]
    )
    limits = read_limits(
        ["p99=5ms", "p90(size)=2GB", "rps=0.98x", "score=-1", "busy=7%"], "old", ["rps=900 1/s"], known
    )
    assert [limit.value for limit in limits] == pytest.approx([0.005, 2e9, 0.98, -1.0, 0.07, 900.0])
    assert [limit.words for limit in limits] == [
        "p99 at most 5 ms",
        "p90(size) at most 2 GB",
        "rps at most 0.98x the baseline",
        "score at most -1",
        "busy at most 7%",
        "rps at least 900 1/s",
    ]
    found = [known["p99"].read_value(text) for text in ("5", "5ms", "0.005 s")]  # type: ignore[misc]
    assert found == pytest.approx([0.005] * 3)
    for text, complaint in (
        ("p99=5", "must be a number with one of the units ns, us"),
        ("p99=-5ms", "must be more than 0"),
        ("rps=5 ms", "must be a number"),
        ("score=7", "must lie inside the stated range of score, -5 to 5"),
        ("p99=1,5ms", "no other marks: p99=1.5ms"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            read_limits([text], None, (), known)
    assert read_objective("rps", "--maximize", known) == "rps"
    with pytest.raises(InvalidInput, match="ok can only be limited"):
        read_objective("ok", "--minimize", read_metrics(["ok[share]=json:.ok"]))


def test_the_most_is_found_and_shown_with_its_unit() -> None:
    draw = printing({"old": requests(1000.0), "new": requests(1200.0)})
    outcome = race(draw, [RPS], objective="rps", goal="maximize")
    assert (outcome.found, outcome.status.answer) == ("certified", "new")
    assert verdict(outcome).startswith("CERTIFIED: new has the highest mean rps, except for outliers")
    [line] = difference_lines(outcome)
    assert line.startswith("new is better than old by ")
    assert " 1/s or more of rps; measured " in line
    assert str(closing_line(outcome)).startswith("new has 1.")
    assert "× the rps of old (" in str(closing_line(outcome))
    data = json.loads(as_json(outcome))
    assert data["bestarm"]["goal"] == "maximize"
    assert data["bestarm"]["metrics"] == {"rps": RPS}
    for result in data["results"]:
        assert len(result["metrics"]["rps"]) == len(result["times"])
        assert all(900 < value < 1300 for value in result["metrics"]["rps"])
    assert "| Failed | rps | Verdict |" in as_markdown(outcome)
    rows = list(csv.DictReader(as_csv(outcome).splitlines()))
    assert [round(float(row["rps"]), -2) for row in rows] == [1000.0, 1200.0]


@pytest.mark.parametrize(("mean", "found"), [(1000.0, "certified"), (900.0, "refuted")])
def test_a_gate_on_at_least_a_share_of_the_baseline(mean: float, found: str) -> None:
    draw = printing({"old": requests(1000.0, 10.0), "new": requests(mean, 10.0)})
    asked = {"at_least": ["rps=0.95x"], "baseline": "old", "objective": CANDIDATE}
    outcome = race(draw, [RPS], **asked)  # type: ignore[arg-type]
    assert outcome.found == found
    [limit] = json.loads(as_json(outcome))["bestarm"]["limits_found"]
    assert (limit["at_most"], limit["at_least"], limit["stated"]) == (None, 0.95, RPS)
    assert limit["low"] <= limit["ratio"] <= limit["high"]
    assert limit["ratio"] == pytest.approx(mean / 1000.0, rel=0.02)
    assert (limit["low"] >= 0.95) == (found == "certified")
    assert LimitFound(**limit).cells[4].endswith(" 1/s")
    assert f"new: rps at least 0.95x the baseline: {'holds' if found == 'certified' else 'violated'}" in "\n".join(
        limit_lines(outcome)
    )


def test_limits_of_their_own() -> None:
    """A mean by a stated range, one that is cut off, a quantile and a share."""

    def told(score: float, p99: float, ok: float) -> Callable[[random.Random], str]:
        return lambda rng: json.dumps(
            {"score": min(10, max(0, rng.gauss(score, 0.3))), "p99": rng.gauss(p99, 0.1), "ok": rng.random() < ok}
        )

    draw = printing({"good": told(8, 2, 1.0), "bad": told(5, 2, 1.0), "late": told(8, 9, 1.0), "weak": told(8, 2, 0.5)})
    metrics = ["score[points, 0..10]=json:.score", "p99[ms]=json:.p99", "ok[share]=json:.ok"]
    outcome = race(
        draw,
        metrics,
        commands=["good", "bad", "late", "weak"],
        at_most=["p90(p99)=4ms", "p99=6ms"],
        at_least=["score=7 points", "ok=80%"],
        baseline="good",
    )
    assert outcome.status.answer == "good"
    assert {arm.name for arm in outcome.status.arms if arm.verdict == "infeasible"} <= {"bad", "late", "weak"}
    assert outcome.ceilings == {"p99": pytest.approx(0.024)}
    assert "More p99 than 24 ms counts as that, also in the certified mean." in list(note_lines(outcome))


@pytest.mark.parametrize(("count", "allowed"), lengths((4, 2), (60, 10)))
def test_equal_commands_are_not_told_apart(count: int, allowed: int) -> None:
    """Of 4 races between commands whose requests a second are equal, at most 2 may claim a difference: at an error
    probability of 5% each, more happen with a probability of 5 in 10,000 (of 60, more than 10: 2)."""
    draw = printing({"old": requests(1000.0), "new": requests(1000.0)})
    outcomes = [race(draw, [RPS], objective="rps", goal="maximize", seed=seed, runs=40) for seed in range(count)]
    assert sum(outcome.found != "undecided" for outcome in outcomes) <= allowed


def test_the_first_run_shows_that_nothing_matches() -> None:
    runner = Drawn(printing({"old": lambda _: "done in 3 s\n", "new": requests(1.0)}))
    asked = Question("rps", goal="maximize", known=read_metrics([RPS]))
    with pytest.raises(MeasurementFailed) as raised:
        Race(contestants_of(["old", "new"]), asked, Conditions(timeout=10.0), runners=[runner]).run()
    assert str(raised.value) == (
        "warm-up run 1 of 'old': 'rps' cannot be read with regex:Requests/sec:\\s+([\\d.]+): nothing matches; the "
        "output ends with 'done in 3 s'"
    )
    assert runner.made == ["old"]


def test_a_value_that_cannot_be_is_not_dropped(tmp_path: Path) -> None:
    """Below 0, outside of a stated range, and no number: the run waits, and the race does not go on without it."""
    seen = iter([8.0] * 6 + [11.0] + [8.0] * 1000)
    draw = printing({"old": lambda _: f"{next(seen)}", "new": lambda rng: f"{rng.uniform(5, 9)}"})
    asked = {"objective": "score", "goal": "maximize", "db": str(tmp_path / "races.db")}
    for _ in range(2):
        with pytest.raises(MeasurementFailed, match=r"of 'old': .* found '11\.0': 11 lies outside the stated range"):
            race(draw, ["score[0..10]=last-line"], **asked)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="--fresh starts over"):
        race(draw, ["score[0..20]=last-line"], **asked)  # type: ignore[arg-type]
    for text, complaint in (
        ("-1", "-1 is below 0, so its range must be stated"),
        ("5 ms", "found '5 ms': must be a number; values with a unit are read by --metric 'x[ms]=…'"),
        ("nan", "finite"),
    ):
        run = measured(Run(1.0, 1.0, 0.0, 1.0, 1, 0, False, "", printed=text), [read_metric("x=last-line")])
        assert complaint in run.unread
        assert run.own == {}
    none = measured(Run(1.0, 1.0, 0.0, 1.0, 1, 0, False, "", printed="3/0"), [read_metric("x[share]=last-line")])
    assert "must lie between 1 and" in none.unread


def test_a_run_that_failed_counts_as_the_worst() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        fails = command == "new" and rng.random() < 0.3
        printed = "Segmentation fault" if fails else f"Requests/sec: {1000 + rng.gauss(0, 10):.3f}"
        return Run(**{**a_run(0.1, status=int(fails)).__dict__, "printed": printed})

    asked = {"at_least": ["rps=900"], "at_most": ["failures=60%"], "objective": CANDIDATE, "baseline": "old"}
    outcome = race(draw, ["rps=regex:Requests/sec: ([0-9.]+)"], **asked)  # type: ignore[arg-type]
    # A mean of 700, since three runs of ten count as 0.
    assert outcome.found == "refuted"
    [fails] = [line for line in limit_lines(outcome) if line.startswith("new: rps")]
    assert "rps at least 900: violated" in fails
    with pytest.raises(MeasurementFailed, match="of 'new': ended with status 1; "):
        race(draw, ["rps=regex:Requests/sec: ([0-9.]+)"], objective="rps", goal="maximize")


def test_a_failed_run_cannot_count_as_the_best() -> None:
    """To be small and at least something: nothing is the worst for both, so the race ends."""

    def draw(command: str, rng: random.Random) -> Run:
        fails = command == "new" and rng.random() < 0.5
        printed = "" if fails else f"{(0.9 if command == 'new' else 0.6) + rng.uniform(-0.05, 0.05):.3f}"
        return Run(**{**a_run(0.1, status=int(fails)).__dict__, "printed": printed})

    conditions = Conditions(timeout=10.0, ignores_failures=True)
    asked = {"objective": "lat", "at_least": ["lat=0.1"], "conditions": conditions}
    with pytest.raises(MeasurementFailed, match="is to be small and to be large"):
        race(draw, ["lat[0..1]=last-line"], **asked)  # type: ignore[arg-type]


def test_a_stopped_run_loses_trials_that_are_not_known() -> None:
    """It is one run of three, and would be one trial of 200,001."""

    def draw(command: str, rng: random.Random) -> Run:
        run = a_run(100.0 if rng.random() < 0.3 else 0.1)
        return Run(**{**run.__dict__, "printed": "0/100000\n"})

    with pytest.raises(MeasurementFailed, match="it is not known how many trials were lost"):
        race(draw, ["err[share]=last-line"], at_most=["err=1%"], runs=200)


def test_pauses_of_what_should_be_large() -> None:
    def run(rps: float) -> Run:
        return Run(**{**a_run(0.1).__dict__, "own": {"rps": rps}})

    first = {"a": [run(500), run(1000)], "b": [run(2000), run(1900)]}
    cutoffs = cutoffs_of(first, {"rps"}, (), {"rps"})
    assert cutoffs["a"] == {"rps": 1250.0, "least rps": 800.0}
    assert cutoffs["b"] == {"rps": 2500.0, "least rps": 800.0}
    assert [is_pause(run(rps), cutoffs["a"]) for rps in (799, 801, 1249, 1251, 0)] == [True, False, False, True, True]
    assert is_pause(a_run(0.1), cutoffs["a"])


def test_rare_large_values_of_either_are_excepted() -> None:
    """A command that is ten times as quick in rare runs may have the larger mean: the verdict says so of both."""
    draw = printing({"old": requests(1000.0, 10.0), "new": requests(1200.0, 10.0)})
    outcome = race(draw, [RPS], objective="rps", goal="maximize")
    assert "except for outliers of old or new rarer than 1 in " in verdict(outcome)
    assert outcome.question.delta_of_each_claim(2) == pytest.approx(0.05 * 0.1 / 2)
    gate = Question(
        CANDIDATE, tuple(read_limits([], "old", ["rps=0.9x"], read_metrics([RPS]))), known=read_metrics([RPS])
    )
    assert gate.delta_of_each_claim(2) == pytest.approx(0.05 * 0.05 / 2)


def test_with_a_stated_range_nothing_is_assumed() -> None:
    draw = printing({"old": lambda rng: f"{rng.uniform(2, 4)}", "new": lambda rng: f"{rng.uniform(6, 8)}"})
    outcome = race(draw, ["score[0..10]=last-line"], objective="score", goal="maximize")
    assert (outcome.found, outcome.status.answer) == ("certified", "new")
    assert verdict(outcome).startswith("CERTIFIED: new has the highest mean score, with 95% confidence")
    assert outcome.cutoffs == {}
    assert "Nothing is assumed of how they scatter." in next(note_lines(outcome))


def test_none_of_many_requests_counts_as_what_it_is(tmp_path: Path) -> None:
    """Of 105,800 requests a run, none failed: a dozen runs settle that less than 0.002% do."""

    def draw(command: str, rng: random.Random) -> Run:
        failed = 0 if command == "good" else round(rng.gauss(100, 10))
        printed = f"{failed} errors of 105800 requests\n"
        return Run(**{**a_run({"good": 0.2, "bad": 0.1}[command] + rng.gauss(0, 0.005)).__dict__, "printed": printed})

    asked = {"metrics": ["errors[share]=regex:(\\d+) errors of (\\d+)"], "commands": ["good", "bad"]}
    kept = {"db": str(tmp_path / "races.db")}
    first = race(draw, **asked, **kept, at_most=["errors=0.002%"], runs=4)  # type: ignore[arg-type]
    outcome = race(draw, **asked, **kept, at_most=["errors=0.002%"], runs=200)  # type: ignore[arg-type]
    assert first.status.tests == 4
    assert (outcome.found, outcome.status.answer) == ("certified", "good")
    assert outcome.status.tests < 40
    assert first.run_log.runs.items() <= outcome.run_log.runs.items()
    good, bad = json.loads(as_json(outcome))["results"]
    assert set(good["metrics"]["errors"]) == {"0/105800"}
    assert bad["verdict"] == "infeasible"
    [line] = [line for line in limit_lines(outcome) if line.startswith("good: errors")]
    assert line.startswith("good: errors at most 0.002%: holds; measured 0%, interval 0% to 0.00")


def test_the_runner_keeps_the_end_of_the_output() -> None:
    with Runner() as runner:
        assert runner.run(["/bin/sh", "-c", "echo 12"], None).printed == ""
        runner.keeps = 10
        run = runner.run(["/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"], None)
    assert (run.printed, run.output) == ("\nline 1999\n"[1:][-10:], 18890)


def test_readers_of_a_study() -> None:
    found = readers_of(["p 99=json:.p99", "p=last-line"], ["p", "p 99"])
    assert {name: reader.text for name, reader in found.items()} == {"p": "last-line", "p 99": "json:.p99"}
    for texts, complaint in (
        (["q=last-line"], "with a metric of the study: 'p' and 'p 99'"),
        (["p=last-line"], "say how 'p 99' is read"),
        (["p=last-line", "p=last-line"], "there is a reader of 'p' already"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            readers_of(texts, ["p", "p 99"])
    assert readers_of([], ["p"]) == {}
