"""Faults of every kind, many times each, and whether anything was lost or counted twice.

Run `make torture` or `python -m tests.torture`. docs/reliability.md says what it does and what it found.
"""
