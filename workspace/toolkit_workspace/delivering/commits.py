"""The commits that an agent made in its copy: taken out as objects only, checked, and read.

They are packed where the agent worked, by a function of the caller's, because nothing in
that git folder can be trusted to be run here. What arrives is checked object by object
on its way in (`index-pack --strict`), and again as a whole: everything it names is there.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.git import Origin
from toolkit_workspace.git.folder import GitFolder
from toolkit_workspace.git.refs import head_of, read_refs
from toolkit_workspace.quarantine import Entry, GitFailed, Quarantine
from toolkit_workspace.workspace import Workspace

Packer = Callable[[Origin, str, str | None, int], None]
"""Writes a thin pack of all from the second commit (if there is one) to the first to a handle, for `index-pack`."""

_LARGEST_PACK = 1 << 30
_MOST_COMMITS = 500
_SECONDS = 300
_AUTHOR = re.compile(rb"^author .*> (\d{1,11}) ([+-]\d{4})$", re.MULTILINE)
_WAY_OUT = "Take the files as one commit instead: --squash"


@dataclass(frozen=True, slots=True)
class AgentCommit:
    """One commit of the agent's."""

    oid: str
    parents: tuple[str, ...]
    when: str | None
    """When it was authored, as git writes it."""
    message: str
    changed: dict[str, Entry | None]
    """What it has where it differs from the commit that the run began with."""


def tip_of(workspace: Workspace, origin: Origin) -> str | None:
    """The commit that the copy has checked out; None where it has none, or no git folder any more.

    Raises:
        WorkspaceSecurityError: its git folder leads elsewhere.
    """
    if origin.git is None:
        return None
    place = workspace.folder.resolve() / origin.git
    try:
        if not place.is_dir():
            return None
        with GitFolder(place) as folder:
            length = len(origin.commit) if origin.commit else 40
            return head_of(folder, read_refs(folder, folder, length))[1]
    except WorkspaceError as error:
        raise _refused("the agent's git folder cannot be read", error.what) from error


def take_commits(quarantine: Quarantine, origin: Origin, tip: str, pack: Packer) -> list[AgentCommit]:
    """The agent's commits up to `tip`, parents first; their objects are in the quarantine afterwards.

    Raises:
        WorkspaceSecurityError: what arrived is not sound, or too large.
        WorkspaceError: nothing arrived.
    """
    _bring_in(quarantine, origin, tip, pack)
    known = ["--not", *([origin.commit] if origin.commit else []), "--all"]
    try:
        if quarantine.git.line("cat-file", "-t", tip) != "commit":
            raise _refused("the agent's last commit is none", tip)
        quarantine.git("rev-list", "--objects", "--quiet", tip, *known)
        listed = quarantine.git("rev-list", "--topo-order", "--reverse", "--parents", tip, *known).decode().splitlines()
    except GitFailed as error:
        raise _refused("the agent's commits name things that are not there", *error.where) from error
    if len(listed) > _MOST_COMMITS:
        raise _refused(f"the agent made {len(listed):,} commits; {_MOST_COMMITS} are the most that come along")
    return [_read(quarantine, origin, *line.split(" ")) for line in listed]


def _bring_in(quarantine: Quarantine, origin: Origin, tip: str, pack: Packer) -> None:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        process = quarantine.git.start(
            *("index-pack", "--stdin", "--fix-thin", "--strict", f"--max-input-size={_LARGEST_PACK}"),
            stdin=reader,
            stdout=subprocess.DEVNULL,
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    with process:
        try:
            try:
                pack(origin, tip, origin.commit, writer)
            finally:
                os.close(writer)
            said = process.communicate(timeout=_SECONDS)[1]
        except BaseException as error:
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise _refused("the agent's commits could not be read in time") from error
            raise
    if process.returncode != 0:
        raise _refused("the agent's commits are refused", *GitFailed("index-pack", said.decode(errors="replace")).where)


def _read(quarantine: Quarantine, origin: Origin, oid: str, *parents: str) -> AgentCommit:
    head, _, body = quarantine.git("cat-file", "commit", oid).partition(b"\n\n")
    found = _AUTHOR.search(head)
    when = f"@{found[1].decode()} {found[2].decode()}" if found else None
    changed = quarantine.differing(origin.commit, oid)
    return AgentCommit(oid, parents, when, body.decode("utf-8", "replace"), changed)


def _refused(what: str, *where: str) -> WorkspaceSecurityError:
    return WorkspaceSecurityError(what, where=list(where), rule="agent-commits", fix=_WAY_OUT)
