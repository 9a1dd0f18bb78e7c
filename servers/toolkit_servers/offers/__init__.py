"""Resources, prompts and completions of a Toolbox on the wire, and what is told when they change.

Loaded when a box has a resource or a prompt; a server of tools only needs nothing of it.
"""

from toolkit_servers.offers.handlers import register
from toolkit_servers.offers.matching import read_resource

__all__ = ["read_resource", "register"]
