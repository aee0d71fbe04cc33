"""Suites of benchmarks: one run of a program yields a time for each of them, and each must be no slower."""
