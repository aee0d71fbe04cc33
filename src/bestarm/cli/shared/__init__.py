"""What several commands use. None of it is a command."""
