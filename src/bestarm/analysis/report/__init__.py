"""Pages made to be read, printed and kept."""
