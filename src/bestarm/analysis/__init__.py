"""Where a study stands, computed once; charts and reports only render it."""
