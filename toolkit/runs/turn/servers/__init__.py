"""The servers of a run: whether each started, what they offer, what they wrote as they died."""

from toolkit.runs.turn.servers.definitions import Definitions as Definitions, definition_in as definition_in
from toolkit.runs.turn.servers.servers import (
    ServerFailedError as ServerFailedError,
    Servers as Servers,
    as_configured as as_configured,
    check_patterns as check_patterns,
)
