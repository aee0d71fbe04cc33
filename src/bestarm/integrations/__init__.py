"""Work with other packages: tuners, evaluations of language models, trackers."""

from bestarm.integrations.ax import ax_params, from_ax, to_ax
from bestarm.integrations.inspect_ai import identify_with_inspect
from bestarm.integrations.inspect_tasks import from_inspect, inspect_results
from bestarm.integrations.mlflow import to_mlflow
from bestarm.integrations.optuna import from_optuna, optuna_params, to_optuna
from bestarm.integrations.shortlist import Candidate, Shortlist

__all__ = [
    "Candidate",
    "Shortlist",
    "ax_params",
    "from_ax",
    "from_inspect",
    "from_optuna",
    "identify_with_inspect",
    "inspect_results",
    "optuna_params",
    "to_ax",
    "to_mlflow",
    "to_optuna",
]
