"""What a box offers beside tools: resources, which a client reads, and prompts, which it starts a conversation with.

Loaded when a decorator of this room is used; a box of tools needs nothing of it.
"""

from toolkit.tools.offers.completing import Completion
from toolkit.tools.offers.contents import Contents
from toolkit.tools.offers.icons import read_icons
from toolkit.tools.offers.messages import Messages, as_messages
from toolkit.tools.offers.prompt import ServedPrompt, prompt
from toolkit.tools.offers.resource import ServedResource, resource
from toolkit.tools.offers.template import overlap

__all__ = [
    "Completion",
    "Contents",
    "Messages",
    "ServedPrompt",
    "ServedResource",
    "as_messages",
    "overlap",
    "prompt",
    "read_icons",
    "resource",
]
