"""The paper's problems and experiments."""
