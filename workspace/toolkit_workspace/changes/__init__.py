"""What an agent did to a workspace: found, told as a table, written as a patch."""

from toolkit_workspace.changes.changes import Change, Changes, changes_of
from toolkit_workspace.changes.ignored import ignored_folders
from toolkit_workspace.changes.patch import Version, file_patch
from toolkit_workspace.changes.scan import Pair, settle
from toolkit_workspace.record.content import is_binary

__all__ = ["Change", "Changes", "Pair", "Version", "changes_of", "file_patch", "ignored_folders", "is_binary", "settle"]
