"""The program `bestarm`: it finds its commands, reads the command line, and ends with an exit status."""

from bestarm.cli.app.program import app, main

__all__ = ["app", "main"]
