"""What a place on the host holds and is to hold, as a journal writes it down: pack and unpack side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from toolkit_workspace.record import ByteStore
from toolkit_workspace.record.content import Content, ContentGone, Node, Source
from toolkit_workspace.record.record import Row, Stamp


@dataclass(frozen=True, slots=True)
class HostVersion:
    """What a place on the host holds or is to hold: enough to recognise it, and to make it."""

    kind: str
    """`f`, `d`, `l`, or `s` for what is never touched."""
    mode: int
    target: bytes | None = None
    content: Source | None = None
    sha256: str = ""
    mtime_ns: int | None = None
    owner: tuple[int, int] | None = None
    attributes: tuple[tuple[str, bytes], ...] = ()
    stamp: Stamp | None = None
    """The stamp it has where it is, if it is there."""

    @classmethod
    def of(cls, node: Node) -> HostVersion:
        """All that has to be known to put back what is there now."""
        assert node.st is not None
        owner, content, stamp = (node.st.st_uid, node.st.st_gid), node.content, Stamp.of(node.st)
        if content is None:
            return cls(node.kind, node.mode, node.target, owner=owner, stamp=stamp)
        return cls(node.kind, node.mode, None, content, "", node.st.st_mtime_ns, owner, content.attributes(), stamp)

    def is_like(self, other: HostVersion | None) -> bool:
        """Whether both are the same to whoever reads the path."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "d":
            return True
        if self.kind == "l":
            return self.target == other.target
        return self.sha256 == other.sha256 and self.mode & 0o777 == other.mode & 0o777

    def is_made_in(self, node: Node) -> bool:
        """Whether this is what the place holds now, its bytes read once more."""
        if self.kind != "f" or node.content is None:
            return node.kind == self.kind and node.target == self.target
        try:
            return isinstance(self.content, Content) and node.content.equals(self.content)
        except ContentGone:  # somebody was quick to change it again
            return False

    def to_json(self) -> list[Any]:
        target = None if self.target is None else os.fsdecode(self.target)
        attributes = [(name, value.hex()) for name, value in self.attributes]
        rest = [self.sha256, self.mtime_ns, self.owner, attributes, self.stamp]
        return [self.kind, self.mode, target, _place(self.content), *rest]

    @classmethod
    def from_json(cls, facts: list[Any], store: ByteStore) -> HostVersion:
        kind, mode, target, place, sha256, mtime_ns, owner, attributes, stamp = facts
        content = None if place is None else store.content(*place)
        owner = None if owner is None else (owner[0], owner[1])
        attributes = tuple((name, bytes.fromhex(value)) for name, value in attributes)
        target = None if target is None else os.fsencode(target)
        stamp = None if stamp is None else Stamp(*stamp)
        return cls(kind, mode, target, content, sha256, mtime_ns, owner, attributes, stamp)


@dataclass(frozen=True, slots=True)
class Step:
    """One host path and what it is to become; None stands for nothing there."""

    mount: int
    host_path: bytes
    path: bytes
    """The same place in the workspace, for messages."""
    old: HostVersion | None
    new: HostVersion | None

    def to_json(self) -> dict[str, Any]:
        paths = {"host_path": os.fsdecode(self.host_path), "path": os.fsdecode(self.path)}
        versions = {"old": self.old and self.old.to_json(), "new": self.new and self.new.to_json()}
        return {"mount": self.mount, **paths, **versions}

    @classmethod
    def from_json(cls, facts: dict[str, Any], store: ByteStore) -> Step:
        old, new = (facts[one] and HostVersion.from_json(facts[one], store) for one in ("old", "new"))
        return cls(facts["mount"], os.fsencode(facts["host_path"]), os.fsencode(facts["path"]), old, new)


@dataclass(frozen=True, slots=True)
class Update:
    """What the record is to say of a path once all steps are made."""

    path: bytes
    row: Row | None
    """None forgets the path. `host` is the stamp of a host file that has the workspace's bytes already, and
    `host_is_base` says whether it will have them: not if it was merged."""
    content: Content | None = None
    """Bytes of the workspace's version to keep."""

    def to_json(self) -> dict[str, Any]:
        facts = {"path": os.fsdecode(self.path), "content": _place(self.content), "row": None}
        if self.row is None:
            return facts
        _, host_path, target, *numbers = self.row
        return facts | {"row": [os.fsdecode(host_path), None if target is None else os.fsdecode(target), *numbers]}

    @classmethod
    def from_json(cls, facts: dict[str, Any], store: ByteStore) -> Update:
        path, content = os.fsencode(facts["path"]), facts["content"] and store.content(*facts["content"])
        if facts["row"] is None:
            return cls(path, None, content)
        host_path, target, kind, mount, mode, copy, host, *rest = facts["row"]
        target = None if target is None else os.fsencode(target)
        row = Row(path, os.fsencode(host_path), target, kind, mount, mode, Stamp(*copy), Stamp(*host), *rest)
        return cls(path, row, content)


def _place(source: Source | None) -> tuple[int, int] | None:
    """Where bytes lie in the journal's store."""
    return (source.offset, source.size) if isinstance(source, Content) else None
