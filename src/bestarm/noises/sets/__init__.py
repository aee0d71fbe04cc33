"""The evidence about means over a finite set, whose items are measured in a random order, each once.

Users cannot choose these noises. A study with a finite set of items uses them in place of the stated ones
(`NoiseModel.of_set`), and only then are they compiled. `docs/certificates/items.md` has the proofs
(Lemmas I.3 to I.5).
"""
