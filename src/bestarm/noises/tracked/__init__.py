"""Evidence whose price grows no faster than log n, for `certify` with `sampling = "tracking"`.

Users cannot choose these noises. That rule uses them in place of the stated ones, and only then are they compiled.
`docs/certificates/time.md` has the proofs: Proposition T.1 and Lemma T.7.
"""
