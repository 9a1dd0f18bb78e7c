"""A project file's keys as a run takes them: each value judged by the rule of its field, with its line in the error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_line
from toolkit.errors import ToolkitError
from toolkit.runs.fields import RULES
from toolkit.runs.kinds import OptionError
from toolkit.runs.projects.errors import ProjectFileError
from toolkit.runs.projects.reading.forms import Spot
from toolkit.runs.projects.reading.keys import OF_A_RUN, WHOLE
from toolkit.runs.projects.reading.source import Source
from toolkit_workspace import HostMount

_PYTHON = re.compile(r"\w=|\w\(")
_PART = re.compile(r"\[(?:(\d+)|'([^']*)')\]")
_VALUE_WIDTH = 60


def checked(source: Source) -> dict[str, Any]:
    """What a project file says: every key known, every value as its rule wants it.

    Paths are whole ones; `mounts` are `HostMount`s, without what is said for all of them.

    Raises:
        ProjectFileError: one is not; it has the line.
    """
    spot = Spot(source)
    said: dict[str, Any] = WHOLE(spot, source.data)
    for name in OF_A_RUN:
        if name in said:
            said[name] = _ruled(spot.at(name), name, said[name])
    if "tools" in said:
        said["tools"] = tuple(_target(spot, one) for one in said["tools"])
    for name, value in said.get("env", {}).items():
        judged(spot.at("env").at(name), _env, {name: value})
    mounts = spot.at("mounts")
    said["mounts"] = tuple(_mount(mounts.at(number), one) for number, one in enumerate(said.get("mounts", ())))
    for name in ("exclude_glob", "lend"):
        for number, one in enumerate(said.get(name, ())):
            judged(spot.at(name).at(number), HostMount, ".", **{name: one})
    if "git" in said:
        judged(spot.at("git"), HostMount, ".", git=said["git"])
    return said


def _ruled(spot: Spot, name: str, value: Any) -> Any:
    if name == "limits":  # one by one, so that each is told with its own line
        for limit, one in value.items():
            judged(spot.at(limit), RULES[name], name, {limit: one})
    return judged(spot, RULES[name], name, value)


def _mount(spot: Spot, said: str | dict[str, Any]) -> HostMount:
    fields = {"host_path": said} if isinstance(said, str) else dict(said)
    if "host_path" not in fields:
        raise spot.wrong("a mount has a host_path", 'Write for example: host_path = "src"')
    for name in fields.keys() - {"host_path"}:
        judged(spot.at(name), HostMount, fields["host_path"], **{name: fields[name]})
    mount = judged(spot, HostMount, **fields)
    assert isinstance(mount, HostMount)
    return mount


def _target(spot: Spot, written: str) -> str:
    """A TARGET; one that names a file names it relative to the project file."""
    place, ends, name = written.partition(".py")
    is_file = ends and (not name or name.startswith(":"))
    return f"{spot.host_path(place + ends)}{name}" if is_file else written


def _env(variables: Mapping[str, str]) -> None:
    from toolkit.sandbox import checked_env  # with the jail's own variables, which take a moment to load

    checked_env(variables)


def judged(spot: Spot, rule: Callable[..., Any], *values: Any, **more: Any) -> Any:
    """What a rule keeps of a value; its complaint is told with the line of what it is about."""
    try:
        return rule(*values, **more)
    except ProjectFileError:
        raise
    except ToolkitError as error:
        raise _told(spot, error, values[-1] if values else None) from None


def _told(spot: Spot, error: ToolkitError, value: Any) -> ProjectFileError:
    what = error.what
    if isinstance(error, OptionError):
        for place, name in _PART.findall(error.option):
            part = int(place) if place else name
            spot = spot.at(part)
            value = value[part] if isinstance(value, Mapping | tuple | list) else value
        what = what.removeprefix(f"{error.option}={safe_line(repr(value), _VALUE_WIDTH)}: ")
        what = what.removeprefix(f"{error.option}: ")
    what = re.sub(
        r"^(?:Limits\(|limit )\w+=[^\s):]+\)?(?:: | (?=is ))", "it " if what.startswith("limit ") else "", what
    )
    what = what.removeprefix(f"{spot.name}: ")
    fix = "" if _PYTHON.search(error.fix) else error.fix
    return spot.wrong(safe_line(what, 300), fix)


def outside(folder: Path, path: Path | str) -> bool:
    """Whether a path leads out of the folder of the file, by its name or by a link."""
    return not Path(path).resolve().is_relative_to(folder)
