"""The evidence about means over a finite set, whose items are measured in a random order, each once.

These noises are no choice of anybody's. A study with a finite set of items takes them in place of the stated ones
(`NoiseModel.of_set`), and only then are they compiled. `docs/certify.md` has the proofs.
"""
