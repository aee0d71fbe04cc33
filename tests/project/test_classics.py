"""The classical algorithms do what their papers say, refuse what they cannot do, and err no more than is proven."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from benchmarks import classics
from benchmarks.classic import kaufmann_koolen, kl_lucb
from benchmarks.classic.families import Classic
from benchmarks.classic.kaufmann_koolen import ProvenTrackAndStop
from benchmarks.classic.kl_lucb import KLLUCB, UnprovenKLLUCB
from benchmarks.classic.proportions import optimal_proportions
from benchmarks.classic.track_and_stop import EagerTrackAndStop, TrackAndStop
from scipy import optimize, special, stats
from tests.lengths import first, lengths
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.kernel.compile import compiled
from bestarm.kernel.state import concluded
from bestarm.policies.from_file import load_policy
from bestarm.simulation.engine import Job
from bestarm.testing.policies import assert_engines_agree
from bestarm.theory.allocation import oracle

ROOT = Path(__file__).parents[2]
POLICIES: list[type[Classic]] = [ProvenTrackAndStop, KLLUCB, TrackAndStop, UnprovenKLLUCB, EagerTrackAndStop]
Floats = npt.NDArray[np.float64]

rates = classics.unconstrained(ba.Bernoulli(), 0.9, 0.2, 0.5)
gaussians = classics.unconstrained(ba.Gaussian(2.0), 1.0, 4.0, 0.0)
NAMES = {"rates": rates, "gaussians": gaussians}


# -------------------------------------------------------------------------------------------------------- proportions


def proportions(problem: ba.Problem) -> Floats:
    """The optimal proportions at the problem's true means, by the kernel."""
    means, noise = problem.true_means()[:, 0], problem.objective.noise
    is_rate, turned = isinstance(noise, ba.Bernoulli), problem.normal_form().sign[0] < 0
    means = 1.0 - means if is_rate and turned else means * problem.normal_form().sign[0] / noise.unit ** (not is_rate)
    weights = np.zeros(len(means))
    optimal_proportions(is_rate, means, int(means.argmax()), np.zeros(len(means)), weights)
    return weights


def informations(problem: ba.Problem, weights: Floats) -> Floats:
    """By rival: how much a test tells against the nearest world in which it is as good as the best arm."""
    means, noise = problem.true_means()[:, 0], problem.objective.noise
    best = int((means * problem.normal_form().sign[0]).argmax())
    rivals = np.delete(np.arange(len(means)), best)
    m = (weights[best] * means[best] + weights[rivals] * means[rivals]) / (weights[best] + weights[rivals])

    def told(k: Any) -> Any:
        if isinstance(noise, ba.Gaussian):
            return weights[k] * (means[k] - m) ** 2 / (2.0 * noise.sigma**2)
        return weights[k] * (special.rel_entr(means[k], m) + special.rel_entr(1.0 - means[k], 1.0 - m))

    found: Floats = told(best) + told(rivals)
    return found


@pytest.mark.parametrize("seed", first(2, range(12)))
@pytest.mark.parametrize("noise", [ba.Bernoulli(), ba.Gaussian(2.0)], ids=["rates", "gaussians"])
def test_no_other_proportions_tell_more(noise: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = classics.unconstrained(noise, *rng.uniform(0.02, 0.98, rng.integers(2, 6)).tolist())
    if seed % 2:
        problem = dataclasses.replace(problem, objective=ba.minimize("reward", noise=noise))
    found = proportions(problem)
    assert found.sum() == pytest.approx(1.0)
    assert (found > 0.0).all()
    told = informations(problem, found).min()
    # The largest v with so much information about every rival; the last variable is v as a share of what was told.
    find: Any = optimize.minimize
    searched = find(
        lambda x: -x[-1],
        [*np.full(len(found), 1.0 / len(found)), 0.0],
        bounds=[(1e-6, 1.0)] * len(found) + [(0.0, 2.0)],
        constraints=[
            {"type": "eq", "fun": lambda x: x[:-1].sum() - 1.0},
            {"type": "ineq", "fun": lambda x: informations(problem, x[:-1]) / told - x[-1]},
        ],
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 500},
    )
    assert searched.x[-1] == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(searched.x[:-1], found, atol=1e-4)
    assert 1.0 / told == pytest.approx(oracle(problem).characteristic_time, rel=1e-6)


def test_proportions_of_extreme_rates() -> None:
    for means in ([1.0, 0.0], [1.0, 0.5, 0.0, 0.0], [0.001, 0.0, 0.0], [0.5, 0.5 - 1e-9, 0.1]):
        problem = classics.unconstrained(ba.Bernoulli(), *means)
        found = proportions(problem)
        assert found.sum() == pytest.approx(1.0)
        assert ((found > 0.0) & (found < 1.0)).all()
    # Of two arms of the same kind, each gets half of the tests; a far third one hardly any.
    assert found == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)
    assert proportions(classics.unconstrained(ba.Gaussian(3.0), 1.0, 0.0)) == pytest.approx([0.5, 0.5])


# --------------------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize("x", [0.05, 0.7, 1.2, 1.7, 3.0, 8.0, 40.0])
def test_the_proven_price_is_that_of_the_paper(x: float) -> None:
    def inverse(y: float) -> float:
        return float(-special.lambertw(-math.exp(-y), -1).real)

    def least(y: float) -> float:
        values = [z * (y - math.log(math.log(z))) for z in np.exp(np.geomspace(1e-4, math.log(1.5), 20_000))]
        return float(min(values))

    assert kaufmann_koolen.h_inverse(1.0 + x) == pytest.approx(inverse(1.0 + x), rel=1e-7)
    tilde = 0.5 * (inverse(1.0 + x) + math.log(2.0 * special.zeta(2.0)))
    assert kaufmann_koolen.price_of_family(x) == pytest.approx(2.0 * least(tilde), rel=1e-6)

    def of_part(part: float) -> float:
        g = 2 * part - 2 * part * math.log(4 * part) + math.log(special.zeta(2 * part)) - 0.5 * math.log(1 - part)
        return float((g + x) / part)

    searched = optimize.minimize_scalar(of_part, bounds=(0.500001, 0.999999), method="bounded").fun
    assert kaufmann_koolen.price_of_gaussian(x) == pytest.approx(searched, rel=1e-4)
    # The price exceeds what it pays for, the log of 1 / probability.
    assert kaufmann_koolen.price_of_family(x) > kaufmann_koolen.price_of_gaussian(x) > x


def test_the_threshold_of_a_pair() -> None:
    setting = ProvenTrackAndStop.new_setting(rates, 0.1, "paper")
    price = 2.0 * kaufmann_koolen.price_of_family(0.5 * math.log(2 / 0.1))
    expected = price + 3.0 * math.log(1.0 + math.log(50)) + 3.0 * math.log(1.0 + math.log(7))
    assert kaufmann_koolen.proven_threshold(setting, 999, 50, 7) == pytest.approx(expected)
    setting = ProvenTrackAndStop.new_setting(gaussians, 0.1, "paper")
    price = 2.0 * kaufmann_koolen.price_of_gaussian(0.5 * math.log(2 / 0.1))
    expected = price + 2.0 * math.log(4.0 + math.log(50)) + 2.0 * math.log(4.0 + math.log(7))
    assert kaufmann_koolen.proven_threshold(setting, 999, 50, 7) == pytest.approx(expected)
    assert kl_lucb.exploration_rate(setting, 3, 23) == pytest.approx(math.log(405.5 * 3 * 11**1.1 / 0.1))


@pytest.mark.parametrize("p", [0.0, 1e-6, 0.02, 0.4, 0.97, 1.0])
def test_bounds_of_rates_are_where_the_divergence_is_allowed(p: float) -> None:
    for allowed in (1e-9, 1e-3, 0.1, 2.0, 60.0):
        q = kl_lucb.upper_rate(p, allowed)
        assert p <= q <= 1.0
        if p < q < 1.0:
            found = float(special.rel_entr([p, 1 - p], [q, 1 - q]).sum())
            # Near 0 and 1 the divergence is steep, and q has only so many digits.
            assert found == pytest.approx(allowed, rel=1e-6, abs=2e-16 / (1 - q) + 1e-15)


# ---------------------------------------------------------------------------------------------------------- decisions


class Walk:
    """One study, decided by the compiled kernel, or step by step by the plain one, too."""

    def __init__(self, policy: type[Classic], problem: ba.Problem, delta: float) -> None:
        self.problem = problem
        self.policy = policy
        self.setting = policy.new_setting(problem, delta, "paper")
        self.compiled = compiled(policy.kernels.propose, policy.name.replace("-", "_"))

    def answer(self, seed: int, most: int, *, compare: bool = False) -> int | None:
        means, rng = self.problem.true_means()[:, 0], np.random.default_rng(seed)
        study = self.policy(self.setting, len(means), 1)
        batch = np.zeros((len(means), 2), np.uint32)
        for _ in range(most):
            plain = copy.deepcopy(study.memory)
            size = self.compiled(self.setting, study.streams, study.memory, batch)
            if compare:
                expected = np.zeros_like(batch)
                assert self.policy.kernels.propose(self.setting, study.streams, plain, expected) == size
                assert (batch[: max(size, 0)] == expected[: max(size, 0)]).all()
                assert all((a == b).all() for a, b in zip(plain, study.memory, strict=True))
            if size <= 0:
                return int(concluded(size))
            for arm, metric in batch[:size].tolist():
                if isinstance(self.problem.objective.noise, ba.Gaussian):
                    value = rng.normal(means[arm], self.problem.objective.noise.sigma)
                else:
                    value = float(rng.random() < means[arm])
                study.tell(arm, metric, value)
        return None


@pytest.mark.parametrize("problem", ["rates", "gaussians"])
@pytest.mark.parametrize("policy", first(2, POLICIES), ids=lambda policy: policy.name)
def test_compiled_decisions_are_the_interpreted_ones(policy: type[Classic], problem: str) -> None:
    """To the last bit, proportions too."""
    walk = Walk(policy, NAMES[problem], 0.1)
    assert walk.answer(1, 3_000, compare=True) is not None


@pytest.mark.torture
@pytest.mark.parametrize("problem", ["rates", "gaussians"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_engines_agree(policy: type[Classic], problem: str) -> None:
    assert_engines_agree(Job(NAMES[problem], policy, 0.1, "paper", 5, 3_000), run=2)


@pytest.mark.parametrize("runs", lengths(60, 1000))
@pytest.mark.parametrize("policy", POLICIES[:2], ids=lambda policy: policy.name)
def test_errors_are_at_most_delta(policy: type[Classic], runs: int) -> None:
    """An easy problem: what is proven is far from tight, so an error is a sign of a mistake."""
    delta = 0.2
    walk = Walk(policy, classics.unconstrained(ba.Bernoulli(), 0.1, 0.9, 0.2), delta)
    answers = [walk.answer(seed, 5_000) for seed in range(runs)]
    assert None not in answers
    # With errors of probability delta exactly, so many more come by chance with a probability below 1e-6.
    assert sum(answer != 1 for answer in answers) <= stats.binom.isf(1e-6, runs, delta)


@pytest.mark.torture
@pytest.mark.parametrize("policy", POLICIES[:2], ids=lambda policy: policy.name)
@pytest.mark.parametrize("noise", [ba.Bernoulli(), ba.Gaussian(1.0)], ids=["rates", "gaussians"])
def test_errors_are_at_most_delta_where_arms_are_nearly_equal(policy: type[Classic], noise: Any) -> None:
    delta, runs = 0.2, 4000
    problem = classics.unconstrained(noise, 0.5, 0.499, 0.499)
    found = ba.simulate(problem, policy=policy, delta=delta, runs=runs, seed=1, max_tests=3_000)
    # By chance with a probability below 1e-6 for each of the four cases.
    assert found.wrong <= stats.binom.isf(1e-6, runs, delta)


def test_one_arm_and_equal_arms() -> None:
    for policy in POLICIES:
        alone = policy(policy.new_setting(classics.unconstrained(ba.Bernoulli(), 0.5), 0.1, "paper"), 1, 1)
        assert alone.propose() == [(0, 0)]
        alone.tell(0, 0, 1.0)
        assert alone.propose() == ba.Stop(0)
        equal = policy(policy.new_setting(rates, 0.1, "paper"), 3, 1)
        for _ in range(100):
            tests = equal.propose()
            assert not isinstance(tests, ba.Stop)
            assert equal.propose() == tests
            for arm, metric in tests:
                equal.tell(arm, metric, 0.0)
        assert equal.streams.counts.min() > 20


def test_what_is_no_number_decides_nothing() -> None:
    for policy in POLICIES:
        study = policy(policy.new_setting(gaussians, 0.1, "paper"), 3, 1)
        for arm, value in enumerate((math.nan, math.inf, 0.0)):
            study.tell(arm, 0, value)
        for _ in range(30):
            tests = study.propose()
            assert not isinstance(tests, ba.Stop)
            for arm, metric in tests:
                study.tell(arm, metric, float(arm))


# ------------------------------------------------------------------------------------------------------------ refusals

_arms = [ba.Arm(name, {"gain": 0.3, "harm": 0.2}) for name in "ab"]
_plain: dict[str, Any] = {
    "arms": [ba.Arm(name, {"gain": 0.3}) for name in "ab"],
    "objective": ba.maximize("gain", noise=ba.Bernoulli()),
}
_limited = {"arms": _arms, "objective": _plain["objective"]}
_harm = ba.at_most("harm", 0.5, noise=ba.Bernoulli())


def _with_noise(noise: Any) -> dict[str, Any]:
    return _plain | {"objective": ba.maximize("gain", noise=noise)}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "constraints": (_limited | {"constraints": [_harm]}, "knows no constraints"),
    "measurements": (
        _limited | {"constraints": [_harm], "measurements": [ba.measurement("gain", "harm")]},
        "tests one metric at a time",
    ),
    "bounded": (_with_noise(ba.Bounded(0.0, 1.0)), "knows Bernoulli and Gaussian results, and no bounded ones"),
    "symmetric": (_with_noise(ba.Symmetric()), "knows Bernoulli and Gaussian results, and no symmetric ones"),
    "exact": (_with_noise(ba.Exact()), "knows Bernoulli and Gaussian results, and no exact ones"),
    "tolerance": (
        _plain | {"objective": ba.maximize("gain", noise=ba.Bernoulli(), tolerance=0.1)},
        "finds the best arm itself",
    ),
    "items": (_plain | {"items": 50}, "does not compare arms item by item"),
    "short list": (_plain | {"top": 2}, "does not decide studies with the goal 'best' and top = 2"),
    "top": (_plain | {"goal": "top", "top": 2}, "does not decide studies with the goal 'top'"),
    "any feasible": (
        _limited | {"constraints": [_harm], "goal": "any feasible"},
        "does not decide studies with the goal 'any feasible'",
    ),
    "baseline": (
        _limited
        | {"constraints": [ba.at_most("harm", relative_to_baseline=1.1, noise=ba.Bernoulli())], "baseline": "a"},
        "does not compare arms with a baseline",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_name_the_policy_and_what_it_cannot_do(kind: str) -> None:
    fields, reason = REFUSED[kind]
    if len(fields["arms"]) < 3 and fields.get("top"):
        fields = fields | {"arms": [*fields["arms"], ba.Arm("c", {"gain": 0.1})]}
    for policy in POLICIES:
        with pytest.raises(ba.InvalidInput) as refused:
            ba.simulate(ba.Problem(**fields), policy=policy, runs=1)
        assert f"policy = '{policy.name}': {reason}" in str(refused.value)
        assert "certify" in str(refused.value)


def test_a_reserve_is_refused() -> None:
    plan = ba.Plan(**_plain, reserve=0.2)
    for policy in POLICIES:
        with pytest.raises(ba.InvalidInput, match=rf"policy = '{policy.name}': shares all of delta"):
            ba.simulate(plan, policy=policy, runs=1)


# --------------------------------------------------------------------------------------------------------- the command

FILES = {
    "track_and_stop.py": ["TrackAndStop", "EagerTrackAndStop"],
    "kaufmann_koolen.py": ["ProvenTrackAndStop"],
    "kl_lucb.py": ["KLLUCB", "UnprovenKLLUCB"],
}


def test_policies_are_found_by_file() -> None:
    folder = ROOT / "benchmarks" / "classic"
    names = [load_policy(f"{folder / file}:{kind}").name for file, kinds in FILES.items() for kind in kinds]
    assert sorted(names) == sorted(policy.name for policy in POLICIES)


def test_a_file_finds_its_neighbors_from_anywhere(tmp_path: Path) -> None:
    """In a process that knows nothing of this checkout but the package. exp1-a has constraints."""
    file = ROOT / "benchmarks" / "classic" / "kaufmann_koolen.py"
    ended = subprocess.run(
        [sys.executable, "-m", "bestarm", "simulate", "exp1-a", "--policy", f"{file}:ProvenTrackAndStop"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ba.__file__).parents[1]), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 2
    assert "track-and-stop-proven" in ended.stderr
    assert "knows no constraints; choose certify" in ended.stderr


@pytest.mark.parametrize("first_one", lengths(-1, 0))
def test_the_command_prints_tables_and_json(
    first_one: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the short form, `certify` on the last problem only."""
    contenders = classics.CONTENDERS[first_one:]
    monkeypatch.setattr(classics, "CONTENDERS", contenders)
    monkeypatch.setattr(classics, "PROBLEMS", classics.PROBLEMS[first_one:])
    classics.main(["--runs", "2", "--seed", "3"])
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == len(classics.PROBLEMS)
    for table, classical in zip(tables, classics.PROBLEMS, strict=True):
        head, rule, bound, *rows = table.splitlines()
        assert head.startswith(f"| {classical.name} |")
        assert {line.count(" |") for line in (head, rule, bound, *rows)} == {head.count(" |")}
        assert [row.split(" | ")[0] for row in rows] == [f"| {contender.label}" for contender in contenders]
    classics.main(["--runs", "2", "--seed", "3", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found) == len(classics.PROBLEMS) * len(contenders) * len(classics.DELTAS)
    assert all(f"{cell['mean_tests']:,.0f} ± " in "".join(tables) for cell in found)
    assert all(cell["lower_bound"] > 0.0 and cell["seconds_per_test"] > 0.0 for cell in found)


def test_the_document_has_the_tables_that_the_command_prints() -> None:
    """Their heads and first columns; the figures take minutes."""
    page = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    for classical in classics.PROBLEMS:
        assert f"\n| {classical.name} | proven |" in page
    for contender in classics.CONTENDERS:
        assert page.count(f"\n| {contender.label} |") == len(classics.PROBLEMS)
