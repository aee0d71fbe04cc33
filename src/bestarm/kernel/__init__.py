"""What every engine shares: compiling, random numbers, look-up tables, the tournament tree, a run's state.

Functions marked `kernel` are plain Python: a live study calls them as they are, and the simulator
compiles the very same source. So they allocate nothing, raise nothing, and work on arrays that are handed in.
"""
