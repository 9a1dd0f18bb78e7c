"""The fourteen tools of the MCP project's reference filesystem server, by its names and arguments.

They answer as it does, so that prompts, permission lists and programs written for it
go on working, over one folder or several. The safety is that of `files`: what leads
out of the folders, a file that changed meanwhile, an edit that fits in two places and
everything that is no file are refused. docs/ready.md lists every difference.
"""

from __future__ import annotations

from toolkit_servers.ready.files.reference._changing import ChangingTools
from toolkit_servers.ready.files.reference._folders import FindFolders, Folders
from toolkit_servers.ready.files.reference._looking import LookingTools

INSTRUCTIONS = (
    "Paths are absolute and lie in an allowed directory, or are relative to the first one; nothing else exists."
)


def reference_tools(find_folders: FindFolders, max_chars: int, *, read_only: bool) -> list[object]:
    """The tools over the folders of a call."""
    looking = LookingTools(find_folders, max_chars)
    tools: list[object] = [
        looking.read_file,
        looking.read_text_file,
        looking.read_media_file,
        looking.read_multiple_files,
        looking.list_directory,
        looking.list_directory_with_sizes,
        looking.directory_tree,
        looking.search_files,
        looking.get_file_info,
        looking.list_allowed_directories,
    ]
    if not read_only:
        changing = ChangingTools(find_folders, max_chars)
        tools += [changing.write_file, changing.edit_file, changing.create_directory, changing.move_file]
    return tools


__all__ = ["INSTRUCTIONS", "FindFolders", "Folders", "reference_tools"]
