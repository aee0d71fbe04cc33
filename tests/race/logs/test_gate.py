"""Gates on logs: verdicts, how often they err, and what is refused.

Seeds are fixed; probabilities of failing by chance are those under a random seed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import lengths

import bestarm as ba
from bestarm.problem import Constraint
from bestarm.race.logs.gate import LogGate, gate_logs
from bestarm.race.logs.words import more_words, notes, rows, to_dict, verdict

DATA = Path(__file__).parent / "data"
Frame = dict[str, list[Any]]


def log(values: Any, **columns: Any) -> Frame:
    return {"item": [*range(len(values))], "right": [*map(float, values)], **columns}


def pair(items: int, seed: int = 0, *, worse: float = 0.0, epochs: int = 1) -> tuple[Frame, Frame]:
    """Two logs that agree on seven items in ten; the candidate is worse by so much in the mean."""
    random = np.random.default_rng(seed)
    old = random.random((items, epochs)) < 0.5
    afresh = random.random((items, epochs)) < 0.5 - worse / 0.3
    new = np.where(random.random((items, epochs)) < 0.3, afresh, old)
    names = np.repeat(np.arange(items), epochs).tolist()
    old_log, new_log = ({"item": [*names], "right": one.ravel().astype(float).tolist()} for one in (old, new))
    return old_log, new_log


def first(count: int, *logs: Frame) -> tuple[Frame, Frame]:
    """The first rows of two logs."""
    old, new = ({key: column[:count] for key, column in one.items()} for one in logs)
    return old, new


def at_least(margin: float | None = None, **more: Any) -> Constraint:
    return ba.at_least("right", relative_to_baseline=True, margin=margin, noise=ba.Bernoulli(), **more)


def gate(old: Frame, new: Frame, *limits: Constraint, **options: Any) -> LogGate:
    return gate_logs(old, new, limits or [at_least(0.02)], **{"seed": 1, "continuations": 0, **options})


def refusal(old: Frame, new: Frame, *limits: Constraint, **options: Any) -> str:
    with pytest.raises(ba.InvalidInput) as error:
        gate(old, new, *limits, **options)
    return str(error.value)


# ------------------------------------------------------------------------------------------------------- how often


@pytest.mark.parametrize("gates", lengths(16, 2_000))
@pytest.mark.parametrize(
    ("noise", "epochs", "worse", "margin"), [(ba.Bernoulli(), 1, 0.0, None), (ba.Bounded(0, 1), 3, 0.05, 0.05)]
)
def test_two_logs_on_the_limit_err_in_at_most_delta(
    gates: int, noise: Any, epochs: int, worse: float, margin: float | None
) -> None:
    """On the limit, neither verdict may be more frequent than δ: with the same model twice and a limit of 0, and with a
    candidate that is worse by all that the limit allows. Each case fails by chance with probability below 1e-5 if the
    guarantee holds with equality."""
    delta, found = 0.2, Counter[str]()
    limit = ba.at_least("right", relative_to_baseline=True, margin=margin, noise=noise)
    for number in range(gates):
        old, new = pair(80, number, worse=worse, epochs=epochs)
        found[gate(old, new, limit, delta=delta, seed=number).found] += 1
    most = binom.isf(0.5e-5, gates, delta)
    assert max(found["certified"], found["refuted"]) <= most
    assert found["void"] <= most


def test_verdicts() -> None:
    old, same = pair(300, 1)
    better, worse = log(np.ones(300)), log(np.zeros(300))
    passed, failed, unclear = gate(old, better), gate(old, worse), gate(old, same, at_least())
    assert len(repr(passed)) < 500
    assert (passed.found, failed.found, unclear.found) == ("certified", "refuted", "undecided")
    assert verdict(passed).startswith(f"CERTIFIED with 95% confidence after {passed.used} of 300 items")
    assert verdict(failed).startswith("REFUTED with 95% confidence")
    assert verdict(unclear).startswith("UNDECIDED after all 300 items")
    # The means are over all items, however early it was decided.
    assert passed.used < 300
    assert passed.means("right") == pytest.approx((sum(old["right"]) / 300, 1.0))


def test_intervals_are_those_of_the_difference() -> None:
    """Neither end is cut at an end of the range of single values."""
    found = gate(log([0, 0, 0, 1] * 2), log([0, 0, 1, 1] * 2), at_least(0.1))
    [(low, high)] = found.apart
    assert low < -0.25 < 0.25 < high
    [row] = rows(found)
    assert row[:5] == ("right at least the baseline − 0.1", "open", "0.25", "0.5", "+0.25")


def test_figures_and_intervals_are_over_all_items_however_early_it_was_decided() -> None:
    random = np.random.default_rng(3)
    level = random.permutation(1000) + 1.0
    old = log(np.zeros(1000), seconds=(3 * level).tolist(), size=(2 + random.random(1000)).tolist())
    new = log(random.random(1000) < 0.5, seconds=level.tolist(), size=old["size"])
    limits = [
        ba.at_most("seconds", 1500, noise=ba.Quantile(0.95)),
        ba.at_most("seconds", 600, per="size", noise=ba.Bounded(-2000, 3000)),
        ba.at_least("right", relative_to_baseline=True, noise=ba.Bernoulli()),
    ]
    for candidate, base, verdicts in ((new, old, "certified"), (old, new, "refuted")):
        found = gate(base, candidate, *limits)
        assert (found.found, found.used < 200) == (verdicts, True)
        figures = [(950, 2850), tuple(np.sum(one["seconds"]) / np.sum(old["size"]) for one in (new, old))]
        for (low, high), part, other in zip(figures, found.standings, found.baseline, strict=False):
            assert sorted((part.mean, other.mean)) == pytest.approx([low, high])
        assert to_dict(found)["limits"][0]["of_these_items"] == {
            "baseline": found.baseline[0].mean,
            "candidate": found.standings[0].mean,
        }
        part, (low, high) = found.standings[0], found.apart[2]
        # With 1,000 items an interval is a fraction of what it was after a hundred, and agrees with the verdict.
        assert part.low <= part.mean <= part.high < 1.1 * part.low
        assert high - low < 0.25
        assert low < np.mean(candidate["right"]) - np.mean(base["right"]) < high
        assert (low >= 0.0) == (found.standings[2].verdict == "holds")
        assert (high < 0.0) == (found.standings[2].verdict == "violated")


def test_several_limits_share_one_delta() -> None:
    old, new = pair(400)
    old["seconds"], new["seconds"] = [2.0 + 0.001 * k for k in range(400)], [1.0 + 0.001 * k for k in range(400)]
    quick = ba.at_most("seconds", 3.0, noise=ba.Quantile(0.9))
    half = ba.at_most("seconds", relative_to_baseline=0.9, noise=ba.Bounded(0, 10))
    found = gate(old, new, at_least(0.2), quick, half)
    assert found.found == "certified"
    assert [stands.verdict for stands in found.standings] == ["holds"] * 3
    slow = gate(old, new, at_least(0.2), ba.at_most("seconds", 1.1, noise=ba.Quantile(0.9)))
    assert (slow.found, slow.standings[1].verdict) == ("refuted", "violated")
    # A quantile alone has no mean to be shown.
    alone = gate(old, new, quick)
    assert (alone.found, [row[0] for row in rows(alone)]) == ("certified", ["p90(seconds) at most 3"])


def test_a_metric_without_a_range() -> None:
    random = np.random.default_rng(0)
    level = random.lognormal(0, 1, 300)
    old = log(np.zeros(300), quality=(level + 0.1 * random.standard_normal(300)).tolist())
    new = log(np.zeros(300), quality=(level + 0.1 * random.standard_normal(300)).tolist())
    limit = ba.at_least("quality", relative_to_baseline=True, margin=0.1, noise=ba.Symmetric())
    assert gate(old, new, limit).found == "certified"


# --------------------------------------------------------------------------------------------------------- the order


def test_the_seed_alone_says_the_order() -> None:
    old, new = pair(200)
    turned_old, turned_new = ({key: column[::-1] for key, column in one.items()} for one in (old, new))
    once, again, other = gate(old, new), gate(turned_old, turned_new), gate(old, new, seed=2)
    assert once.pairs.items == again.pairs.items
    assert to_dict(once)["digest"] == to_dict(again)["digest"]
    assert sorted(once.pairs.items) == sorted(other.pairs.items)
    assert once.pairs.items != other.pairs.items
    drawn = {gate(old, new, seed=None).seed for _ in range(3)}
    assert len(drawn) == 3
    assert any("--seed 1 repeats it" in note for note in notes(once))


def test_more_items_go_on_after_an_earlier_verdict() -> None:
    old, new = pair(200)
    few = first(120, old, new)
    earlier = to_dict(gate(*few, at_least(0.01)))
    later = gate(old, new, at_least(0.01), after=earlier, seed=7)
    assert list(later.pairs.items[:120]) == earlier["items"]
    assert len(later.pairs.items) == 200
    new["right"][5] = 1.0 - new["right"][5]
    assert "have changed since" in refusal(old, new, at_least(0.01), after=earlier)
    assert "is no longer in both logs" in refusal(*few, at_least(0.01), after=to_dict(later))


def test_what_goes_on_after_an_earlier_verdict_is_the_same_gate() -> None:
    """Limits and an error that are chosen once the first items have been seen would be another gate."""
    old, new = pair(200)
    earlier = to_dict(gate(*first(120, old, new), at_least(0.01)))
    other = refusal(old, new, at_least(0.2), after=earlier)
    assert "is about other limits (right at least the baseline − 0.01)" in other
    assert "is about other limits" in refusal(old, new, at_least(0.01), at_least(), after=earlier)
    assert "delta = 0.3: must be that of the earlier verdict, 0.05" in refusal(
        old, new, at_least(0.01), after=earlier, delta=0.3
    )


# --------------------------------------------------------------------------------------------- items and their values


def test_items_without_a_result_are_named_and_never_silently_left_out() -> None:
    old, new = pair(60)
    for column in new.values():
        del column[10]
    new["right"][3] = math.nan
    said = refusal(old, new)
    assert "2 of 60 items lack a result" in said
    assert "'10' is not in candidate" in said
    assert "'3' has no number as 'right' in candidate" in said
    without = gate(old, new, missing="leave-out")
    assert (len(without.pairs.items), set(without.pairs.left_out)) == (58, {"10", "3"})
    assert any("Left out: 2 items" in note for note in notes(without))
    counted = gate(old, new, missing={"right": 0.0})
    assert (len(counted.pairs.items), set(counted.pairs.filled)) == (60, {"10", "3"})
    place = counted.pairs.items.index("10")
    assert counted.pairs.values[place].tolist() == [[old["right"][10]], [0.0]]
    assert "no limit is about this metric" in refusal(old, new, missing={"wrong": 0.0})
    assert "or leave-out" in refusal(old, new, missing="leave_out")
    assert "has no item in common" in refusal(log([1.0]), {"item": ["a"], "right": [1.0]}, missing="leave-out")


def test_epochs_count_with_their_mean() -> None:
    old: Frame = {"item": ["a", "a", "b"], "right": [1.0, 0.0, 1.0]}
    new: Frame = {"item": ["b", "a", "b", "a"], "right": [0.0, 1.0, 1.0, 1.0]}
    limit = ba.at_least("right", relative_to_baseline=True, margin=0.5, noise=ba.Bounded(0, 1))
    found = gate(old, new, limit)
    values = dict(zip(found.pairs.items, found.pairs.values[:, :, 0].tolist(), strict=True))
    assert values == {"a": [0.5, 1.0], "b": [1.0, 0.5]}
    assert any("up to 2 epochs" in note for note in notes(found))


@pytest.mark.parametrize("part", ["doc", "doc_hash", "target", "target_hash"])
def test_logs_of_other_items_are_refused(part: str, tmp_path: Path) -> None:
    """An answer key that has changed is another task, also where the hashes were left as they are, or are not there."""
    rows = [{"doc_id": k, "doc": {"q": k}, "target": k, "metrics": ["acc"], "acc": 1.0} for k in range(3)]
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    for row in rows:
        row |= {f"{what}_hash": str(row[what]) for what in ("doc", "target") if "hash" in part or row["doc_id"]}
    old.write_text("\n".join(map(json.dumps, rows)))
    limit = ba.at_least("acc", relative_to_baseline=True, margin=0.5, noise=ba.Bernoulli())
    # The prompt has the model's chat template, and is no part of the item.
    others = [row | {"prompt_hash": "another", "target": str(row["target"])} for row in rows]
    new.write_text("\n".join(map(json.dumps, others)))
    assert gate_logs(old, new, [limit], seed=1, continuations=0).found == "undecided"
    rows[0][part] = {"q": 9} if part == "doc" else "9"
    new.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ba.InvalidInput, match=rf"'0': is not the same item .* its {part} differs \(1 such items\)"):
        gate_logs(old, new, [limit], seed=1)


def test_other_programs_say_what_an_item_is(tmp_path: Path) -> None:
    openai = (DATA / "openai-new.jsonl").read_text()
    promptfoo = (DATA / "promptfoo.json").read_text()
    for base, text, old, new, choice, part in (
        ("openai-base.jsonl", openai, '"expected": "14"', '"expected": "15"', "", "target"),
        ("promptfoo.json::1", promptfoo, '"output.length <= 20"', '"output.length <= 21"', "::1", "assertions"),
    ):
        path = tmp_path / "new.json"
        path.write_text(text.replace(old, new))
        metric = "match" if part == "target" else "success"
        limit = ba.at_least(metric, relative_to_baseline=True, noise=ba.Bernoulli())
        with pytest.raises(ba.InvalidInput, match=f"its {part} differs"):
            gate_logs(f"{DATA / base}", f"{path}{choice}", [limit], seed=1)


def test_what_is_refused() -> None:
    old, new = pair(30)
    assert "there is none in baseline; it has right" in refusal(
        old, new, ba.at_least("wrong", 0.5, noise=ba.Bernoulli())
    )
    assert "seed = -1: must be a whole number" in refusal(old, new, seed=-1)
    assert "delta = 2" in refusal(old, new, delta=2)
    with pytest.raises(ba.InvalidInput, match="limits: say what passes"):
        gate_logs(old, new, [])
    with pytest.raises(ba.InvalidInput, match="cannot have this name"):
        gate(log([1], candidate=[1.0]), log([1], candidate=[1.0]), ba.at_least("candidate", 0.5, noise=ba.Bernoulli()))
    scores = log([1] * 20, score=[3.0] * 20)
    limit = ba.at_least("score", 0.5, noise=ba.Bounded(0, 1))
    assert "score" in refusal(scores, scores, limit)


# -------------------------------------------------------------------------------------------------------- more items


def test_how_many_more_items_would_settle_it() -> None:
    old, new = pair(100)
    found = gate(old, new, at_least(0.05), continuations=8)
    more = found.more_items
    assert more is not None
    assert (more.runs, more.limit, more.certified + more.refuted + more.open) == (8, 2000, 8)
    assert more.half <= more.most
    assert "more items would settle it" in more_words(found)
    assert more == gate(old, new, at_least(0.05), continuations=8).more_items
    # A model is never certainly as good as itself.
    itself = gate(old, old, at_least(), continuations=4)
    assert itself.more_items is not None
    assert itself.more_items.open == 4
    assert "More items like these are unlikely to settle it" in more_words(itself)
    assert to_dict(itself)["more_items"]["half_within"] is None
    assert gate(*pair(8), at_least(), continuations=4).more_items is None


def test_a_stated_range_that_is_far_too_wide_is_what_keeps_a_gate_open() -> None:
    old, new = (log([1] * 100, cost=[mean * (0.9 + 0.002 * k) for k in range(100)]) for mean in (0.001, 0.01))
    limit = ba.at_most("cost", 1.5, relative_to_baseline=True, noise=ba.Bounded(0, 10))
    words = more_words(gate(old, new, limit, continuations=4))
    assert "The values of cost lie between 0.0009 and 0.01098, a small share of their stated range of 0 to 10" in words
    assert "The candidate is too close" not in words
    assert gate(old, new, dataclasses.replace(limit, noise=ba.Bounded(0, 0.05))).found == "refuted"
