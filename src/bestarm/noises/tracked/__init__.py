"""Evidence whose price grows no faster than log n, for `certify` with `sampling = "tracking"`.

Users cannot choose these noises. That rule uses them in place of the stated ones, and only then are they compiled.
"A theorem about time" in `docs/certificates/time.md` has the proofs.
"""
