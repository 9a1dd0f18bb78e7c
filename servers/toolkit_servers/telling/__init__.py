"""What a server tells its clients unasked: reports of a running call, and changes."""

from toolkit_servers.telling.changes import Changes
from toolkit_servers.telling.reports import CallReports

__all__ = ["CallReports", "Changes"]
