"""Hand-over from tuners: their best candidates become the arms of a problem, and the verdict goes back to them."""

from bestarm.integrations.ax import ax_params, from_ax, to_ax
from bestarm.integrations.optuna import from_optuna, optuna_params, to_optuna
from bestarm.integrations.shortlist import Candidate, Shortlist

__all__ = [
    "Candidate",
    "Shortlist",
    "ax_params",
    "from_ax",
    "from_optuna",
    "optuna_params",
    "to_ax",
    "to_optuna",
]
