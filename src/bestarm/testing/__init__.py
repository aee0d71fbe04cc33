"""Conformance suites: what every policy must do, ready to be run on one of your own."""
