"""The folders an agent may be shown: each is returned ready to use, or refused with the reason and what to write."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toolkit.errors import SandboxError
from toolkit.sandbox.jail.as_root import is_tenant

# A jail that shows one of these whole shows the machine, or replaces the root it is built on.
_TOP = (
    *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt"),
    *("proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
)
_BELOW = ("usr/bin", "usr/lib", "usr/local", "usr/sbin", "var/lib", "var/tmp", "home/agent")
_SYSTEM = frozenset({"/", *(f"/{name}" for name in (*_TOP, *_BELOW))})
_NOT_FILES = ("/proc", "/sys", "/dev")


def usable_workspace(folder: Path | str) -> Path:
    """Return the resolved folder an agent may work in.

    Raises:
        SandboxError: it is missing, a link, someone else's, a part of the system, the
            caller's home, or holds or lies in the CLI's configuration.
    """
    if not isinstance(folder, str | os.PathLike):
        what = f"the workspace {type(folder).__name__}(…) is no folder"
        raise SandboxError(what, fix="Give its path, as a text or a Path; of a prepared section: section.temp_dir")
    given = Path(folder)
    if given.is_symlink():
        raise _refused(given, f"is a link to {given.readlink()}", "Name the folder itself.")
    if not given.is_dir():
        missing = "is not a folder" if given.exists() else "does not exist"
        raise _refused(given, missing, "Create it, or name the folder that was copied for the agent.")
    resolved = given.resolve()
    if str(resolved) in _SYSTEM or str(resolved).startswith(tuple(f"{place}/" for place in _NOT_FILES)):
        raise _refused(given, "is a part of the system", "Copy what the agent needs into a folder of its own.")
    owner = resolved.stat().st_uid
    if owner != os.geteuid() and not (os.geteuid() == 0 and is_tenant(owner)):
        raise _refused(
            given, f"belongs to uid {owner}, not to you (uid {os.geteuid()})", "Copy it, or change its owner."
        )
    home = _home()
    if home is not None and (resolved == home or resolved in home.parents):
        raise _refused(given, "holds your home directory", "Copy what the agent needs into a folder of its own.")
    for config in _config_folders():
        if resolved == config or config in resolved.parents:
            raise _refused(given, f"is inside the CLI's config dir {config}", "Choose a folder outside it.")
        if resolved in config.parents:
            raise _refused(given, f"holds the CLI's config dir {config}", "Choose a folder without it.")
    return resolved


def usable_readable(path: Path | str, workspace: Path | None = None) -> Path:
    """Return a resolved host path the agent may read besides its `workspace`."""
    given = Path(path)
    if not given.exists():
        raise SandboxError(f"readable path '{given}' does not exist", fix="Name an existing file or folder.")
    resolved = given.resolve()
    named = given.absolute()
    if (
        workspace is not None
        and workspace in (named.parent.resolve(), *named.parents)
        and workspace not in resolved.parents
    ):
        raise SandboxError(
            f"the path '{given}' leads out of the workspace by a link, which an agent may have put there",
            where=[str(resolved)],
            fix=f"If you want to show it, name where it leads: {resolved}",
        )
    home = _home()
    whole = str(resolved) in _SYSTEM - {"/opt", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin"}
    if whole or (home is not None and (resolved == home or resolved in home.parents)):
        raise SandboxError(
            f"the path '{given}' would show the agent too much",
            where=[str(resolved)],
            fix="Name the toolchain or environment itself, for example: /opt/toolchain",
        )
    return resolved


def usable_home(path: Path | str) -> Path:
    """Return a private folder for the agent's home, made if it does not exist."""
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        resolved, found = folder.resolve(), folder.stat()
    except OSError as error:
        why = f"home '{folder}' cannot be made: {error.strerror}"
        raise SandboxError(why, fix="Name a folder of yours, or one that can be made") from None
    lent = os.geteuid() == 0 and is_tenant(found.st_uid)
    if folder.is_symlink() or (found.st_uid != os.geteuid() and not lent) or found.st_mode & 0o077:
        raise SandboxError(
            f"home '{folder}' is not a private folder of yours", fix=f"Name another, or run: chmod 700 {folder}"
        )
    home = _home()
    if home is not None and (resolved == home or resolved in home.parents):
        raise SandboxError(f"home '{folder}' holds your own home", fix="Name a new folder for the agent.")
    return resolved


def python_environment() -> tuple[Path, ...]:
    """The folders this Python needs to run inside a jail, to pass as `readable`."""
    folders = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    return tuple(sorted(folder for folder in folders if not folder.is_relative_to("/usr")))


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except RuntimeError:
        return None


def _config_folders() -> list[Path]:
    configured = os.environ.get("CLAUDE_CONFIG_DIR")
    home = _home()
    folders = [Path(configured)] if configured else []
    if home is not None:
        folders.append(home / ".claude")
    return [folder.resolve() for folder in folders]


def _refused(folder: Path, why: str, fix: str) -> SandboxError:
    return SandboxError(f"workspace '{folder}' {why}", where=[str(folder.absolute())], fix=fix)
