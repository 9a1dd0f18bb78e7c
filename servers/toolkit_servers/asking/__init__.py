"""A tool's questions on the wire, in the way of the client's era. Loaded when a tool asks."""

from toolkit_servers.asking.client import can_be_asked
from toolkit_servers.asking.handshake import HandshakeAsking
from toolkit_servers.asking.input_required import InputRequiredAsking, StateSeal
from toolkit_servers.asking.unasked import Unasked

__all__ = ["HandshakeAsking", "InputRequiredAsking", "StateSeal", "Unasked", "can_be_asked"]
