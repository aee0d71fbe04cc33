"""Studies on a server, used like local ones. It needs nothing but the standard library and bestarm itself."""

from bestarm.client.answers import StudyLine
from bestarm.client.client import Client
from bestarm.client.remote import RemoteStudy

__all__ = ["Client", "RemoteStudy", "StudyLine"]
