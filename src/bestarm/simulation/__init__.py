"""Many simulated studies: the measurements' distributions, the compiled engine, campaigns on any executor."""
