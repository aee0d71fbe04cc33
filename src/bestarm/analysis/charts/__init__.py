"""Charts: intervals, progress, forecasts, comparisons."""
