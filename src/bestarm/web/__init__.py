"""The HTTP service, its dashboard, and a client for Python."""
