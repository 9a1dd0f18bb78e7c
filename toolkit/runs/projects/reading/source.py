"""A project file read once, from one handle: what is looked at, shown, hashed and obeyed is the same bytes.

A link, a file of somebody else's and a file that everybody may write are refused.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.handles import READ_FILE
from toolkit._base.words import safe_line, safe_name, typed_path
from toolkit.runs.projects.errors import ProjectFileError
from toolkit.runs.projects.finding import PYPROJECT, TABLE
from toolkit.runs.projects.reading.lines import KeyPath, key_lines

_MOST_BYTES = 256 * 1024
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a project file, taken apart, and the line of each of its keys."""

    path: Path
    """Absolute, without links in it."""
    stated: str
    """What it says: the text itself, or the table of a pyproject.toml written anew."""
    data: dict[str, Any]
    text: str
    inside: tuple[str, ...]
    """Where the keys are: nowhere special, or in a table."""
    lines: dict[KeyPath, int]

    def wrong(self, path: KeyPath, what: str, fix: str = "", *, hidden: bool = False) -> ProjectFileError:
        """The error about one key: what, the file with its line, and what to do."""
        whole = (*self.inside, *path)
        line = next((found for end in range(len(whole), 0, -1) if (found := self.lines.get(whole[:end]))), None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        source = "" if line is None or hidden else _line(self.text, line)
        place = f"{shown_path(self.path)}:{line or 1}"
        return ProjectFileError(
            f"{safe_line(key, _WIDTH)}: {what}" if key else what,
            file=self.path,
            line=line,
            key=key or None,
            where=[f"{place}  {source}".rstrip()],
            fix=fix,
        )


def read_source(file: Path | str) -> Source:
    """Read a project file.

    Raises:
        ProjectFileError: it is not there, no file of this user's, too large, or no TOML.
    """
    given = Path(file)
    path = given.parent.resolve() / given.name
    text = _text(path)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _not_toml(path, text, str(error)) from None
    inside = TABLE if path.name == PYPROJECT else ()
    for part in inside:
        data = data.get(part, {}) if isinstance(data, dict) else {}
    if inside and not data:
        raise ProjectFileError(f"{PYPROJECT} has no table [tool.toolkit]", file=path, where=[shown_path(path)])
    if not isinstance(data, dict):
        raise ProjectFileError("tool.toolkit: it is a table, [tool.toolkit]", file=path, where=[shown_path(path)])
    stated = written(data) if inside else text
    return Source(path, stated, data, text, inside, key_lines(text))


def written(data: Mapping[str, Any]) -> str:
    """A table as TOML, one key a line; what tables hold stands in braces."""
    return "".join(f"{_name(name)} = {_value(value)}\n" for name, value in data.items())


def shown_path(path: Path) -> str:
    """A path as someone here would type it."""
    return safe_name(typed_path(path, Path.cwd()))


def _line(text: str, number: int) -> str:
    """One line; they are counted as TOML counts them."""
    return safe_line(text.split("\n")[number - 1], _WIDTH)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_name(name)} = {_value(entry)}" for name, entry in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    # JSON's words and escapes are TOML's, too; dates and times are no values of ours and are shown as texts.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def _name(name: str) -> str:
    is_bare = name and all(char.isascii() and (char.isalnum() or char in "_-") for char in name)
    return name if is_bare else json.dumps(name, ensure_ascii=False)


def _text(path: Path) -> str:
    where = [shown_path(path)]
    try:
        handle = os.open(path, READ_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ProjectFileError(
                "the project file is a link, which can be led elsewhere at any time",
                file=path,
                where=where,
                fix="Put the file itself there, or name it: --config FILE",
            ) from None
        raise ProjectFileError(f"the project file cannot be read: {error.strerror}", file=path, where=where) from None
    try:
        _check_owner(os.fstat(handle), path, where)
        data = b""
        while piece := os.read(handle, _MOST_BYTES + 1):
            data += piece
            if len(data) > _MOST_BYTES:
                raise ProjectFileError(
                    f"the project file is larger than {_MOST_BYTES // 1024} KiB", file=path, where=where
                )
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ProjectFileError("the project file is no UTF-8 text", file=path, where=where) from None
    except OSError as error:
        raise ProjectFileError(f"the project file cannot be read: {error.strerror}", file=path, where=where) from None
    finally:
        os.close(handle)


def _check_owner(st: os.stat_result, path: Path, where: list[str]) -> None:
    me = os.geteuid()
    if not stat.S_ISREG(st.st_mode):
        what, fix = "the project file is no ordinary file", "Put a file there, or write --no-config"
    elif st.st_uid not in (me, 0):
        what = f"the project file belongs to another user (uid {st.st_uid}, and you are uid {me})"
        fix = "Make it yours if you vouch for it (chown), run as its owner, or write --no-config"
    elif st.st_mode & stat.S_IWOTH:
        what, fix = "everybody on this machine may write the project file", f"Write: chmod o-w {where[0]}"
    else:
        return
    raise ProjectFileError(what, file=path, where=where, fix=fix)


def _not_toml(path: Path, text: str, why: str) -> ProjectFileError:
    at = why.rpartition("(at line ")[2].partition(",")[0]
    line = int(at) if at.isdecimal() else text.count("\n") + 1
    return ProjectFileError(
        f"the project file is no TOML: {safe_line(why, _WIDTH)}",
        file=path,
        line=line,
        where=[f"{shown_path(path)}:{line}  {_line(text, line)}".rstrip()],
        fix="Correct that line, or do without the file: --no-config",
    )
