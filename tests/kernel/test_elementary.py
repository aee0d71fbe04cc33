"""Tables are the same to the last bit on every processor, because no instruction of a certain processor makes them."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from bestarm.evidence.bounds import bound_names, find_bound
from bestarm.kernel.elementary import exp, log
from bestarm.kernel.tables import table_arguments, tabulate
from bestarm.noises.bets import BETS
from bestarm.noises.mixture import mixture_table
from bestarm.noises.tilt_costs import tuning_of


def digests() -> dict[str, str]:
    made = {
        "log": log(table_arguments()),
        "exp": exp(-0.001 * np.arange(65_536.0)),
        "evidence": mixture_table(),
        "rates": np.array(tuning_of((0.0,) * BETS)),
        **{bound: tabulate(lambda n, bound=bound: find_bound(bound)(n, 0.01)) for bound in bound_names()},  # type: ignore[misc]
    }
    return {name: hashlib.sha256(table.tobytes()).hexdigest()[:16] for name, table in made.items()}


def test_they_are_those_of_any_processor() -> None:
    found = digests()
    assert {name: found[name] for name in ("log", "exp", "evidence")} == {
        "log": "ffed2d52fbf47204",
        "exp": "4ad6778a32bbe744",
        "evidence": "a41092b517d5ae3b",
    }


def test_they_do_not_depend_on_what_the_processor_can_do() -> None:
    """Where NumPy and the C library have been forbidden to use newer instructions. Others are not known here."""
    plain = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from tests.kernel.test_elementary import digests; print(digests())"],
        env={
            **os.environ,
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX2 FMA3 AVX512F AVX512_SKX AVX512_ICL AVX512_SPR",
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert plain.stdout.strip() == str(digests()), plain.stderr


def test_they_are_right_to_the_last_bit_but_one() -> None:
    random = np.random.default_rng(1)
    for x in (table_arguments()[::7], random.uniform(0.5, 2.0, 20_000), np.exp(random.uniform(-300, 300, 20_000))):
        right = np.array([math.log(number) for number in x.tolist()])
        assert (np.abs(log(x) - right) <= np.spacing(np.abs(right))).all()
    x = random.uniform(-700.0, 700.0, 20_000)
    right = np.array([math.exp(number) for number in x.tolist()])
    assert (np.abs(exp(x) - right) <= np.spacing(right)).all()


@pytest.mark.parametrize(("x", "expected"), [(0.0, -math.inf), (1.0, 0.0), (5e-324, -744.4400719213812)])
def test_the_ends(x: float, expected: float) -> None:
    assert log([x]).tolist() == pytest.approx([expected], rel=1e-15)
    assert exp([-1e6, 0.0]).tolist() == [0.0, 1.0]
