"""A campaign's results as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from bestarm.cli.shared.show import literal

if TYPE_CHECKING:
    from bestarm.simulation.campaign import CampaignResult


def summary_table(result: CampaignResult) -> Table:
    """A row per cell. Columns that are the same in every row are left out."""
    table = Table()
    simulations = result.simulations
    several_bounds = len({s.plan.bound for s in simulations}) > 1
    any_unfinished = any(s.unfinished for s in simulations)
    table.add_column("instance", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in (
        ["bound"] * several_bounds + ["delta", "mean tests", "sd", "wrong"] + ["unfinished"] * any_unfinished
    ):
        table.add_column(heading, justify="right")
    for s in simulations:
        row = [s.plan.bound] * several_bounds
        row += [
            f"{s.plan.delta:g}",
            f"{s.mean_tests:,.0f}",
            "" if s.runs == 1 else f"{s.sd_tests:,.0f}",
            f"{s.wrong:,}",
        ]
        row += [f"{s.unfinished:,}"] * any_unfinished
        table.add_row(literal(s.plan.name), literal(s.policy), *row)
    return table
