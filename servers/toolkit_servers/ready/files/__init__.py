"""A folder as a file system of its own: list, read, search, write, edit, move, remove.

The folder is the whole world of these tools: no path, link or race leads out of it
(see `root`). Writing is atomic (see `save`). In read-only mode the tools that
write do not exist. Every result is bounded and says what it leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from toolkit.errors import TargetError, ToolError
from toolkit.tools import Toolbox, ToolContext
from toolkit_servers.ready.files._reading import ReadTools
from toolkit_servers.ready.files._writing import WriteTools
from toolkit_servers.ready.files.reference import INSTRUCTIONS, FindFolders, Folders, reference_tools
from toolkit_servers.ready.files.root import FindRoot, Root
from toolkit_servers.ready.given import refuse_misfit

_INSTRUCTIONS = "All paths are relative to one root folder; nothing outside it exists."


def files(
    root: Path | Sequence[Path] | None = None,
    *,
    read_only: bool = False,
    name: str = "files",
    max_chars: int = 50_000,
    compat: Literal["reference"] | None = None,
) -> Toolbox:
    """A toolbox over the folder `root`, else over the workspace of the run, else (outside a run) the current folder.

    A result has at most about `max_chars` characters. `compat="reference"` gives the tools of the MCP project's
    reference filesystem server instead, by its names and arguments; `root` may then be several folders.

    Raises:
        TargetError: `root` is not a folder that can be opened, or several where one is meant; an option is not what
            is declared here, or leaves nothing.
    """
    refuse_misfit(files, root=root, read_only=read_only, name=name, max_chars=max_chars, compat=compat)
    if compat == "reference":
        tools = reference_tools(_folders_of(root), max_chars, read_only=read_only)
        return Toolbox(name, tools, instructions=INSTRUCTIONS)
    return Toolbox(name, _own_tools(_root_of(root), max_chars, read_only=read_only), instructions=_INSTRUCTIONS)


def _own_tools(find_root: FindRoot, max_chars: int, *, read_only: bool) -> list[object]:
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
    return tools


def _root_of(root: Path | Sequence[Path] | None) -> FindRoot:
    if root is None:
        return _workspace_of
    if not isinstance(root, str | os.PathLike):
        raise TargetError(
            "files has one folder, but was given several",
            target="files",
            where=[str(folder) for folder in root],
            fix="Make a toolbox for each, with a name of its own, or say compat=reference",
        )
    opened = Root(Path(root))
    return lambda _: opened


def _folders_of(root: Path | Sequence[Path] | None) -> FindFolders:
    if root is None:
        return lambda context: Folders((_workspace_of(context),))
    several = [root] if isinstance(root, str | os.PathLike) else root
    if not several:
        raise TargetError("files was given no folder", target="files", fix="Name at least one")
    folders = Folders(tuple(Root(Path(folder)) for folder in several))
    return lambda _: folders


def _workspace_of(context: ToolContext) -> Root:
    try:
        return Root(context.workspace, known_as=context.agent_path(context.workspace))
    except (TargetError, OSError) as error:  # a current folder that was removed has no name
        raise ToolError("the workspace folder is gone; nothing can be read or written") from error
