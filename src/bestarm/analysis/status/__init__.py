"""Where a study stands, in words, for terminals, notebooks and web pages."""
