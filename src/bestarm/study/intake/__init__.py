"""Reads what people, files and programs say of results, and checks it against the plan."""
