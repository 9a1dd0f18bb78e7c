"""Tell which new paths the project's own ignore rules name: builds, installed packages; and the caches of usual tools.

The rules are the host's, as they stand there now. What an agent writes into a
`.gitignore` file of the copy hides nothing. Caches such as `__pycache__` count without a rule, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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
        folder = path.rpartition(b"/")[0]
        if folder and self._folder_is_ignored(mount, folder):
            return True
        name = path.rpartition(b"/")[2]
        if name == b".git":
            return False
        if is_folder and name in _CACHES:
            return True
        scope = self._scope(mount, folder)
        return scope is not None and scope.excluded_by(path, is_folder) is not None

    def _folder_is_ignored(self, mount: int, folder: bytes) -> bool:
        if (mount, folder) not in self._known:
            self._known[mount, folder] = self._is_ignored(mount, folder, True)
        return self._known[mount, folder]

    def _scope(self, mount: int, folder: bytes) -> Scope | None:
        """The rules in force in a folder; one that only the copy has adds none of its own."""
        if not self._hosts.has_folder(mount):
            return None
        key = (mount, folder)
        if key not in self._scopes:
            if folder:
                outer = self._scope(mount, folder.rpartition(b"/")[0])
            else:
                outer = _scope_of(rules_in(self._hosts.folder(mount), _EXCLUDE), b"", None)
            own = rules_in(self._hosts.folder(mount), folder + b"/.gitignore" if folder else b".gitignore")
            self._scopes[key] = _scope_of(own, folder, outer)
        return self._scopes[key]


def ignored_folders(workspace: Workspace, paths: Iterable[str]) -> set[str]:
    """Those of these folders that the rules name; the host has none of them, and they are relative to the workspace."""
    with Hosts(workspace.record, workspace.store) as hosts:
        rules = IgnoreRules(hosts)
        return {path for path in paths if rules.names(os.fsencode(path), is_folder=True)}


def _scope_of(patterns: Sequence[GitPattern], base: bytes, outer: Scope | None) -> Scope | None:
    return Scope(RuleList(patterns), base, outer) if patterns else outer
