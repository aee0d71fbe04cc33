"""Logs of evaluations: two of them, paired item by item, and whether the new one is good enough."""
