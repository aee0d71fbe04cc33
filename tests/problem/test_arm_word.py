"""What a study calls its arms."""

from __future__ import annotations

import pytest

import bestarm as ba
from bestarm.texts import Noun, side_by_side

GAIN = ba.maximize("gain", noise=ba.Gaussian(1.0))


def test_it_is_left_out_of_files_unless_stated() -> None:
    plain, named = (ba.Plan(["a", "b"], GAIN, **words) for words in ({}, {"arm_word": "dose"}))  # type: ignore[arg-type]
    assert "arm_word" not in plain.to_data()
    assert named.to_data()["arm_word"] == "dose"
    assert ba.Plan.from_toml(named.to_toml()) == named
    assert ba.Plan.from_json(named.to_json()).noun == Noun("dose", "doses")


@pytest.mark.parametrize(
    ("word", "many"),
    [
        *(("formulation", "formulations"), ("batch", "batches"), ("recipe family", "recipe families"), ("key", "keys")),
        *(("mouse/mice", "mice"), ("Wirkstoff / Wirkstoffe", "Wirkstoffe")),
    ],
)
def test_plurals(word: str, many: str) -> None:
    assert ba.Problem(["a", "b"], GAIN, arm_word=word).noun.many == many


@pytest.mark.parametrize("word", ["", " ", "a/b/c", "<b>", "x" * 41, "1st", 3, None, "a\nb"])
def test_what_is_no_noun_is_refused(word: object) -> None:
    with pytest.raises(ba.InvalidInput, match=r"arm_word = .*must be a noun"):
        ba.Problem(["a", "b"], GAIN, arm_word=word)  # type: ignore[arg-type]


def test_it_is_what_people_read() -> None:
    price = ba.at_most("price", 3, noise=ba.Exact())
    plan = ba.Plan(["a", "b"], ba.maximize("gain", noise=ba.Exact()), [price], arm_word="dose")
    study = ba.Study.create(plan, storage="sqlite:///:memory:")
    study.add([("a", "price", 5), ("b", "price", 6), ("a", "gain", 1), ("b", "gain", 1)])
    assert str(study.answer).startswith("no dose is feasible")
    assert study.status().to_dict()["arm_word"] == "dose"
    with pytest.raises(ba.InvalidInput, match="another dose has this name already"):
        ba.Plan(["a", "a"], GAIN, arm_word="dose")


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        ba.Problem(["a", "a"], GAIN, top=9, baseline="c")
    assert [complaint.field for complaint in caught.value.complaints] == ["arms[1].name", "baseline", "top"]


def test_numbers_are_written_as_people_write_them() -> None:
    assert side_by_side(6.057e-05, 99.97) == ["0", "99.97"]
    assert side_by_side(-0.0, 1.0) == ["0", "1"]
    assert side_by_side(0.00005, 0.00007) == ["0.00005", "0.00007"]
