"""Charts of studies with matplotlib: `ba.plot`."""
