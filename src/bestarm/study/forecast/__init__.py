"""Simulates what remains of a study, in worlds that its results leave possible."""
