"""Merge a server into a client's configuration file.

The file keeps everything else it has, character by character. It is written in one
step, beside a backup of what was there; a file that cannot be read is left alone.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base import json_text
from toolkit._base.files import umask, write_whole
from toolkit.errors import ClientConfigError

if TYPE_CHECKING:
    from toolkit_servers.clients import Client, RemoteServer, Server

_OR_COPY = "or run this without --write and copy the entry yourself; nothing was changed"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What became of a configuration file."""

    file: Path
    backup: Path | None
    """A copy of the file as it was; None when it is new or needed no change."""
    changed: bool


def write_server(server: Server | RemoteServer, client: Client, file: Path) -> ConfigFile:
    """Merge a server into a client's configuration file.

    An entry of the same name is updated when it serves the same target, and keeps its
    other members (`env` and the like).

    Raises:
        ClientConfigError: the file is not JSON, cannot be read or written, or another server has that name.
    """
    file = Path(os.path.realpath(file))  # a linked file is changed where it really is
    old = _read(file)
    bom, text = ("\ufeff", old[1:]) if old and old.startswith("\ufeff") else ("", old or "")
    try:
        data = json_text.read(text, comments=client.comments)
        entry = _merged(server, client, data, file)
        new = bom + json_text.with_member(text, (client.key, server.name), entry, comments=client.comments)
    except json.JSONDecodeError as error:
        what, where = f"{file} is not valid JSON: {error.msg}", f"{file}:{error.lineno}:{error.colno}"
        raise ClientConfigError(what, file=file, where=[where], fix=f"Correct the file, {_OR_COPY}") from error
    except json_text.NotAnObject as error:
        what = f"{file}: {'.'.join(error.path) or 'the whole file'} is not a JSON object"
        raise ClientConfigError(what, file=file, fix=f"Correct the file, {_OR_COPY}") from error
    if old is not None and json_text.read(new.removeprefix("\ufeff"), comments=client.comments) == data:
        return ConfigFile(file, None, changed=False)
    try:
        backup = _back_up(file) if old is not None else None
        _replace(file, new)
    except OSError as error:
        raise _unusable(file, error) from error
    return ConfigFile(file, backup, changed=True)


def _merged(server: Server | RemoteServer, client: Client, data: Any, file: Path) -> dict[str, Any]:
    """The new entry, on top of what an older one of the same target has."""
    entry = server.entry(client)
    servers = data.get(client.key) if isinstance(data, dict) else None
    if not isinstance(servers, dict) or server.name not in servers:
        return entry
    old = servers[server.name]
    if not server.is_same(old):
        args = old.get("args") if isinstance(old, dict) else None
        runs = old.get("command", old.get("url", old)) if isinstance(old, dict) else old
        raise ClientConfigError(
            f"{file} already has another server called '{server.name}'",
            file=file,
            where=(f"it runs {shlex.join([str(runs), *map(str, args or [])])}",),
            fix=f"Give this one another name: --name {server.name}-2",
        )
    return {**old, **entry}


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(file, error) from error


def _back_up(file: Path) -> Path:
    """Copy the file to the first free name beside it."""
    number = 1
    while (backup := file.with_name(f"{file.name}.bak{number if number > 1 else ''}")).exists():
        number += 1
    shutil.copy2(file, backup)
    return backup


def _replace(file: Path, text: str) -> None:
    """Write the file in one step: it is either the old or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o644 & ~umask()
    write_whole(file, text, mode=mode, durable=True)


def _unusable(file: Path, error: OSError | UnicodeDecodeError) -> ClientConfigError:
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return ClientConfigError(f"{file} cannot be changed: {reason}", file=file, fix=f"Correct that, {_OR_COPY}")
