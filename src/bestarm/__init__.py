"""Find the best option that is also safe, with as few tests as possible, and prove it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bestarm.analysis.health.notes import Health, HealthNote
    from bestarm.answer import Answer
    from bestarm.noises.bernoulli import Bernoulli
    from bestarm.noises.bounded import Bounded
    from bestarm.noises.exact import Exact
    from bestarm.noises.gaussian import Gaussian
    from bestarm.noises.quantile import Quantile
    from bestarm.noises.symmetric import Symmetric
    from bestarm.paper.instances import instance, instance_names
    from bestarm.policies.base import Policy
    from bestarm.policies.decisions import Stop
    from bestarm.policies.kernels import KernelPolicy, Kernels
    from bestarm.problem import Arm, Budget, Constraint, Objective, Plan, Problem, at_least, at_most, maximize, minimize
    from bestarm.problem.measurements import Measurement, measurement
    from bestarm.simulation.campaign import Campaign, CampaignResult
    from bestarm.simulation.forecast import Forecast, forecast
    from bestarm.simulation.simulate import Simulation, simulate
    from bestarm.storage.errors import OutcomeUnknown, StorageError
    from bestarm.study import AlreadyTold, Status, Study, Test
    from bestarm.study.plots import plot
    from bestarm.study.record.conclusion import conclusion
    from bestarm.study.record.far_values import FarValue
    from bestarm.study.work.failures import MeasurementFailed
    from bestarm.study.work.workers import identify
    from bestarm.theory import Theory, analyze
    from bestarm.validation import InvalidInput

# Where each public name lives. Modules load when a name is first used, so that the command line starts at once.
_HOME = {
    "AlreadyTold": "study",
    "Answer": "answer",
    "Arm": "problem",
    "Bernoulli": "noises.bernoulli",
    "Bounded": "noises.bounded",
    "Budget": "problem",
    "Campaign": "simulation.campaign",
    "CampaignResult": "simulation.campaign",
    "Constraint": "problem",
    "Exact": "noises.exact",
    "FarValue": "study.record.far_values",
    "Forecast": "simulation.forecast",
    "Gaussian": "noises.gaussian",
    "Health": "analysis.health.notes",
    "HealthNote": "analysis.health.notes",
    "InvalidInput": "validation",
    "KernelPolicy": "policies.kernels",
    "Measurement": "problem.measurements",
    "MeasurementFailed": "study.work.failures",
    "Kernels": "policies.kernels",
    "Objective": "problem",
    "OutcomeUnknown": "storage.errors",
    "Plan": "problem",
    "Policy": "policies.base",
    "Problem": "problem",
    "Quantile": "noises.quantile",
    "Simulation": "simulation.simulate",
    "Status": "study",
    "Stop": "policies.decisions",
    "StorageError": "storage.errors",
    "Study": "study",
    "Symmetric": "noises.symmetric",
    "Test": "study",
    "Theory": "theory",
    "analyze": "theory",
    "at_least": "problem",
    "at_most": "problem",
    "conclusion": "study.record.conclusion",
    "forecast": "simulation.forecast",
    "identify": "study.work.workers",
    "instance": "paper.instances",
    "instance_names": "paper.instances",
    "maximize": "problem",
    "measurement": "problem.measurements",
    "minimize": "problem",
    "plot": "study.plots",
    "simulate": "simulation.simulate",
}

__all__ = [
    "AlreadyTold",
    "Answer",
    "Arm",
    "Bernoulli",
    "Bounded",
    "Budget",
    "Campaign",
    "CampaignResult",
    "Constraint",
    "Exact",
    "FarValue",
    "Forecast",
    "Gaussian",
    "Health",
    "HealthNote",
    "InvalidInput",
    "KernelPolicy",
    "Kernels",
    "Measurement",
    "MeasurementFailed",
    "Objective",
    "OutcomeUnknown",
    "Plan",
    "Policy",
    "Problem",
    "Quantile",
    "Simulation",
    "Status",
    "Stop",
    "StorageError",
    "Study",
    "Symmetric",
    "Test",
    "Theory",
    "analyze",
    "at_least",
    "at_most",
    "conclusion",
    "forecast",
    "identify",
    "instance",
    "instance_names",
    "maximize",
    "measurement",
    "minimize",
    "plot",
    "simulate",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bestarm' has no attribute {name!r}")
    home = importlib.import_module(f"bestarm.{_HOME[name]}")
    value = getattr(home, name) if hasattr(home, name) else importlib.import_module(f"{home.__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
