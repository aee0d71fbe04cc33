"""The report of a study, to read, print and file."""
