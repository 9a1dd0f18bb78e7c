"""Walk the selected part of a mount, folder by folder, through open handles.

Each folder is yielded while its handle is open: what is in it, sorted, with rules
applied and links judged. Excluded folders are never opened, special files are named
and left alone, and a tree deeper than any path length needs no more descriptors.

A link is judged by where the copy of it would lead, never by what a string looks
like: `..` after a name can climb through another link, so such targets are resolved
by the kernel beneath the mount. One that leads out of the mount is left behind, or
followed where an allowed root holds what it leads to.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from toolkit._base.handles import PATH_HANDLE, READ_DIR, DirStack, open_beneath, open_folder
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.selecting.rules import Rules, rules_at
from toolkit_workspace.selecting.secrets import looks_secret
from toolkit_workspace.selecting.sources import AllowedRoots, Source
from toolkit_workspace.selecting.tally import LeftBehind

_MOST_NESTED_FOLLOWS = 16
_KINDS = {
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


_SAYS_NO = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
"""What an open says of a link's target that is not there, out of bounds or not for us; all else says nothing of it."""


@dataclass(slots=True)
class Folder:
    """One folder of the walk; `handle` is good until the next one is asked for."""

    handle: int
    path: bytes
    """Relative to the mount; empty for the mount itself."""
    depth: int
    stat: os.stat_result
    is_wanted: bool
    """Whether the folder comes along even if nothing in it does."""
    files: list[str] = field(default_factory=list)
    links: list[tuple[str, bytes]] = field(default_factory=list)
    """Links that stay in the mount: name, and the target as the copy has to say it."""
    subfolders: tuple[str, ...] = ()
    """The folders in it that the rules let through, followed links to folders among them."""
    followed: list[tuple[str, bytes]] = field(default_factory=list)
    """Links out of the mount whose target is a file in an allowed root: name, and its host path."""


@dataclass(slots=True)
class _Level:
    path: bytes
    rules: Rules
    pending: list[str] = field(default_factory=list)
    """Names of folders still to visit, last first."""
    jumps: list[tuple[str, bytes]] = field(default_factory=list)
    """Links to folders still to follow: name and host path."""


@dataclass(slots=True)
class _Base:
    """The folder a walk started from: the mount, or a folder that a link led to."""

    handle: int
    path: bytes
    real_paths: tuple[bytes, ...]
    known: frozenset[tuple[int, int]]
    """The folders above it, those before each jump included: going there again would be a loop."""
    nested: int


class Walk:
    """A walk over one mount folder."""

    def __init__(
        self,
        handle: int,
        real_paths: tuple[bytes, ...],
        rules: Rules,
        left: LeftBehind,
        *,
        follow: AllowedRoots | None = None,
        strict: bool = False,
        never: frozenset[tuple[int, int]] = frozenset(),
        descend: Callable[[bytes], bool] | None = None,
        lent: frozenset[bytes] = frozenset(),
        takes_git: bool = True,
        leaves_secrets: bool = False,
    ) -> None:
        self._handle, self._real_paths = handle, real_paths
        self._rules = rules
        self._left = left
        self.follow = follow
        """Where links that lead out may be followed; None for nowhere."""
        self._strict = strict
        self._never = never
        """Folders that are not entered: the workspace being filled, which a mount may contain."""
        self._descend = descend
        """Whether a folder is to be entered, asked after all rules; each one if not given."""
        self._lent = lent
        """What is shown from the host instead of being copied."""
        self._above_lent = {path.rpartition(b"/")[0] for path in lent}
        self._takes_git = takes_git
        """Whether `.git` is copied like anything else."""
        self._leaves_secrets = leaves_secrets
        self.secrets: list[tuple[bytes, str, str]] = []
        """Files that come along and usually hold credentials: path, what, and a pattern that leaves it out."""
        self.repositories: list[bytes] = []
        """Folders whose `.git` was not copied, as far as the walk has come."""
        self._followed: set[tuple[int, int]] = set()

    @classmethod
    def of(
        cls,
        source: Source,
        roots: AllowedRoots,
        left: LeftBehind,
        *,
        strict: bool,
        never: frozenset[tuple[int, int]] = frozenset(),
        descend: Callable[[bytes], bool] | None = None,
    ) -> Walk:
        """A walk over an open mount by its own patterns."""
        mount = source.mount
        is_folder = source.record.name is None
        rules = rules_at(source.handle, mount.include_glob, mount.exclude_glob, gitignore=mount.gitignore and is_folder)
        follow = roots if mount.follow_symlinks else None
        return cls(
            source.handle,
            source.real_paths,
            rules,
            left,
            follow=follow,
            strict=strict,
            never=never,
            descend=descend,
            lent=frozenset(map(os.fsencode, mount.lend)),
            takes_git=mount.git == "copy",
            leaves_secrets=mount.leave_out_secrets,
        )

    def takes(self, name: bytes) -> bool:
        """Whether the patterns take a mount along that is a single file."""
        return bool(self._rules.choose(b"", [os.fsdecode(name)], self._left))

    def folders(self) -> Iterator[Folder]:
        """Every selected folder, from the mount itself on."""
        handle = os.open(b".", READ_DIR, dir_fd=self._handle)
        return self._walk(_Base(handle, b"", self._real_paths, frozenset(), 0), 0, self._rules)

    def _walk(self, base: _Base, depth: int, rules: Rules) -> Iterator[Folder]:
        """What lies below a base folder, which is closed in the end."""
        stack = DirStack(base.handle)
        try:
            levels = [_Level(base.path, rules)]
            yield self._read(base, base.handle, os.fstat(base.handle), levels[-1], depth)
            while levels:
                level = levels[-1]
                if level.jumps:
                    yield from self._jump(base, stack, level, *level.jumps.pop(), depth + len(levels))
                elif level.pending:
                    name = level.pending.pop()
                    path = _join(level.path, name)
                    if self._descend is not None and not self._descend(path):
                        continue
                    try:
                        inner = open_folder(stack.top, name)
                    except OSError as error:
                        self.failed(path + b"/", error)
                        continue
                    st = os.fstat(inner)
                    if (st.st_dev, st.st_ino) in self._never:
                        self._left.add(path + b"/", "the workspace itself")
                        os.close(inner)
                        continue
                    stack.push(inner, (st.st_dev, st.st_ino))
                    levels.append(_Level(path, level.rules.inside(path)))
                    yield self._read(base, inner, st, levels[-1], depth + len(levels) - 1)
                else:
                    levels.pop()
                    if levels:
                        stack.pop()
        finally:
            stack.close()

    def failed(self, path: bytes, error: OSError) -> None:
        """Note a source that is gone, or that we may not read, which is an error with strict.

        Raises:
            WorkspaceError: it could not be read for any other reason: what it holds is unknown.
        """
        if error.errno in (errno.ENOENT, errno.ESTALE):
            self._left.add(path, "vanished")
        elif error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EINVAL, errno.EISDIR):
            self._left.add(path, "vanished", detail="became something else meanwhile")
        elif self._strict or error.errno not in (errno.EACCES, errno.EPERM):
            raise WorkspaceError(
                f"{safe_name(path)} cannot be read: {error.strerror}",
                fix="Make it readable, or leave it out by a pattern.",
            ) from error
        else:
            self._left.add(path, "unreadable", detail=error.strerror or "")

    def _read(self, base: _Base, handle: int, st: os.stat_result, level: _Level, depth: int) -> Folder:
        """List one folder, apply the rules, judge its links, and note its subfolders in the level."""
        path = level.path
        files, folders, links, others = _listed(handle)
        self._set_aside(level, files, folders, links)
        if level.rules.reads_files and ".gitignore" in files:
            try:
                level.rules = level.rules.with_file(handle, path)
            except OSError as error:
                self.failed(_join(path, ".gitignore"), error)
        rules = level.rules
        if rules.decide:
            files = rules.choose(path, files, self._left)
            links = rules.choose(path, links, self._left)
            others = rules.choose(path, others, self._left)
            folders = rules.choose(path, folders, self._left, are_folders=True)
        files = self._without_secrets(handle, path, files)
        for name in others:
            self._note_special(handle, path, name)
        folders.reverse()
        level.pending = folders
        folder = Folder(handle, path, depth, st, rules.is_wanted, files)
        for name in links:
            self._judge_link(base, folder, level, name)
        folder.subfolders = (*folders, *(name for name, _ in level.jumps))
        return folder

    def _set_aside(self, level: _Level, *listed: list[str]) -> None:
        """Take out of the names what is not copied like anything else: git folders, and what is lent."""
        for names in listed:
            if not self._takes_git and ".git" in names:
                names.remove(".git")
                if not level.rules.leaves_out(_join(level.path, ".git"), True, self._left):
                    self.repositories.append(level.path)
            for name in [one for one in names if level.path in self._above_lent]:
                path = _join(level.path, name)
                if path in self._lent:
                    names.remove(name)
                    self._left.add(path, "lent")

    def _without_secrets(self, handle: int, path: bytes, files: list[str]) -> list[str]:
        """Note the files that usually hold credentials; leave them out where that is wanted."""
        secret = {name: found for name in files if (found := looks_secret(handle, name, path)) is not None}
        for name, (what, pattern) in secret.items():
            if self._leaves_secrets:
                self._left.add(_join(path, name), "holds credentials", detail=what)
            else:
                self.secrets.append((_join(path, name), what, pattern))
        return [name for name in files if name not in secret] if secret and self._leaves_secrets else files

    def _note_special(self, handle: int, path: bytes, name: str) -> None:
        try:
            mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
        except OSError as error:
            self.failed(_join(path, name), error)
            return
        self._left.add(_join(path, name), "special file", _KINDS.get(stat.S_IFMT(mode), "became something else"))

    def _judge_link(self, base: _Base, folder: Folder, level: _Level, name: str) -> None:
        path = _join(folder.path, name)
        try:
            target = os.fsencode(os.readlink(name, dir_fd=folder.handle))
        except OSError as error:
            self.failed(path, error)
            return
        below = folder.path[len(base.path) :].lstrip(b"/")
        placed = _placed_target(target, below, base.handle, base.real_paths)
        if placed is not None:
            folder.links.append((name, placed))
            return
        if self.follow is None:
            self._left.add(path, "link leads out", detail=f"-> {safe_name(target)}")
            return
        host = (
            target if target.startswith(b"/") else b"/".join([base.real_paths[0], *([below] if below else []), target])
        )
        kind = self._kind_behind(path, host, target)
        if kind == stat.S_IFREG:
            folder.followed.append((name, host))
        elif kind == stat.S_IFDIR and not level.rules.leaves_out(path, True, self._left):
            level.jumps.append((name, host))  # asked again: rules that end with a slash speak about it now

    def _kind_behind(self, path: bytes, host: bytes, target: bytes) -> int:
        """The kind of file a link out of the mount leads to, 0 if it may not be followed."""
        assert self.follow is not None
        try:
            handle = self.follow.open(host)
        except WorkspaceSecurityError:
            self._left.add(path, "link leads out", detail=f"-> {safe_name(target)}, in no allowed root")
            return 0
        except OSError as error:
            if error.errno == errno.ELOOP:
                self._left.add(path, "link loop", detail=f"-> {safe_name(target)}")
            elif error.errno in _SAYS_NO:
                self._left.add(path, "link leads out", detail=f"-> {safe_name(target)}: {error.strerror}")
            else:
                self.failed(path, error)
            return 0
        kind = stat.S_IFMT(os.fstat(handle).st_mode)
        os.close(handle)
        if kind not in (stat.S_IFREG, stat.S_IFDIR):
            self._left.add(path, "special file", _KINDS.get(kind, "unknown"))
        return kind

    def _jump(
        self, base: _Base, stack: DirStack, level: _Level, name: str, host: bytes, depth: int
    ) -> Iterator[Folder]:
        """Walk the folder a link leads to, unless that would go round in circles."""
        assert self.follow is not None
        path = _join(level.path, name)
        try:
            handle = self.follow.open(host, READ_DIR & ~os.O_NOFOLLOW)
        except (OSError, WorkspaceSecurityError) as error:
            if isinstance(error, OSError) and error.errno not in _SAYS_NO:
                self.failed(path, error)
                return
            self._left.add(path, "link leads out", detail=f"-> {safe_name(host)}: {error}".splitlines()[0])
            return
        st = os.fstat(handle)
        identity = (st.st_dev, st.st_ino)
        if not base.nested:
            self._followed.clear()
        known = base.known | stack.identities()
        if (
            identity in self._never
            or identity in known
            or identity in self._followed
            or base.nested >= _MOST_NESTED_FOLLOWS
        ):
            os.close(handle)
            self._left.add(path, "link loop", detail=f"-> {safe_name(host)}")
            return
        self._followed.add(identity)
        real = os.fsencode(Path(f"/proc/self/fd/{handle}").readlink())
        inner = _Base(handle, path, (real,), known, base.nested + 1)
        yield from self._walk(inner, depth, level.rules.inside(path))


def _placed_target(target: bytes, folder: bytes, root: int, real_paths: tuple[bytes, ...]) -> bytes | None:
    """What a link in `folder` (relative to the mount) has to say in the copy; None if it leads out.

    `root` is the mount's open folder and `real_paths` the absolute paths it is known by.
    """
    if target.startswith(b"/"):
        return _relative_to_mount(target, folder, real_paths)
    depth = folder.count(b"/") + 1 if folder else 0
    climbs = named = 0
    for part in target.split(b"/"):
        if part in (b"", b"."):
            continue
        if part != b"..":
            named += 1
        elif named:
            return target if _resolves_beneath(root, folder, target) else None
        else:
            climbs += 1
            if climbs > depth:
                return None
    return target


def _relative_to_mount(target: bytes, folder: bytes, real_paths: tuple[bytes, ...]) -> bytes | None:
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        return None
    for real in real_paths:
        above = [part for part in real.split(b"/") if part]
        if parts[: len(above)] == above:
            climb = [b".."] * (folder.count(b"/") + 1 if folder else 0)
            return b"/".join([*climb, *parts[len(above) :]]) or b"."
    return None


def _resolves_beneath(root: int, folder: bytes, target: bytes) -> bool:
    try:
        handle = open_beneath(root, folder + b"/" + target if folder else target, PATH_HANDLE, follow_links=True)
    except OSError as error:
        if error.errno not in _SAYS_NO:
            raise
        return False
    os.close(handle)
    return True


def _listed(handle: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """The names in a folder, sorted: files, folders, links, and all else."""
    files: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    others: list[str] = []
    with os.scandir(handle) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_symlink():
                links.append(entry.name)
            else:
                others.append(entry.name)
    files.sort()
    folders.sort()
    links.sort()
    return files, folders, links, others


def _join(folder: bytes, name: str) -> bytes:
    return folder + b"/" + os.fsencode(name) if folder else os.fsencode(name)
