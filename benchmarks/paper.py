"""The experiments of the manuscript in `paper/`: its tables, its figures, and the numbers in its text.

    python benchmarks/paper.py --runs 500

Writes `paper/tables/*.tex` and `paper/figures/*.pdf`, which `paper/main.tex` and `paper/supplement.tex` take in. The
same `--runs` and `--seed` give the same files. `--only NAME` runs one experiment; give all of them the same `--runs`,
since captions take it from `instances`. 500 runs take 8 minutes of a processor's time, and use all cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bestarm as ba
from bestarm.analysis.charts.style import PALETTE, new_figure, tidy
from bestarm.policies import find_policy
from bestarm.policies.base import Policy

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `benchmarks` and `tests` are found, wherever this is run

from benchmarks import classics, noises, sets, tracking
from benchmarks.classic.track_and_stop import EagerTrackAndStop
from benchmarks.correctness import upper_limit
from benchmarks.oracle import oracle_of
from tests.tools.hard import hard_problems

ROOT = Path(__file__).parents[1]
DELTA = 0.1
ALGORITHM_1 = "feasible-lucb"
OTHERS = ("feasibility-first", "performance-first", "tf-lucb", "racing")
SMALL = ("exp1-a", "exp1-b", "exp1-c")
EXPONENTS = (1, 2, 3, 5, 10, 20, 40, 100)
SHOWN = (1, 3, 10, 40, 100)
HARD_DELTAS = (0.2, 0.05)
HARD_TESTS = 1_000


class Settings(NamedTuple):
    """What was asked for."""

    runs: int
    seed: int
    out: Path

    @property
    def long_runs(self) -> int:
        """Studies of each kind where one takes very many tests."""
        return max(self.runs // 5, 2)

    @property
    def short_runs(self) -> int:
        """Studies of each kind where errors are counted."""
        return 10 * self.runs

    def simulate(
        self,
        problem: ba.Problem,
        policy: str | type[Policy],
        delta: float = DELTA,
        *,
        runs: int | None = None,
        max_tests: int = 10**9,
        options: Mapping[str, str] | None = None,
    ) -> ba.Simulation:
        return ba.simulate(
            problem,
            policy=find_policy(policy) if isinstance(policy, str) else policy,
            options=options,
            delta=delta,
            runs=runs or self.runs,
            seed=self.seed,
            max_tests=max_tests,
            keep_streams=False,
        )

    def write_table(self, name: str, columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _row(heads), r"\midrule"]
        lines += [*map(_row, rows), r"\bottomrule", r"\end{tabular}"]
        self.write(name, lines)

    def write(self, name: str, lines: Sequence[str]) -> None:
        path = self.out / "tables" / f"{name}.tex"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("% Made by benchmarks/paper.py.\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")

    def write_numbers(self, name: str, **numbers: str) -> None:
        """Numbers that the text uses, as commands."""
        self.write(name, [rf"\newcommand{{\{key}}}{{{number}}}" for key, number in numbers.items()])

    def save(self, figure: Any, name: str) -> None:
        path = self.out / "figures" / f"{name}.pdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a date, so that the same data give the same file.
        figure.savefig(path, metadata={"CreationDate": None})


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _count(number: float) -> str:
    return f"{number:,.0f}".replace(",", "{,}")


def _text(words: str) -> str:
    r"""Words for TeX.

    >>> _text("5% ones")
    '5\\% ones'
    """
    signs = {"%": r"\%", "−": "$-$", "→": r"$\to$", "±": r"$\pm$", "σ": r"$\sigma$", "–": "--", "δ": r"$\delta$"}
    signs["`"] = ""
    return "".join(signs.get(sign, sign) for sign in words)


# ---------------------------------------------------------------------------------------------- the paper's instances


class Instance(NamedTuple):
    """What was measured on one instance, in tests."""

    name: str
    size: str
    theorem_1: float
    bound: float
    ours: ba.Simulation
    oracle: ba.Simulation
    algorithm_1: ba.Simulation

    def row(self) -> list[str]:
        ours, error = self.ours.mean_tests, self.ours.se_tests
        return [
            self.name,
            self.size,
            _count(self.bound),
            rf"{_count(ours)} $\pm$ {_count(error)}",
            f"{ours / self.bound:.2f}",
            f"{ours / self.oracle.mean_tests:.2f}",
            str(self.ours.wrong),
            _count(self.algorithm_1.mean_tests),
            f"{self.times:.1f}",
        ]

    @property
    def times(self) -> float:
        """How many times as many tests Algorithm 1 takes."""
        return self.algorithm_1.mean_tests / self.ours.mean_tests


INSTANCE_HEADS = (
    "instance",
    r"$K\times(N{+}1)$",
    r"$T^*\mathrm{kl}$",
    r"\certify",
    r"$\div\,T^*\mathrm{kl}$",
    r"$\div$ oracle",
    "wrong",
    "Algorithm 1",
    r"$\div$ \certify",
)
OUR_INSTANCES = ("drug-bernoulli",)
"""Instances that are not in the paper of Cai and Kandasamy."""
MAIN_INSTANCES = (*SMALL, "exp2-n8", "exp2-n64", "exp2-k16", "exp2-k64", "drug", "drug-bernoulli")


def instances(asked: Settings) -> None:
    found = [_instance(asked, name) for name in ba.instance_names()]
    columns = "lrrrrrrrr"
    asked.write_table("instances", columns, INSTANCE_HEADS, [one.row() for one in found if one.name in MAIN_INSTANCES])
    asked.write_table("all-instances", columns, INSTANCE_HEADS, [one.row() for one in found])
    times = [one.times for one in found]
    to_bound = [one.ours.mean_tests / one.bound for one in found]
    to_oracle = [one.ours.mean_tests / one.oracle.mean_tests for one in found]
    asked.write_numbers(
        "numbers",
        runs=_count(asked.runs),
        longruns=_count(asked.long_runs),
        shortruns=_count(asked.short_runs),
        instancecount=str(len(found)),
        papercount=str(sum(one.name not in OUR_INSTANCES for one in found)),
        leasttimes=f"{min(times):.1f}",
        mosttimes=f"{max(times):.1f}",
        leasttobound=f"{min(to_bound):.1f}",
        mosttobound=f"{max(to_bound):.1f}",
        leasttooracle=f"{min(to_oracle):.2f}",
        mosttooracle=f"{max(to_oracle):.2f}",
        wronganswers=str(sum(one.ours.wrong for one in found)),
        studies=_count(asked.runs * len(found)),
    )
    _draw_sizes(asked, found)


def _instance(asked: Settings, name: str) -> Instance:
    plan = ba.instance(name)
    theory = ba.analyze(plan, DELTA)
    ours, oracle, theirs = (asked.simulate(plan, policy) for policy in ("certify", oracle_of(plan), ALGORITHM_1))
    size = rf"${len(plan.arm_names)}\times{len(plan.metrics)}$"
    return Instance(name, size, theory.lower_bound, theory.kl_bound, ours, oracle, theirs)


def _draw_sizes(asked: Settings, found: Sequence[Instance]) -> None:
    figure, panels = _new_figure(3.3, 1.9, 2)
    for axes, letter, label in zip(panels, "nk", ("constraints $N$", "arms $K$"), strict=True):
        mine = [one for one in found if one.name.startswith(f"exp2-{letter}")]
        sizes = [int(one.name.removeprefix(f"exp2-{letter}")) for one in mine]
        lines = {
            "Algorithm 1": [one.algorithm_1.mean_tests for one in mine],
            "certify": [one.ours.mean_tests for one in mine],
            "oracle": [one.oracle.mean_tests for one in mine],
        }
        for (name, tests), color, marker in zip(lines.items(), PALETTE, "osD", strict=False):
            axes.plot(sizes, tests, color=color, marker=marker, markersize=3, linewidth=1, label=name)
        axes.plot(sizes, [one.bound for one in mine], "--", color="#222222", linewidth=1, label="lower bound")
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_yscale("log")
        axes.set_xlabel(label)
        tidy(axes, grid="y")
    panels[0].set_ylabel("mean tests")
    _finish(asked, figure, panels, "sizes")


def _new_figure(width: float, height: float, across: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"font.size": 7, "axes.titlesize": 7, "legend.fontsize": 7})
    return new_figure(width, height, across)


def _finish(asked: Settings, figure: Any, panels: Any, name: str) -> None:
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, columnspacing=0.9)
    asked.save(figure, name)


# ------------------------------------------------------------------------------------------------ the other policies


def policies(asked: Settings) -> None:
    """Tests of every policy on Experiment 1, divided by those of `certify`."""
    rows = []
    ours = {name: asked.simulate(ba.instance(name), "certify") for name in SMALL}
    for policy in ("certify", "tracking", ALGORITHM_1, *OTHERS):
        options = {"sampling": policy} if policy == "tracking" else {}
        cells = [rf"\texttt{{{policy}}}" if not options else r"\certify, tracking"]
        for name, mine in ours.items():
            found = asked.simulate(ba.instance(name), "certify" if options else policy, options=options)
            cells += [_count(found.mean_tests), f"{found.mean_tests / mine.mean_tests:.2f}", str(found.wrong)]
        rows.append(cells)
    heads = ["policy", *(head for name in SMALL for head in (name, r"$\div$", "wrong"))]
    asked.write_table("policies", "l" + "rrr" * len(SMALL), heads, rows)


CLASSICAL_DELTAS = (0.1, 0.01, 0.0001)


def classical(asked: Settings) -> None:
    """Without constraints."""
    rows: list[list[str]] = []
    for problem in classics.PROBLEMS:
        bounds = classics.lower_bounds(problem.problem)
        if rows:
            rows[-1][-1] += r" \\[2pt]\midrule %"
        title = rf"\emph{{{_text(problem.name)}}}, $T^*\mathrm{{kl}}$"
        rows.append([title, "", *(_count(bounds[delta]) for delta in CLASSICAL_DELTAS)])
        for one in classics.CONTENDERS:
            if one.policy is EagerTrackAndStop:
                continue
            figures = [asked.simulate(problem.problem, one.policy, delta) for delta in CLASSICAL_DELTAS]
            label = r"\certify" if one.policy == "certify" else one.label
            cells = [rf"{_count(each.mean_tests)} $\pm$ {_count(each.se_tests)} ({each.wrong})" for each in figures]
            rows.append([label, "yes" if one.is_proven else "no", *cells])
    heads = ["", "proven", *(rf"$\delta={delta:g}$" for delta in CLASSICAL_DELTAS)]
    asked.write_table("classics", "llrrr", heads, rows)


# -------------------------------------------------------------------------------------------------------- small delta


def small_delta(asked: Settings) -> None:
    """Tests divided by T* log(1/δ), with the default sampling and with tracking."""
    found = {
        (name, sampling): [tracking.measure(problem, sampling, k, asked.long_runs, asked.seed) for k in EXPONENTS]
        for name, problem in tracking.problems().items()
        for sampling in tracking.SAMPLINGS
    }
    rows = []
    for (name, sampling), measured in found.items():
        shown = [measured[EXPONENTS.index(k)] for k in SHOWN]
        ratios = [rf"{one.ratio:.2f} $\pm$ {one.error:.2f}" for one in shown]
        rows.append([name, sampling, _count(shown[0].tests), *ratios])
    heads = ["problem", "sampling", r"tests, $\delta=10^{-1}$", *(rf"$10^{{-{k}}}$" for k in SHOWN)]
    asked.write_table("delta", "llr" + "r" * len(SHOWN), heads, rows)
    last = [measured[-1].ratio for (_, sampling), measured in found.items() if sampling == "tracking"]
    names = {name for name, _ in found}
    dearer = [found[name, "tracking"][0].tests / found[name, "default"][0].tests for name in names]
    asked.write_numbers(
        "delta-numbers",
        leastlast=f"{min(last):.2f}",
        mostlast=f"{max(last):.2f}",
        leastdearer=f"{min(dearer):.1f}",
        mostdearer=f"{max(dearer):.1f}",
    )
    figure, panels = _new_figure(6.9, 1.9, len(names))
    for axes, name in zip(panels, tracking.problems(), strict=True):
        for sampling, color, marker in zip(tracking.SAMPLINGS, PALETTE, "os", strict=False):
            heights, bars = zip(*((one.ratio, one.error) for one in found[name, sampling]), strict=True)
            axes.errorbar(EXPONENTS, heights, yerr=bars, color=color, marker=marker, markersize=2.5, linewidth=1)
            axes.plot([], [], color=color, marker=marker, markersize=2.5, linewidth=1, label=f"{sampling} sampling")
        axes.axhline(1.0, linestyle="--", color="#222222", linewidth=1, label="the limit of Theorem 2")
        axes.set_xscale("log")
        axes.set_xticks((1, 10, 100), ("$10^{-1}$", "$10^{-10}$", "$10^{-100}$"))
        axes.set_title(name)
        axes.set_xlabel(r"$\delta$")
        tidy(axes, grid="y")
    panels[0].set_ylabel(r"tests $\div\;T^*\log(1/\delta)$")
    _finish(asked, figure, panels, "delta")


# ------------------------------------------------------------------------------------------- errors, noises and sets


def errors(asked: Settings) -> None:
    """Wrong answers on problems that are hard for the guarantee."""
    rows, shares = [], []
    for plan in hard_problems():
        cells = [_text(plan.name)]
        for delta in HARD_DELTAS:
            found = asked.simulate(plan, "certify", delta, runs=asked.short_runs, max_tests=HARD_TESTS)
            limit = upper_limit(found.wrong, found.runs)
            cells += [f"{found.error_rate:.4f} [{limit:.4f}]", rf"{100 * (1 - found.unfinished / found.runs):.0f}\%"]
            shares.append(found.error_rate / delta)
        rows.append(cells)
    heads = ["problem", *(head for delta in HARD_DELTAS for head in (rf"$\delta={delta:g}$: wrong [99\%]", "ended"))]
    asked.write_table("errors", "l" + "rr" * len(HARD_DELTAS), heads, rows)
    asked.write_numbers("errors-numbers", worstshare=f"{max(shares):.2f}", hardcount=str(len(rows)))


def scatter(asked: Settings) -> None:
    """Tests of one stream against a threshold, by what is assumed of its values."""
    rows = []
    for truth in noises.TRUTHS:
        tests_of = partial(noises.tests_of_truth, truth, runs=asked.runs, seed=asked.seed)
        known = tests_of(ba.Gaussian(truth.deviation)) if truth.is_sub_gaussian else None
        symmetric = tests_of(ba.Symmetric()) if truth.is_symmetric else None
        bets, tilts = tests_of(ba.Bounded(0, truth.high)), tests_of(noises.Tilts(0, truth.high))
        counts = ["--" if tests is None else _count(tests) for tests in (known, symmetric, bets, tilts)]
        rows.append([_text(truth.label), *counts, f"{tilts / bets:.1f}"])
    heads = ["values; distance to the threshold", r"$\sigma$ known", "symmetric", "bets", "tilts", r"tilts $\div$ bets"]
    asked.write_table("scatter", "lrrrrr", heads, rows)


def finite_sets(asked: Settings) -> None:
    """How many items it takes, and how often false evidence reaches 20."""
    needed = sets.tests_needed(np.random.default_rng([asked.seed, 1]), asked.runs)
    heads = ["values; size of the set", *(_text(gap) for gap in sets.GAPS)]
    asked.write_table("sets", "lrrr", heads, [[_text(cell) for cell in cells] for cells in needed])
    wrong = sets.errors(np.random.default_rng([asked.seed, 2]), 4 * asked.runs)
    heads = ["values", "normal, $\\sigma$ known", "symmetric", "bounded"]
    asked.write_table("set-errors", "lrrr", heads, [[_text(cell) for cell in cells] for cells in wrong])


EXPERIMENTS: dict[str, Callable[[Settings], None]] = {
    "instances": instances,
    "policies": policies,
    "classics": classical,
    "delta": small_delta,
    "errors": errors,
    "scatter": scatter,
    "sets": finite_sets,
}


def chosen(only: Sequence[str] | None) -> Iterator[tuple[str, Callable[[Settings], None]]]:
    return ((name, run) for name, run in EXPERIMENTS.items() if not only or name in only)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="simulated studies of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "paper", help="where `tables` and `figures` are written")
    parser.add_argument("--only", action="append", choices=list(EXPERIMENTS), help="this experiment; may be repeated")
    choice = parser.parse_args(words)
    for name, run in chosen(choice.only):
        print(name, flush=True)
        run(Settings(choice.runs, choice.seed, choice.out))


if __name__ == "__main__":
    main()
