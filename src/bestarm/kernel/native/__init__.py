"""Kernels as machine code: from their source to LLVM's language, and from there to functions that can be called."""

from bestarm.kernel.identity import sources_of

SOURCES = sources_of(__path__[0])
"""A hash of what translates kernels, so that no machine code outlives a change of it. It is taken before any of it is
loaded: if it is still the same later, all that was loaded in between is what was hashed."""
