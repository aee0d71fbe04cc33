"""`python -m bestarm`."""

from bestarm.cli import main

main()
