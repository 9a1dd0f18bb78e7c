"""What a place on the host holds, as a value that can be written down and recognised again.

A state is the kind, the permissions and the bytes (by digest) or target: enough to
tell whether a step of an apply was made, was not made, or met something else.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from typing import Any

from toolkit_workspace.changes.marks import links_below
from toolkit_workspace.record.content import Content, ContentGone, open_file
from toolkit_workspace.record.hosts import Hosts

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")  # never security.*: capabilities must not survive new bytes


@dataclass(frozen=True, slots=True)
class HostState:
    """One version of a host path."""

    kind: str
    """`f`, `d`, `l`, or `s` for what is never touched."""
    mode: int
    size: int = 0
    sha256: str = ""
    target: bytes | None = None
    mtime_ns: int | None = None
    owner: tuple[int, int] | None = None
    attributes: tuple[tuple[str, bytes], ...] = ()

    def is_like(self, other: HostState | None) -> bool:
        """Whether both are the same to whoever reads the path."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "d":
            return True
        if self.kind == "l":
            return self.target == other.target
        return self.sha256 == other.sha256 and self.mode & 0o777 == other.mode & 0o777

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "mode": self.mode,
            "size": self.size,
            "sha256": self.sha256,
            "target": None if self.target is None else os.fsdecode(self.target),
            "mtime_ns": self.mtime_ns,
            "owner": self.owner,
            "attributes": [[name, value.hex()] for name, value in self.attributes],
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> HostState:
        return cls(
            facts["kind"],
            facts["mode"],
            facts["size"],
            facts["sha256"],
            None if facts["target"] is None else os.fsencode(facts["target"]),
            facts["mtime_ns"],
            None if facts["owner"] is None else (facts["owner"][0], facts["owner"][1]),
            tuple((name, bytes.fromhex(value)) for name, value in facts["attributes"]),
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A host path as found: its state without digest, its stat, and its bytes while they stay as they are."""

    state: HostState
    st: os.stat_result
    content: Content | None

    def with_digest(self) -> HostState:
        """The state with the digest of the bytes.

        Raises:
            ContentGone: the file changed since it was looked at.
        """
        return self.state if self.content is None else replace(self.state, sha256=self.content.sha256())


def look(hosts: Hosts, mount: int, host_path: bytes) -> Seen | None:
    """What is at a host path now, None if nothing.

    Raises:
        WorkspaceSecurityError: the way there leads through a link.
        ContentGone: it changed this instant.
    """
    st = hosts.stat(mount, host_path)
    if st is None:
        return None
    place = hosts.place(mount, host_path)
    owner = (st.st_uid, st.st_gid)
    if stat.S_ISDIR(st.st_mode):
        return Seen(HostState("d", st.st_mode, owner=owner), st, None)
    if stat.S_ISLNK(st.st_mode):
        target = _link_target(hosts, mount, place)
        return Seen(HostState("l", st.st_mode, target=target, owner=owner), st, None)
    if not stat.S_ISREG(st.st_mode):
        return Seen(HostState("s", st.st_mode), st, None)
    found = st

    def is_still(now: os.stat_result) -> bool:
        return (now.st_ino, now.st_ctime_ns) == (found.st_ino, found.st_ctime_ns)

    content = Content(lambda: open_file(hosts.folder(mount), place), st.st_size, is_still=is_still)
    attributes = _attributes(content)
    state = HostState("f", st.st_mode, st.st_size, "", None, st.st_mtime_ns, owner, attributes)
    return Seen(state, st, content)


def _link_target(hosts: Hosts, mount: int, place: bytes) -> bytes:
    target = links_below(hosts.folder(mount))(place)
    if target is None:
        raise ContentGone("a link became something else while it was read")
    return target


def _attributes(content: Content) -> tuple[tuple[str, bytes], ...]:
    try:
        fd = content.open()
    except ContentGone:  # unreadable or gone: whoever needs the bytes will say so
        return ()
    try:
        names = [name for name in os.listxattr(fd) if name.startswith(_KEPT_ATTRIBUTES)]
        return tuple((name, os.getxattr(fd, name)) for name in sorted(names))
    except OSError:  # a file system without attributes
        return ()
    finally:
        os.close(fd)
