"""What an operator sees of a server: /health, /metrics and the access log. Never what was asked or answered."""

from toolkit_servers.http.watching.access_log import AccessLog, LogEntry, LogFormat
from toolkit_servers.http.watching.metrics import Metrics
from toolkit_servers.http.watching.pages import Pages

__all__ = ["AccessLog", "LogEntry", "LogFormat", "Metrics", "Pages"]
