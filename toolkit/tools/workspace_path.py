"""Paths as an agent writes them, and the files on the host that they mean.

An agent in a jail works on a copy that stands at the project's own path: what it calls
`/home/you/shop/app.py` is another file for a tool, which runs on the host. A parameter
annotated `WorkspacePath` takes the path as the agent writes it and gives the function
the host path inside the copy. Where it leads is decided on directory handles; a path or
link that leaves the workspace is an error, and the function is not called.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Protocol, get_args

from toolkit._base.handles import PATH_HANDLE, open_beneath
from toolkit._base.words import safe_name
from toolkit.errors import ToolError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

    from toolkit.tools.context import ToolContext

SENTENCE = "A path in the workspace: absolute, or relative to the working directory."
_LONGEST = 4_096
_MOST_LINKS = 40
_END_OF_NAME = r"(?![\w-]|\.\w)"
_BYTES = ("data", "blob")
_now: ContextVar[ToolContext | None] = ContextVar("toolkit_tool_context", default=None)


class AgentPaths(Protocol):
    """How the paths of an agent and those of the host become each other."""

    def locate(self, path: str) -> tuple[Path, str] | None:
        """The host folder behind a part of the workspace and the path below it; None outside of every part."""

    def to_agent(self, path: Path) -> str | None:
        """What the agent calls a host path; None for one it cannot see."""

    def names(self) -> Sequence[tuple[str, str]]:
        """The host folders whose paths mean nothing to the agent, each with the agent's name for it."""

    def check_change(self, path: Path) -> None:
        """Raise a ToolError where a host path may not be changed, moved or removed; its last part is not followed."""


class CurrentFolder:
    """Outside a run: one folder of the host, known by its own path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def locate(self, path: str) -> tuple[Path, str] | None:
        """See `AgentPaths`."""
        wanted = PurePosixPath(os.path.normpath(self._folder / path))
        return (self._folder, str(wanted.relative_to(self._folder))) if wanted.is_relative_to(self._folder) else None

    def to_agent(self, path: Path) -> str | None:
        """See `AgentPaths`."""
        return str(path)

    def names(self) -> Sequence[tuple[str, str]]:
        """See `AgentPaths`."""
        return ()

    def check_change(self, path: Path) -> None:
        """See `AgentPaths`."""


def in_agents_words(value: Any, names: Sequence[tuple[str, str]]) -> Any:
    """The same value, a text or JSON, with the agent's names in the place of host paths."""
    if isinstance(value, str):
        for host, inside in names:
            if host in value:
                value = re.sub(re.escape(host) + _END_OF_NAME, inside.replace("\\", r"\\"), value)
        return value
    if isinstance(value, list | tuple):
        return [in_agents_words(one, names) for one in value]
    if isinstance(value, dict):
        # Bytes as text hold no path, and are long.
        return {key: one if key in _BYTES else in_agents_words(one, names) for key, one in value.items()}
    return value


def host_path(paths: AgentPaths, path: str) -> Path:
    """The host path for one that the agent wrote; what does not exist yet has a folder that does.

    Raises:
        ToolError: it leaves the workspace, or cannot be a path.
    """
    shown = safe_name(path)
    if not path or "\0" in path or len(path) > _LONGEST:
        raise ToolError(f"{shown} is no path")
    path = "/" + path.lstrip("/") if path.startswith("//") else path
    wanted, must_exist = path, False
    for _ in range(_MOST_LINKS):
        found = paths.locate(wanted)
        if found is None:
            raise ToolError(f"{shown} {'is outside' if wanted == path else 'leads out of'} the workspace")
        top, below = found
        root = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            real = _opened(root, os.fsencode(below)) if must_exist else _resolved(root, os.fsencode(below))
            return _below(top, root, real)
        except OSError as error:
            onward = _onward(paths, root, os.fsencode(below)) if error.errno == errno.EXDEV else None
            if onward is None:
                no_such = must_exist and error.errno == errno.ENOENT
                words = "is a link that leads nowhere in the workspace" if no_such else _in_words(error)
                raise ToolError(f"{shown} {words}") from None
            wanted, is_whole = onward
            must_exist = must_exist or is_whole
        finally:
            os.close(root)
    raise ToolError(f"{shown} leads through too many links")


def _onward(paths: AgentPaths, root: int, below: bytes) -> tuple[str, bool] | None:
    """Where the agent is led by the first link of a path that leaves its part, and whether the path ends with that
    link; None if there is no such link.

    Only a name: whether it lies in the workspace is asked anew, and it is opened as if the agent had written it.
    """
    parts = below.split(b"/")
    for depth in range(len(parts)):
        above, rest = b"/".join(parts[:depth]) or b".", parts[depth + 1 :]
        with contextlib.suppress(OSError):
            folder = open_beneath(root, above, PATH_HANDLE | os.O_DIRECTORY, follow_links=True)
            try:
                target = os.readlink(parts[depth], dir_fd=folder)
                stays = _leads_beneath(root, b"/".join(parts[: depth + 1]))
                here = paths.to_agent(Path(f"/proc/self/fd/{folder}").readlink())
            finally:
                os.close(folder)
            if not stays:
                at = b"" if target.startswith(b"/") else os.fsencode(here) + b"/" if here is not None else None
                return None if at is None else (os.fsdecode(b"/".join([at + target, *rest])), not rest)
    return None


def _below(top: Path, root: int, real: Path) -> Path:
    """The path to hand on: as the system names it, but where that name leads elsewhere, below the folder itself.

    A folder that is reached through a handle of this process (`/proc/PID/fd/N`, an overlay's) has such a name.
    """
    if not top.is_relative_to("/proc"):
        return real
    return top / real.relative_to(Path(f"/proc/self/fd/{root}").readlink())


def _leads_beneath(root: int, below: bytes) -> bool:
    try:
        os.close(open_beneath(root, below, PATH_HANDLE, follow_links=True))
    except OSError as error:
        return error.errno != errno.EXDEV
    return True


def _resolved(root: int, below: bytes) -> Path:
    try:
        return _opened(root, below)
    except FileNotFoundError:
        above, _, name = below.rpartition(b"/")
        with contextlib.suppress(FileNotFoundError):
            handle = open_beneath(root, below, PATH_HANDLE | os.O_NOFOLLOW)  # a link that leads to nothing yet
            os.close(handle)
            raise OSError(errno.ELOOP, "a link to nothing") from None
        return _opened(root, above or b".") / os.fsdecode(name)


def _opened(root: int, below: bytes) -> Path:
    handle = open_beneath(root, below, PATH_HANDLE, follow_links=True)
    try:
        return Path(f"/proc/self/fd/{handle}").readlink()
    finally:
        os.close(handle)


def _in_words(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return "leads out of the workspace"
    if error.errno == errno.ELOOP:
        return "is a link that leads nowhere in the workspace"
    if error.errno == errno.ENOENT:
        return "lies in a folder that does not exist"
    return f"cannot be reached: {error.strerror}"


@contextlib.contextmanager
def in_call(context: ToolContext) -> Iterator[None]:
    """The arguments read within are those of this call."""
    token = _now.set(context)
    try:
        yield
    finally:
        _now.reset(token)


class _InWorkspace:
    """Makes pydantic read a path as the agent's."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(_read, core_schema.str_schema())

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "description": SENTENCE}


def _read(path: str) -> Path:
    from pydantic_core import PydanticCustomError

    from toolkit.tools.context import ToolContext

    try:
        return (_now.get() or ToolContext()).host_path(path)
    except ToolError as error:
        raise PydanticCustomError("workspace_path", "{why}", {"why": str(error)}) from None


WorkspacePath = Annotated[Path, _InWorkspace()]
"""A parameter that takes a path as the agent writes it; the function gets the host path inside the copy."""


def holds_place(annotation: object) -> bool:
    """Whether a type is `WorkspacePath`, or a union or container of it."""
    return isinstance(annotation, _InWorkspace) or any(map(holds_place, get_args(annotation)))
