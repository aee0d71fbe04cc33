"""The command line: a thin front end. Heavy modules load only when a command needs them."""

from bestarm.cli.app import main

__all__ = ["main"]
