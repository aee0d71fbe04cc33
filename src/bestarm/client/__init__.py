"""Studies on a server, used like local ones. It needs nothing but the standard library and bestarm itself."""

from bestarm.client.client import Client, RemoteStudy, StudyLine

__all__ = ["Client", "RemoteStudy", "StudyLine"]
