"""All that only cards need: compiling for them, their memory, and the loop that runs there."""

from bestarm.kernel.identity import sources_of

SOURCES = sources_of(__path__[0])
"""A hash of it, taken before any of it is loaded."""
