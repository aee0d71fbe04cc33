"""A port for a server that is stopped and started again."""

from __future__ import annotations

import socket


def reserve_port() -> socket.socket:
    """A socket bound to a free port of this machine, on which nobody listens yet.

    As long as it is open, no other program gets the port, neither to listen on nor to connect from. A server that
    allows the reuse of addresses, as servers do, can listen there, stop, and listen again.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved
