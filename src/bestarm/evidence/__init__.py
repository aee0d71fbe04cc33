"""Mathematics only: how sure the data make us."""
