"""The command line: a thin front end. A command is a function in a file here, marked with `@command` or
`@study_command`. It is found by being here: there is no list to edit.

The function's name is the command's; an underscore at its end is left off. `app/` is the program that finds and runs
the commands, `shared/` what several of them use. Heavy modules are imported inside functions, so that `bestarm --help`,
which reads every file here, is quick.
"""

from bestarm.cli.app import main

__all__ = ["main"]
