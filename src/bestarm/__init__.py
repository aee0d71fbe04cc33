"""Find the best option that is also safe, with as few tests as possible, and prove it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bestarm.analysis.health.notes import Health as Health
    from bestarm.analysis.health.notes import HealthNote as HealthNote
    from bestarm.answer import Answer as Answer
    from bestarm.noises.bernoulli import Bernoulli as Bernoulli
    from bestarm.noises.bounded import Bounded as Bounded
    from bestarm.noises.duel import Duel as Duel
    from bestarm.noises.exact import Exact as Exact
    from bestarm.noises.gaussian import Gaussian as Gaussian
    from bestarm.noises.quantile import Quantile as Quantile
    from bestarm.noises.shares import Share as Share
    from bestarm.noises.symmetric import Symmetric as Symmetric
    from bestarm.paper.instances import instance as instance
    from bestarm.paper.instances import instance_names as instance_names
    from bestarm.policies.base import Policy as Policy
    from bestarm.policies.decisions import Stop as Stop
    from bestarm.policies.kernels import KernelPolicy as KernelPolicy
    from bestarm.policies.kernels import Kernels as Kernels
    from bestarm.problem import Arm as Arm
    from bestarm.problem import Blocks as Blocks
    from bestarm.problem import Budget as Budget
    from bestarm.problem import Constraint as Constraint
    from bestarm.problem import Objective as Objective
    from bestarm.problem import Plan as Plan
    from bestarm.problem import Problem as Problem
    from bestarm.problem import at_least as at_least
    from bestarm.problem import at_most as at_most
    from bestarm.problem import maximize as maximize
    from bestarm.problem import minimize as minimize
    from bestarm.problem.duels import both_orders as both_orders
    from bestarm.problem.duels import duel as duel
    from bestarm.problem.measurements import Measurement as Measurement
    from bestarm.problem.measurements import measurement as measurement
    from bestarm.simulation.campaign import Campaign as Campaign
    from bestarm.simulation.campaign import CampaignResult as CampaignResult
    from bestarm.simulation.forecast import Forecast as Forecast
    from bestarm.simulation.forecast import forecast as forecast
    from bestarm.simulation.simulate import Simulation as Simulation
    from bestarm.simulation.simulate import simulate as simulate
    from bestarm.storage.errors import OutcomeUnknown as OutcomeUnknown
    from bestarm.storage.errors import StorageError as StorageError
    from bestarm.study import AlreadyTold as AlreadyTold
    from bestarm.study import Status as Status
    from bestarm.study import Study as Study
    from bestarm.study import Test as Test
    from bestarm.study.plots import plot as plot
    from bestarm.study.record.conclusion import conclusion as conclusion
    from bestarm.study.record.far_values import FarValue as FarValue
    from bestarm.study.work.failures import MeasurementFailed as MeasurementFailed
    from bestarm.study.work.functions import identify as identify
    from bestarm.study.work.functions import identify_async as identify_async
    from bestarm.study.work.pace import TRANSIENT as TRANSIENT
    from bestarm.theory import Theory as Theory
    from bestarm.theory import analyze as analyze
    from bestarm.validation import InvalidInput as InvalidInput

# Where the public names live. Modules load when a name is first used, so that the command line starts at once.
_HOMES = {
    "analysis.health.notes": "Health HealthNote",
    "answer": "Answer",
    "noises.bernoulli": "Bernoulli",
    "noises.bounded": "Bounded",
    "noises.duel": "Duel",
    "noises.exact": "Exact",
    "noises.gaussian": "Gaussian",
    "noises.quantile": "Quantile",
    "noises.shares": "Share",
    "noises.symmetric": "Symmetric",
    "paper.instances": "instance instance_names",
    "policies.base": "Policy",
    "policies.decisions": "Stop",
    "policies.kernels": "KernelPolicy Kernels",
    "problem": "Arm Blocks Budget Constraint Objective Plan Problem at_least at_most maximize minimize",
    "problem.duels": "both_orders duel",
    "problem.measurements": "Measurement measurement",
    "simulation.campaign": "Campaign CampaignResult",
    "simulation.forecast": "Forecast forecast",
    "simulation.simulate": "Simulation simulate",
    "storage.errors": "OutcomeUnknown StorageError",
    "study": "AlreadyTold Status Study Test",
    "study.plots": "plot",
    "study.record.conclusion": "conclusion",
    "study.record.far_values": "FarValue",
    "study.work.failures": "MeasurementFailed",
    "study.work.functions": "identify identify_async",
    "study.work.pace": "TRANSIENT",
    "theory": "Theory analyze",
    "validation": "InvalidInput",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)

__version__ = "1.0.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bestarm' has no attribute {name!r}")
    home = importlib.import_module(f"bestarm.{_HOME[name]}")
    value = getattr(home, name) if hasattr(home, name) else importlib.import_module(f"{home.__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
