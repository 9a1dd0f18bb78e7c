"""The server names users write: `from toolkit.servers import …`."""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names
from toolkit_servers import __all__ as _names

if TYPE_CHECKING:
    from toolkit_servers import *  # noqa: F403

__getattr__, __dir__, __all__ = lazy_names(__name__, {"toolkit_servers": " ".join(_names)})
