"""What a stdio server in the jail says, heard by the launcher before the CLI reads it."""

from toolkit.sandbox.relay.http import Ends as Ends, join_http as join_http
from toolkit.sandbox.relay.program import (
    PROGRAM as PROGRAM,
    SOCKET_NAME as SOCKET_NAME,
    relay_program as relay_program,
    relayed as relayed,
)
from toolkit.sandbox.relay.relay import Heard as Heard, Relay as Relay
