"""Studies on a server, used like local ones."""

from bestarm.client.answers import ProjectLine, StudyLine
from bestarm.client.client import Client
from bestarm.client.remote import RemoteStudy

__all__ = ["Client", "ProjectLine", "RemoteStudy", "StudyLine"]
