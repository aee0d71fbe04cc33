"""The HTTP service, its dashboard, and a client for Python. The client needs nothing but the standard library."""
