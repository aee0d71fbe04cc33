"""The GPU engine: the same source on CUDA, run by run the same as on the CPU.

These tests run it in numba's simulator of CUDA, which needs no card and has to be chosen before numba is imported:
so each is a program of its own. `benchmarks/gpu.py` does the same on a real card with a hundred thousand runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.simulation import device
from bestarm.simulation.engine import Job

_PRELUDE = """
import warnings
warnings.simplefilter("ignore")  # random words wrap around, in every thread of the simulator
import numpy as np
import bestarm as ba
from bestarm.policies import all_policies
from bestarm.simulation.cuda import card as cuda
from bestarm.simulation.engine import Job

def same(job, layout, runs, first=0):
    \"\"\"The runs of `job` on the card, which must be those of the CPU engine.\"\"\"
    wanted = job.simulate(first, runs).outcomes
    pieces = []
    for start in range(first, first + runs, layout.batch):
        pieces += cuda.CardJob(job, layout).simulate(start, min(layout.batch, first + runs - start))
    assert [start for start, _ in pieces] == list(
        np.cumsum([first] + [len(chunk.outcomes.answers) for _, chunk in pieces])[:-1]
    ), "pieces must follow one another"
    for name, part in wanted._asdict().items():
        got = np.concatenate([getattr(chunk.outcomes, name) for _, chunk in pieces])
        assert got.dtype == part.dtype and (got == part).all(), (job.label, name, got, part)
    return wanted

IN_MEMORY = cuda.Layout(blocks=2, block=2, shared=0, batch=4)

def mixed():
    \"\"\"Every noise and direction, 9 arms for a tournament of two levels, unequal costs.\"\"\"
    rng = np.random.default_rng(1)
    return ba.Problem(
        arms=tuple(
            ba.Arm(f"arm {k}", {"latency": float(rng.uniform(0, 4)), "rate": float(rng.uniform(0.1, 0.9)),
                                "score": float(rng.uniform(1, 9))})
            for k in range(9)
        ),
        objective=ba.minimize("latency", noise=ba.Gaussian(1.0)),
        constraints=(
            ba.at_most("rate", 0.5, noise=ba.Bernoulli(), cost=2.5),
            ba.at_least("score", 5.0, noise=ba.Bounded(0, 10)),
        ),
    )
"""


@pytest.fixture
def on_simulator(tmp_path: Path) -> Callable[..., None]:
    def run(script: str, simulated: bool = True) -> None:
        file = tmp_path / "script.py"  # kernels are compiled from the file they are in
        file.write_text(_PRELUDE + script)
        result = subprocess.run(
            [sys.executable, str(file)],
            env={**os.environ, "NUMBA_ENABLE_CUDASIM": str(int(simulated))},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stderr[-3000:]

    return run


def test_every_policy_bound_and_noise_is_the_same_run_by_run(on_simulator: Callable[..., None]) -> None:
    on_simulator(
        """
for name, policy in all_policies().items():
    for bound in ("paper", "lil", "mixture"):
        same(Job(mixed(), policy, 0.2, bound, 7, 150, keep_counts=True), IN_MEMORY, 5)
    ended = same(Job(ba.instance("exp1-a"), policy, 0.9999, "mixture", 3, 4000, True), IN_MEMORY, 2, first=10**6)
    plain = ba.Problem(arms=(ba.Arm("a", {"m": 0.0}), ba.Arm("b", {"m": 3.0})),
                       objective=ba.maximize("m", noise=ba.Gaussian(1.0)))
    assert (same(Job(plain, policy, 0.1, "paper", 3, 10**4, True), IN_MEMORY, 9).answers == 1).all()
"""
    )


def test_who_leads_on_the_way(on_simulator: Callable[..., None]) -> None:
    on_simulator(
        """
cuda.FIRST_ROUNDS, cuda.LAUNCH_SECONDS = 5, 1e-3  # many launches
checkpoints = dict(checkpoints=(1, 40, 41, 90, 150, 10**6))
for name in ("certify", "racing", "feasible-lucb"):
    same(Job(mixed(), all_policies()[name], 0.2, "mixture", 7, 150, **checkpoints), IN_MEMORY, 5)
    short = Job(ba.instance("exp1-a"), all_policies()[name], 0.9, "mixture", 3, 10**7, **checkpoints)
    ended = same(short, IN_MEMORY, 2)
    assert (ended.leaders[:, -1] == ended.answers).all()
"""
    )


def test_an_answer_of_none_and_a_policy_that_proposes_nothing(on_simulator: Callable[..., None]) -> None:
    on_simulator(
        """
import pytest
from bestarm.kernel.compile import kernel
from bestarm.policies import racing
from bestarm.policies.kernels import KernelPolicy, Kernels
from bestarm.policies.decisions import EmptyProposal

noise = ba.Gaussian(1.0)
hopeless = ba.Problem(arms=tuple(ba.Arm(f"arm {k}", {"p": 2.0 * k, "c": 3.0}) for k in range(3)),
                      objective=ba.maximize("p", noise=noise), constraints=(ba.at_most("c", 0.0, noise=noise),))
for policy in all_policies().values():
    assert (same(Job(hopeless, policy, 0.1, "mixture", 3, 10**4, True), IN_MEMORY, 3).answers == -1).all()

@kernel
def nothing(setting, streams, memory, batch):
    return 0

class Idle(KernelPolicy):
    name = "idle"
    kernels = Kernels(racing.new_memory, racing.update, nothing)

with pytest.raises(EmptyProposal, match="policy 'idle' proposed an empty batch"):
    ba.simulate(hopeless, policy=Idle, runs=3, device="cuda")
"""
    )


def test_shared_memory_batches_budgets_and_short_launches_change_nothing(on_simulator: Callable[..., None]) -> None:
    on_simulator(
        """
cuda.LAUNCH_SECONDS = 0.001  # so that runs go on from launch to launch
cuda.FIRST_ROUNDS = 1
for name in ("certify", "feasible-lucb", "racing"):
    job = Job(mixed(), all_policies()[name], 0.2, "paper", 7, 120, keep_counts=True)
    words = cuda.state_words(cuda.new_fresh(job).near)
    same(job, cuda.Layout(blocks=1, block=32, shared=32 * words * 8, batch=40), 40)
    same(job, cuda.Layout(blocks=3, block=1, shared=0, batch=3), 7)
    same(Job(mixed(), all_policies()[name], 0.2, "paper", 7, 2**40, True, max_cost=60.5), IN_MEMORY, 6)
"""
    )


def test_the_public_functions_take_a_device(on_simulator: Callable[..., None]) -> None:
    on_simulator(
        """
import tempfile, pathlib
plan = ba.instance("drug-bernoulli")
options = dict(policy="certify", runs=6, max_tests=80, seed=4)
one, other = ba.simulate(plan, **options), ba.simulate(plan, **options, device="cuda")
assert (one.tests == other.tests).all() and (one.answers == other.answers).all() and (one.cost == other.cost).all()
assert (one.tests_per_stream == other.tests_per_stream).all()
assert ba.simulate(plan, **options, device="auto").summary()["mean_tests"] == one.mean_tests
seen = []
ba.simulate(plan, **options, device="cuda", keep_streams=False, progress=lambda *done: seen.append(done))
assert seen[-1] == (6, one.tests.sum())
guess = ba.Problem(arms=(ba.Arm("old", {"m": 0.0}), ba.Arm("new", {"m": (2.0, 3.0)})),
                   objective=ba.maximize("m", noise=ba.Gaussian(1.0)))
assert ba.forecast(guess, runs=4).mean_tests == ba.forecast(guess, runs=4, device="cuda").mean_tests
grid = ba.Campaign.grid([plan], policies=["racing", "certify"], runs=3, max_tests=60)
with tempfile.TemporaryDirectory() as folder:
    grid.run(pathlib.Path(folder, "cpu"))
    grid.run(pathlib.Path(folder, "card"), device="cuda")
    assert pathlib.Path(folder, "cpu/runs.csv").read_bytes() == pathlib.Path(folder, "card/runs.csv").read_bytes()
"""
    )


@pytest.mark.parts("numba_cuda")
def test_ctrl_c_keeps_finished_runs(tmp_path: Path, until_written: Callable[..., None]) -> None:
    """A campaign interrupted on a card continues on the CPU without a trace."""
    program = (
        _PRELUDE
        + """
cuda.FIRST_ROUNDS, cuda.LAUNCH_SECONDS, cuda.THREADS_PER_MULTIPROCESSOR = 5, 0.05, 4  # many launches
from bestarm.cli import main
main()
"""
    )
    arguments = ["campaign", "exp1-a", "--policy", "racing", "--runs", "4000", "--max-tests", "100", "--out"]
    chunks = tmp_path / "card" / "chunks.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments, "card", "--device", "cuda"],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until_written(chunks, 1, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert said.strip().endswith("interrupted")
    kept = chunks.read_text(encoding="utf-8")
    assert not (tmp_path / "card" / "runs.csv").exists()
    for folder in ("card", "cpu"):
        subprocess.run([sys.executable, "-m", "bestarm", *arguments, folder], cwd=tmp_path, check=True)
    assert chunks.read_text(encoding="utf-8").startswith(kept)
    one, other = (tmp_path / folder / "runs.csv" for folder in ("card", "cpu"))
    assert one.read_bytes() == other.read_bytes()


def test_memory_is_planned_from_the_card(on_simulator: Callable[..., None]) -> None:
    on_simulator(
        """
h200 = cuda.Card(multiprocessors=132, free=149 * 10**9, shared=232_448)
small, large = (Job.of(ba.instance(name), all_policies()["feasible-lucb"], seed=1, max_tests=10**9, keep_counts=keep)
                for name, keep in (("exp1-c", False), ("exp2-n64", True)))
plan = cuda.planned(small, 10**9, h200)
assert plan.blocks == 132 and plan.block >= 256 and 0 < plan.shared <= h200.shared and plan.batch == cuda.MOST_RUNS
plan = cuda.planned(large, 10**9, h200)
assert plan.shared == 0 and plan.threads == 132 * cuda.THREADS_PER_MULTIPROCESSOR
# A card with little memory gets fewer threads and smaller batches.
plan = cuda.planned(large, 10**9, h200._replace(free=10**9))
assert plan.threads < 20_000 and plan.batch < 10**5
assert cuda.planned(small, 5, h200).blocks == 1
try:
    cuda.planned(large, 10, h200._replace(free=10_000))
except ba.InvalidInput as error:
    assert "a run of exp2-n64 with feasible-lucb takes" in str(error)
else:
    raise AssertionError
"""
    )


@pytest.mark.parts("nvvm")
def test_a_compiler_for_cards_takes_it(on_simulator: Callable[..., None]) -> None:
    """The part that the simulator leaves out, up to the point where a card is needed."""
    on_simulator(
        """
from types import SimpleNamespace
from numba.cuda import compile_ptx, compiler, dispatcher
from numba.cuda.typing.typeof import typeof
from bestarm.kernel.compile import variant_of
from bestarm.kernel.random import _TAIL_START
from bestarm.simulation.cuda.compiling import _helper, exact_arithmetic

for module in (compiler, dispatcher):
    module.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
cuda.on_card, cuda.room_on_card, cuda.prepare = lambda value: value, np.empty, lambda *_: None

def assembled(problem, name, shared):
    job = Job(problem, all_policies()[name], 0.1, "mixture", 1, 10**6)
    card = cuda.CardJob(job, cuda.Layout(blocks=1, block=32, shared=shared, batch=1))
    arguments = card._arguments(card._new_threads(32), card._new_outcomes(1), 0, 1)
    with exact_arithmetic():
        return compile_ptx(card.kernel.py_func, tuple(map(typeof, arguments)), cc=(9, 0))[0]

# What makes it fast: no calls, no array outside of registers but the states, and pairs read as one.
code = assembled(ba.instance("exp1-a"), "feasible-lucb", shared=0)
assert "call" not in code and "__local_depot" not in code and "ld.global.v2.f32" in code and "ld.shared" not in code
# Code for one kind of noise has nothing of another: only normal numbers have a tail.
tail = np.float64(_TAIL_START).view(np.uint64)
assert f"{tail:016X}" in code
assert f"{tail:016X}" not in assembled(ba.instance("drug-bernoulli"), "feasible-lucb", shared=0)
# Every noise, in shared memory, and functions that stay functions.
code = assembled(mixed(), "certify", shared=1)
assert code.count(".func") > 3 and "ld.shared.f64" in code
# Tuples of numbers are arrays in the card's constant memory.
assert ".const .align 8 .b8 _cudapy_cmem" in code

def every_third(numbers):
    for k in range(10, 0, -3):
        numbers[k] = k

helper = _helper(every_third, False, variant_of(None))
assert "st." in compile_ptx(helper.py_func, (typeof(np.zeros(11)),), device=True, cc=(9, 0))[0]
""",
        simulated=False,
    )


def test_the_linker_may_not_fuse_products_and_sums(on_simulator: Callable[..., None]) -> None:
    """numba-cuda links with optimization, which fuses, unless `lto` is off, and forgets it on some ways."""
    on_simulator(
        """
job = Job.of(ba.instance("exp1-a"), all_policies()["racing"], seed=1, max_tests=10)
shapes = tuple(map(cuda.state_shapes, cuda.new_fresh(job)))
compiled = cuda._kernel(job.policy.name, job.kernels, False, shapes, (), True, 128, cuda.variant_of(None))
assert compiled.targetoptions["lto"] is False
""",
        simulated=False,
    )


def test_without_a_card_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "why_no_card", lambda: "no CUDA card, or no driver for it, was found")
    with pytest.raises(ba.InvalidInput, match=r"^device = 'cuda': no CUDA card, or no driver for it, was found$"):
        ba.simulate(ba.instance("exp1-a"), device="cuda")
    result = ba.simulate(ba.instance("exp1-a"), runs=2, device="auto")
    assert result.runs == 2


def test_unsupported_features_are_refused_on_a_card() -> None:
    problem = ba.instance("exp1-a")
    with pytest.raises(ba.InvalidInput, match="device = 'gpu': must be cpu, cuda or auto"):
        ba.simulate(problem, device="gpu")
    with pytest.raises(ba.InvalidInput, match="device = 'cuda': runs go to the card, not to an executor or workers"):
        ba.simulate(problem, device="cuda", workers=2)

    class Guess(ba.Policy):
        name = "guess"

        def propose(self) -> list[tuple[int, int]] | ba.Stop:
            return ba.Stop(0)

    with pytest.raises(ba.InvalidInput, match="policy 'guess' is written in plain Python"):
        ba.simulate(problem, policy=Guess, device="cuda")


@pytest.mark.parametrize(("runs", "wanted"), [(device.RUNS_THAT_PAY - 1, "cpu"), (device.RUNS_THAT_PAY, "cuda")])
def test_auto_takes_the_card_when_it_pays(monkeypatch: pytest.MonkeyPatch, runs: int, wanted: str) -> None:
    monkeypatch.setattr(device, "why_no_card", lambda: None)
    job = Job.of(ba.instance("exp1-a"), device_policy(), seed=0, max_tests=10)
    assert device.chosen_device("auto", [job], [[(0, runs)]], elsewhere=False) == wanted
    assert device.chosen_device("auto", [job], [[(0, runs)]], elsewhere=True) == "cpu"


def device_policy() -> type[ba.Policy]:
    from bestarm.policies import find_policy

    return find_policy("certify")


def test_numba_keeps_and_loads_nothing_that_others_can_write(on_simulator: Callable[..., None], tmp_path: Path) -> None:
    script = """
from pathlib import Path
from types import SimpleNamespace
from bestarm.simulation.cuda.compiling import kept_by_numba

folder = Path("FOLDER")

def is_kept(fingerprint):
    made = SimpleNamespace(stats=SimpleNamespace(cache_path=str(folder)))
    return kept_by_numba(lambda cache: made if cache else None, fingerprint) is made

folder.mkdir(mode=0o700)
(folder / "made.root_abc-1.nbi").touch(0o644)
(folder / "made.root_def-1.nbi").touch(0o644)
(folder / "made.root_def-1.nbi").chmod(0o666)
assert [is_kept(fingerprint) for fingerprint in ("abc", "def", None)] == [True, False, False]
folder.chmod(0o777)
assert not is_kept("abc")

def jit(cache):
    if cache:
        raise RuntimeError("cannot cache function: no locator available")
    return cache

assert kept_by_numba(jit, "abc") is False
"""
    on_simulator(script.replace("FOLDER", str(tmp_path / "kept")))


def test_a_setting_within_a_setting_may_be_of_another_kind() -> None:
    """A table is known throughout if all its entries are equal, in the settings within a setting, too."""
    from bestarm.policies.certify import Certify
    from bestarm.simulation.cuda.tiles import same_throughout

    arms = [ba.Arm(f"arm {k}", {"p": k}) for k in range(3)]
    problem = ba.Problem(arms, ba.maximize("p", noise=ba.Gaussian(1.0)))
    setting = Certify.new_setting(problem, 0.1, "paper")
    assert setting.pooled.kind[0] != setting.kind[0]
    known = {name for _, name, _ in same_throughout(setting)}
    assert "kind" not in known
    assert "lead" in known


def test_a_card_knows_tables_of_zeros_of_ones_and_of_places() -> None:
    from bestarm.policies.certify import Certify
    from bestarm.simulation.cuda.tiles import same_throughout

    arms = [ba.Arm(f"arm {k}", {"p": k, "c": 1.0, "d": 1.0}) for k in range(3)]
    limits = (ba.at_most("c", 2.0, noise=ba.Gaussian(1.0)), ba.at_most("d", 0.0, noise=ba.Gaussian(1.0), cost=0.5))
    problem = ba.Problem(arms, ba.maximize("p", noise=ba.Gaussian(1.0)), limits)
    setting = Certify.new_setting(problem, 0.1, "paper")
    known = {name: number for _, name, number in same_throughout(setting)}
    assert (known["slack"], known["width"], known["following"]) == (0.0, 1.0, -1)
    assert known["lead"] is None  # each metric is the first of its bundle
    assert not {"threshold", "cost", "radius", "level"} & set(known)
    # An entry of minus zero is not the same as zero.
    slack = np.array([0.0, -0.0, 0.0])
    assert "slack" not in {name for _, name, _ in same_throughout(setting._replace(slack=slack))}
