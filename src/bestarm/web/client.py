"""The client's earlier address; it lives in `bestarm.client`."""

from bestarm.client import Client, RemoteStudy, StudyLine

__all__ = ["Client", "RemoteStudy", "StudyLine"]
