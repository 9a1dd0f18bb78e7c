"""The workspace names users write: `from toolkit.workspace import HostMount`."""

from toolkit_workspace import *  # noqa: F403
from toolkit_workspace import __all__ as __all__
