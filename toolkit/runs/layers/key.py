"""What a layer depends on, and the one name that follows from it.

The command with its variables, the files it depends on, what is mounted and where it
appears, the system, and the programs that would install: if one of these is another, so is the layer.
Variables count by their values, which are hashed and kept nowhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.runs.layers.inputs import Inputs, find_inputs
from toolkit_workspace import HostMount, WorkspaceSection

FORMAT = 1
_PROGRAMS = {"python": ("python3",), "node": ("node",)}
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class LayerKey:
    """The name of a layer, and what it was made of, for people."""

    name: str
    inputs: Inputs
    """The files it depends on."""
    machine: dict[str, str]
    """The system and the programs it depends on, in words."""

    @property
    def short(self) -> str:
        """Enough of the name to tell it from others."""
        return self.name[:12]


def key_of(
    command: str,
    section: WorkspaceSection,
    *,
    env: Mapping[str, str],
    keyed_by: Sequence[str],
    path: Sequence[str],
    readable: Sequence[str] = (),
) -> LayerKey:
    """The key of the layer that a command makes for a section.

    Args:
        path: Where the command looks for programs.
        readable: Further host paths that it is shown.

    Raises:
        OptionError: a file that was named is in no mount.
        WorkspaceError: a mount is not there, or in no allowed root.
    """
    section.check()
    inputs = find_inputs(section.mounts, keyed_by)
    machine = _machine(path)
    whole: dict[str, Any] = {
        "format": FORMAT,
        "command": command,
        "env": sorted(env.items()),
        "inputs": inputs,
        "mounts": [_mount(mount) for mount in section.mounts],
        "places": [(part.landing, part.inside) for part in section.places.parts],
        "start": section.places.start,
        "readable": sorted(readable),
        "machine": machine,
    }
    text = json.dumps(whole, sort_keys=True, ensure_ascii=True, default=str)
    return LayerKey(hashlib.sha256(text.encode()).hexdigest()[:_DIGITS], inputs, machine)


def _mount(mount: HostMount) -> dict[str, Any]:
    """What of a mount decides which files a setup sees."""
    names = ("include_glob", "exclude_glob", "follow_symlinks", "gitignore", "leave_out_secrets", "git")
    return {"landing": mount.landing, **{name: getattr(mount, name) for name in names}}


def _machine(path: Sequence[str]) -> dict[str, str]:
    """The system, and the programs that a setup would find, each by its file."""
    try:
        release = platform.freedesktop_os_release()
        system = f"{release.get('ID', 'linux')} {release.get('VERSION_ID', '')}".rstrip()
    except OSError:
        system = platform.system()
    found = {"system": system, "libc": _libc(), "architecture": platform.machine()}
    for name, programs in _PROGRAMS.items():
        for program in programs:
            place = shutil.which(program, path=":".join(path))
            if place is not None:
                real = Path(place).resolve()
                st = real.stat()
                found[name] = f"{real} {st.st_size} {st.st_mtime_ns}"
    return found


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (OSError, ValueError):
        return "unknown"
