"""A workspace that is prepared on one machine and worked in on another, and what comes back of it.

The names below are loaded on first use: most workspaces stay where they are.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit_workspace.travelling.back import GivenBack as GivenBack, give_back as give_back
    from toolkit_workspace.travelling.copied import (
        is_copied as is_copied,
        settle_here as settle_here,
        touched_unkept as touched_unkept,
    )
    from toolkit_workspace.travelling.history import give_histories as give_histories, give_tree as give_tree
    from toolkit_workspace.travelling.rebuilt import Returned as Returned, rebuild as rebuild
    from toolkit_workspace.travelling.selected import (
        Selected as Selected,
        Sink as Sink,
        mount_name as mount_name,
        select_into as select_into,
    )

_HOMES = {
    "toolkit_workspace.travelling.back": "GivenBack give_back",
    "toolkit_workspace.travelling.copied": "is_copied settle_here touched_unkept",
    "toolkit_workspace.travelling.history": "give_histories give_tree",
    "toolkit_workspace.travelling.rebuilt": "Returned rebuild",
    "toolkit_workspace.travelling.selected": "Selected Sink mount_name select_into",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
