"""Small problems for live studies."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import bestarm as ba
from bestarm.study.files.exchange import write_csv

NOISE = ba.Gaussian(1.0)


def two_arms(**options: object) -> ba.Plan:
    return ba.Plan(
        arms=(ba.Arm("a"), ba.Arm("b")),
        objective=ba.maximize("gain", noise=NOISE),
        constraints=(ba.at_most("harm", 0.5, noise=ba.Bernoulli(), cost=3.0),),
        **options,  # type: ignore[arg-type]
    )


def bench(**options: object) -> ba.Plan:
    """One run yields time, memory and whether it crashed; time is objective and constraint. Size is measured alone."""
    return ba.Plan(
        arms=(ba.Arm("a"), ba.Arm("b"), ba.Arm("slow")),
        objective=ba.minimize("time", noise=ba.Gaussian(1.0)),
        constraints=(
            ba.at_most("time", 9.0, noise=ba.Gaussian(1.0)),
            ba.at_most("size", 5.0, noise=ba.Exact(), cost=3.0),
            ba.at_most("memory", 400.0, noise=ba.Bounded(0, 1000)),
            ba.at_most("crash", 0.5, noise=ba.Bernoulli()),
        ),
        measurements=[ba.measurement("time", "memory", "crash", cost=2.0)],
        **options,  # type: ignore[arg-type]
    )


RUN = "time + memory + crash"
"""What a test of the bundle is called."""
TIMES = {"a": 4.0, "b": 7.0, "slow": 15.0}


def one_run(arm: str, metric: str) -> float | dict[str, float]:
    """A measurement without noise, the metrics in another order than the plan's."""
    if metric == "size":
        return 3.0
    assert metric == RUN
    return {"crash": 0, "time": TIMES[arm], "memory": 300.0 if arm == "b" else 50.0}


def exported(study: ba.Study, write: Callable[[ba.Study, io.StringIO], int] = write_csv) -> str:
    """A study as a file."""
    out = io.StringIO(newline="")
    write(study, out)
    return out.getvalue()


def asked(
    study: ba.Study, measured: Sequence[float | None]
) -> tuple[list[ba.Test], dict[tuple[int, str], float], dict[int, tuple[float, ...]]]:
    """As many tests as values, the values by test and metric, and by test as the record has them. None is a test
    without a value."""
    tests = study.ask(len(measured))
    values: dict[tuple[int, str], float] = {}
    expected: dict[int, tuple[float, ...]] = {}
    for test, value in zip(tests, measured, strict=True):
        if value is None:
            continue
        for k, metric in enumerate(test.metrics):
            values[test.id, metric] = {"memory": 2.5, "crash": 1.0, "size": 0.5}.get(metric, value + k)
        expected[test.id] = tuple(values[test.id, metric] for metric in test.metrics)
    return tests, values, expected
