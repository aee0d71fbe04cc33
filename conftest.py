"""Without numba-cuda what is written in its terms cannot be imported, and has no examples to run."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("numba_cuda") else ["src/bestarm/simulation/cuda/*.py"]
