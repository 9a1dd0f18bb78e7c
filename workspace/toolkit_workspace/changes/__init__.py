"""What an agent did to a workspace: found, told as a table, written as a patch.

The names below are loaded on first use: whoever only looks whether something changed needs no patches.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit_workspace.changes.changes import Change as Change, Changes as Changes, changes_of as changes_of
    from toolkit_workspace.changes.ignored import ignored_folders as ignored_folders
    from toolkit_workspace.changes.patch import Version as Version, file_patch as file_patch
    from toolkit_workspace.changes.scan import Pair as Pair, settle as settle
    from toolkit_workspace.record.content import is_binary as is_binary

_HOMES = {
    "toolkit_workspace.changes.changes": "Change Changes changes_of",
    "toolkit_workspace.changes.ignored": "ignored_folders",
    "toolkit_workspace.changes.patch": "Version file_patch",
    "toolkit_workspace.changes.scan": "Pair settle",
    "toolkit_workspace.record.content": "is_binary",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
