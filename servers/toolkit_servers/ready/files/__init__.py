"""A folder as a file system of its own: list, read, search, write, edit, move, remove.

The folder is the whole world of these tools: no path, link or race leads out of it
(see `root`). Writing is atomic (see `save`). In read-only mode the tools that
write do not exist. Every result is bounded and says what it leaves out.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import TargetError, ToolError
from toolkit.tools import Toolbox, ToolContext
from toolkit_servers.ready.files._reading import ReadTools
from toolkit_servers.ready.files._writing import WriteTools
from toolkit_servers.ready.files.root import FindRoot, Root


def files(
    root: Path | None = None, *, read_only: bool = False, name: str = "files", max_chars: int = 50_000
) -> Toolbox:
    """A toolbox over the folder `root`, else over the workspace of the run, else (outside a run) the current folder.

    A result has at most about `max_chars` characters.

    Raises:
        TargetError: `root` is not a folder that can be opened.
    """
    find_root = _workspace_of if root is None else _always(Root(Path(root)))
    reading = ReadTools(find_root, max_chars, "read only" if read_only else "read and write everything below the root")
    tools: list[object] = [
        reading.list_directory,
        reading.tree,
        reading.glob,
        reading.grep,
        reading.read_file,
        reading.read_files,
        reading.read_media,
        reading.info,
    ]
    if not read_only:
        writing = WriteTools(find_root, max_chars)
        tools += [writing.write_file, writing.edit_file, writing.make_directory, writing.move, writing.remove]
    return Toolbox(name, tools, instructions="All paths are relative to one root folder; nothing outside it exists.")


def _always(root: Root) -> FindRoot:
    return lambda _: root


def _workspace_of(context: ToolContext) -> Root:
    try:
        return Root(context.workspace)
    except (TargetError, OSError) as error:  # a current folder that was removed has no name
        raise ToolError("the workspace folder is gone; nothing can be read or written") from error
