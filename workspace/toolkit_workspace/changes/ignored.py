"""Tell which new paths the project's own ignore rules name: builds, installed packages; and the caches of usual tools.

The rules are the host's, as they stand there now. What an agent writes into a
`.gitignore` file of the copy hides nothing. Caches such as `__pycache__` count without a rule, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolkit._base.files import CACHES
from toolkit_workspace.changes.scan import Pair
from toolkit_workspace.record.content import Hosts
from toolkit_workspace.record.record import MountRecord
from toolkit_workspace.selecting.rules import RuleList, Scope, rules_in
from toolkit_workspace.workspace import Workspace

if TYPE_CHECKING:
    from toolkit_workspace.selecting import GitPattern

_EXCLUDE = b".git/info/exclude"
_CACHES = frozenset(os.fsencode(name) for name in CACHES)


class IgnoreRules:
    """The ignore rules of the mounts, read where a new path asks for them."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._scopes: dict[tuple[int, bytes], Scope | None] = {}
        self._known: dict[tuple[int, bytes], bool] = {}
        """Whether the rules name a folder."""

    def name(self, pair: Pair, mount: MountRecord | None) -> bool:
        """Whether the rules name a path that the host does not have."""
        if pair.old is not None or pair.new is None or mount is None or mount.name is not None:
            return False
        number = self._hosts.mounts.index(mount)
        path = pair.path[len(mount.at) :].lstrip(b"/")
        return bool(path) and self._is_ignored(number, path, pair.new.kind == "d")

    def names(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether the rules name a path of the workspace, going by its name."""
        for number, mount in enumerate(self._hosts.mounts):
            below = mount.usual_host_path(path)
            if mount.name is None and below and (not mount.at or path.startswith(mount.at + b"/")):
                return self._is_ignored(number, below, is_folder)
        return False

    def _is_ignored(self, mount: int, path: bytes, is_folder: bool) -> bool:
        for folder in _unknown(self._known, mount, path.rpartition(b"/")[0]):
            self._known[mount, folder] = bool(folder) and self._is_named(mount, folder, True)
        return self._is_named(mount, path, is_folder)

    def _is_named(self, mount: int, path: bytes, is_folder: bool) -> bool:
        """Whether the rules name a path, or the folder it is in, of which that is known."""
        folder, _, name = path.rpartition(b"/")
        if self._known[mount, folder]:
            return True
        if name == b".git":
            return False
        if is_folder and name in _CACHES:
            return True
        scope = self._scope(mount, folder)
        return scope is not None and scope.excluded_by(path, is_folder) is not None

    def _scope(self, mount: int, folder: bytes) -> Scope | None:
        """The rules in force in a folder; one that only the copy has adds none of its own."""
        if not self._hosts.has_folder(mount):
            return None
        for one in _unknown(self._scopes, mount, folder):
            self._scopes[mount, one] = self._read(mount, one)
        return self._scopes[mount, folder]

    def _read(self, mount: int, folder: bytes) -> Scope | None:
        """The rules in force in a folder, of which the one above is known."""
        host = self._hosts.folder(mount)
        if not folder:
            return _scope_of(rules_in(host, b".gitignore"), b"", _scope_of(rules_in(host, _EXCLUDE), b"", None))
        outer = self._scopes[mount, folder.rpartition(b"/")[0]]
        return _scope_of(rules_in(host, folder + b"/.gitignore"), folder, outer)


def ignored_folders(workspace: Workspace, paths: Iterable[str]) -> set[str]:
    """Those of these folders that the rules name; the host has none of them, and they are relative to the workspace."""
    with Hosts(workspace.record, workspace.store) as hosts:
        rules = IgnoreRules(hosts)
        return {path for path in paths if rules.names(os.fsencode(path), is_folder=True)}


def _scope_of(patterns: Sequence[GitPattern], base: bytes, outer: Scope | None) -> Scope | None:
    return Scope(RuleList(patterns), base, outer) if patterns else outer


def _unknown(known: Mapping[tuple[int, bytes], object], mount: int, folder: bytes) -> list[bytes]:
    """A folder and those above it, as far as they are unknown, the uppermost first: there may be thousands."""
    unknown: list[bytes] = []
    while (mount, folder) not in known:
        unknown.append(folder)
        if not folder:
            break
        folder = folder.rpartition(b"/")[0]
    unknown.reverse()
    return unknown
