"""Workers that make the tests of a study, and what they show meanwhile."""
