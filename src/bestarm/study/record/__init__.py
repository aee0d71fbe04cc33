"""Follows the record of a study: what it says so far, what it concludes, and what to do next."""
