"""Charts as data, and as drawings without any library."""
