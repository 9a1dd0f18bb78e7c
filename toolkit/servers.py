"""The server names users write: `from toolkit.servers import …`."""

from toolkit_servers import *  # noqa: F403
from toolkit_servers import __all__ as __all__
