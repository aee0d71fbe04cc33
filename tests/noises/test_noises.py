"""Every noise, discovered, through the whole conformance suite; and that kernels tell all of them apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.installed import install
from tests.lengths import cases
from tests.noises.multiples import check_comparisons_with_a_multiple

import bestarm as ba
from bestarm.evidence.intervals import by_newton, interval_end
from bestarm.evidence.pairs import (
    by_scaled_tangents,
    by_tangents,
    pair_evidence,
    plain_ceiling,
    plain_product,
    product,
    product_ceiling,
    scaled_pair_evidence,
    steep_product,
)
from bestarm.kernel.compile import written_out
from bestarm.noises import dispatch, noise_choices, registry
from bestarm.noises.base import NoiseModel
from bestarm.noises.kernels import NoiseKernels, no_slope, tabulated_radius
from bestarm.noises.registry import all_noises, built_in, kind_of, numbered
from bestarm.policies.leads import lead_at, lead_by_ends, lead_by_search
from bestarm.testing.noises import (
    NOISE_CHECKS,
    Check,
    check_a_record_is_replayed,
    check_interpreted_and_compiled_agree,
    check_studies_end_right,
)

EXAMPLES: list[tuple[NoiseModel, float]] = [
    (ba.Gaussian(2.0), 0.7),
    (ba.Bernoulli(), 0.5),
    (ba.Bernoulli(), 0.02),
    (ba.Bernoulli(), 0.98),
    (ba.Bounded(-2.0, 6.0), 1.0),
    (ba.Bounded(-2.0, 6.0), -1.5),
    (ba.Symmetric(), 0.7),
]


OFFERED = ["symmetric", "bounded", "bernoulli", "duel", "gaussian", "quantile", "exact"]


def test_every_noise_has_an_example() -> None:
    others = {ba.Exact, ba.Quantile, ba.Duel}
    """Without scatter, without a mean, or with a baseline: `test_exact.py`, `test_quantile.py`, `test_duel.py`."""
    assert {type(noise) for noise, _ in EXAMPLES} == set(built_in().values()) - others


FURTHER = [(ba.Bernoulli(), 0.02), (ba.Bernoulli(), 0.98), (ba.Bounded(-2.0, 6.0), -1.5)]
"""Means near an end of the range. With these, checks of whole studies are left to `make torture`."""
WHOLE = (check_studies_end_right, check_interpreted_and_compiled_agree, check_a_record_is_replayed)


@cases(30)
@pytest.mark.parametrize(
    ("noise", "mean", "check"),
    [
        pytest.param(
            *(noise, mean, check),
            id=f"{noise!r}-{mean!r}-{check.__name__}",
            marks=[pytest.mark.torture] if check in WHOLE and (noise, mean) in FURTHER else [],
        )
        for noise, mean in EXAMPLES
        for check in NOISE_CHECKS
    ],
)
def test_conformance(noise: NoiseModel, mean: float, check: Check) -> None:
    check(noise, mean)


@cases(2)
@pytest.mark.parametrize(("noise", "mean"), EXAMPLES, ids=repr)
def test_a_stream_is_compared_with_so_many_times_another(noise: NoiseModel, mean: float) -> None:
    check_comparisons_with_a_multiple(noise, mean)


DISPATCHED = {name: kernel for name, kernel in vars(dispatch).items() if hasattr(kernel, "__bestarm_one_of__")}
DISPATCHED |= {
    "draw": DISPATCHED.pop("draw_own"),
    "pair": pair_evidence,
    "scaled_pair": scaled_pair_evidence,
    "end": interval_end,
    "lead": lead_at,
    "product": product,
    "product_ceiling": product_ceiling,
}


def test_every_operation_is_dispatched() -> None:
    assert set(DISPATCHED) == set(NoiseKernels._fields)


FALLBACKS = {
    "ceiling": None,
    "evidence_and_slope": no_slope,
    "pair": by_tangents,
    "end": by_newton,
    "scaled_pair": by_scaled_tangents,
    "product_ceiling": plain_ceiling,
    "radius": tabulated_radius,
}


def fallback_of(operation: str, kernels: NoiseKernels) -> object:
    if operation == "lead":
        return lead_by_ends if kernels.evidence_and_slope is None else lead_by_search
    if operation == "product":
        return steep_product if kernels.evidence_and_slope is None else plain_product
    if operation == "note":
        return kernels.keep
    return FALLBACKS.get(operation) or kernels.evidence


@pytest.mark.parametrize("operation", NoiseKernels._fields)
def test_each_noise_is_asked_by_its_number(operation: str) -> None:
    """Interpreted by lookup, compiled by a chain of comparisons: to both, every noise's number is its own."""
    expression, alternatives, unknown = DISPATCHED[operation].__bestarm_one_of__
    kernels = [noise.kernels for noise in numbered()]
    own = [getattr(one, operation) or fallback_of(operation, one) for one in kernels]
    assert list(alternatives()) == own
    assert [kind_of(noise) for noise in numbered()] == list(range(len(own)))
    chain = written_out(DISPATCHED[operation])
    distinct = list(dict.fromkeys(own))
    called = [chain.__globals__[f"alternative_{k}"] for k in range(len(distinct))]
    assert called == distinct
    compared = {constant for constant in chain.__code__.co_consts if isinstance(constant, int)}
    # A number that is none of these is no evidence.
    assert compared == set(range(len(own)))
    assert unknown in ("math.nan", "(math.nan, math.nan)", "(math.nan, math.nan, math.nan)", "")
    assert expression.endswith(("kind", "kind[metric]"))


TELLS_APART = re.compile(
    r"\b(setting|s|stream|nature)\.kind(\[\w+\])? *[=!]=|isinstance\((part\.)?noise\b|match (part\.)?noise\b"
)


def test_nobody_else_tells_noises_apart() -> None:
    root = Path(ba.__file__).parent
    files = [file for file in sorted(root.rglob("*.py")) if file.parent.name != "noises"]
    telling = [str(file.relative_to(root)) for file in files if TELLS_APART.search(file.read_text(encoding="utf-8"))]
    assert len(files) > 100
    assert telling == []


def test_forms_offer_every_noise() -> None:
    """Those first that ask for nothing that people do not know."""
    assert [choice["name"] for choice in noise_choices()] == list(all_noises()) == OFFERED
    assert [choice["name"] for choice in noise_choices() if choice["constraints_only"]] == ["quantile"]


def test_an_unknown_noise_is_refused_with_the_choices() -> None:
    accepted = r'must be "symmetric", { bounded = \[LOW, HIGH\] }, "bernoulli", "duel", { gaussian = SIGMA }, '
    for stated in ("poisson", {"poisson": 1.0}, {"bernoulli": 1.0}, {"bounded": 1.0}, {"bounded": [1]}, 7):
        with pytest.raises(ba.InvalidInput, match=accepted):
            ba.Objective("m", "maximize", stated)  # type: ignore[arg-type]


def test_a_broken_plug_in_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "[bestarm.noises]\nodd = no_such_module:Odd\nplain = math:pi\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(all_noises()) == OFFERED
    assert registry.find_noise("gaussian") is ba.Gaussian
    for name, why in (("odd", "No module named 'no_such_module'"), ("plain", "not a subclass of .*NoiseModel")):
        with pytest.raises(ba.InvalidInput, match=why):
            ba.Objective("m", "maximize", name)  # type: ignore[arg-type]
