"""The workspace names users write: `from toolkit.workspace import HostMount`."""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names
from toolkit_workspace import __all__ as _names

if TYPE_CHECKING:
    from toolkit_workspace import *  # noqa: F403

__getattr__, __dir__, __all__ = lazy_names(__name__, {"toolkit_workspace": " ".join(_names)})
