"""Conformance suites: what every policy, noise or storage must do, ready to be run on one of your own."""
