"""A private git folder over the objects of a repository: all that is made lies in it until the very end.

It is written anew. Of the repository's settings it has those that say how files look to
git (line ends, executable bits), and its refs, so that commits can be named. New objects
go into a store of its own. A kill leaves this folder behind and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from toolkit._base.files import write_all
from toolkit._base.handles import CREATE_FILE, make_folders, remove_folder
from toolkit.errors import WorkspaceError
from toolkit_workspace.git import Repository, write_refs
from toolkit_workspace.git.folder import GitFolder
from toolkit_workspace.git.refs import head_of, read_refs
from toolkit_workspace.git.settings import ignored_everywhere
from toolkit_workspace.quarantine.plumbing import Git, GitFailed
from toolkit_workspace.record.content import Node, pieces_of

_PREFIX = "delivering-"
_KEPT = ("core.autocrlf", "core.eol", "core.filemode")
_LARGEST = 1 << 22
_AT_ONCE = 200


class Entry(NamedTuple):
    """What a tree has at a path."""

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        return self.mode.startswith("100")


Tree = dict[str, Entry]
"""Everything below a tree by path, folders left out."""


@dataclass(slots=True)
class Quarantine:
    """The private git folder of one delivery."""

    folder: Path
    repository: Repository
    git: Git
    named: dict[str, str]
    """The refs of the repository."""
    symbolic: dict[str, str]
    _count: int = 0

    @property
    def host(self) -> Git:
        """Git for the host's repository itself; as root, in the name of whom it belongs to."""
        st = self.repository.common_dir.stat()
        user = (st.st_uid, st.st_gid) if os.geteuid() == 0 and st.st_uid != 0 else None
        return Git(self.repository.git_dir, Path("/"), user)

    def resolve(self, name: str) -> str:
        """The commit that a name stands for.

        Raises:
            WorkspaceError: none does.
        """
        try:
            return self.git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except GitFailed:
            raise WorkspaceError(
                f"the repository has no commit {name!r}",
                where=[str(self.repository.top)],
                fix="Name a commit, a branch or a tag that is there.",
            ).as_mistyped() from None

    def tree(self, commit: str | None) -> Tree:
        """What a commit has; nothing where there is none."""
        if commit is None:
            return {}
        return dict(_entries(self.git("ls-tree", "-r", "-z", "--full-tree", commit)))

    def differing(self, one: str | None, other: str) -> dict[str, Entry | None]:
        """What `other` has where it differs from `one`: None for what it has not."""
        if one is None:
            return dict(self.tree(other))
        fields = os.fsdecode(self.git("diff-tree", "-r", "-z", "--no-renames", one, other)).split("\0")[:-1]
        found: dict[str, Entry | None] = {}
        for about, path in zip(fields[::2], fields[1::2], strict=True):
            _, mode, _, oid, kind = about.split(" ")
            found[path] = None if kind == "D" else Entry(mode, oid)
        return found

    def read(self, oid: str) -> bytes:
        """The bytes of a blob."""
        return self.git("cat-file", "blob", oid)

    def read_all(self, oids: Iterable[str], largest: int) -> dict[str, bytes]:
        """The bytes of many blobs, those that are not larger."""
        wanted = list(dict.fromkeys(oids))
        sizes = self.git("cat-file", "--batch-check=%(objecttype) %(objectsize)", given=_lines(wanted)).split(b"\n")
        rows = [(oid, row.split(b" ")) for oid, row in zip(wanted, sizes, strict=False)]
        small = [oid for oid, row in rows if row[0] == b"blob" and int(row[1]) <= largest]
        found: dict[str, bytes] = {}
        for start in range(0, len(small), _AT_ONCE):
            part = small[start : start + _AT_ONCE]
            given, at = self.git("cat-file", "--batch=%(objectsize)", given=_lines(part)), 0
            for oid in part:
                end = given.index(b"\n", at)
                size = int(given[at:end])
                found[oid] = given[end + 1 : end + 1 + size]
                at = end + size + 2
        return found

    def write(self, data: bytes) -> str:
        """Keep bytes as a blob."""
        return self.git.line("hash-object", "-w", "--no-filters", "--stdin", given=data)

    def index_of(self, commit: str | None) -> Git:
        """Git with a fresh index that has the tree of a commit."""
        self._count += 1
        git = self.git.at(GIT_INDEX_FILE=str(self.folder / f"index-{self._count}"))
        git("read-tree", *(["--empty"] if commit is None else [commit]))
        return git

    def added(self, commit: str | None, files: Iterable[tuple[str, Node]]) -> Tree:
        """These versions of files and links as `git add` would keep them: line ends as attributes and settings say.

        Attributes are those among the files, then those of the commit. No filter program is known here.
        """
        git, top = self.index_of(commit), self.folder / f"files-{self._count}"
        top.mkdir(mode=0o700)
        names = []
        for path, node in files:
            _materialise(top, path, node)
            names.append(path)
        if not names:
            return {}
        place = git.at(GIT_WORK_TREE=str(top))
        given = os.fsencode("\0".join(names) + "\0")
        place("update-index", "--add", "--replace", "-z", "--stdin", given=given)
        wanted = set(names)
        listed = _entries(place("ls-files", "-s", "-z"))
        remove_folder(top)
        return {path: entry for path, entry in listed if path in wanted}

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Those that the host's own rules ignore, as they stand there now."""
        names = list(paths)
        try:
            return self._ignored(names)
        except GitFailed as error:
            if "symbolic link" not in error.said:
                raise
            if len(names) == 1:  # behind a link of the host, where no rule is
                return set()
        half = len(names) // 2
        return self.ignored(names[:half]) | self.ignored(names[half:])

    def _ignored(self, names: list[str]) -> set[str]:
        if not names:
            return set()
        git = self.git.at(
            GIT_WORK_TREE=str(self.repository.top),
            GIT_INDEX_FILE=str(self.folder / "no-index"),
            GIT_LITERAL_PATHSPECS="0",  # which it does not take; with ./ in front no name is anything but a name
        )
        given = os.fsencode("".join(f"./{name}\0" for name in names))
        try:
            found = git("check-ignore", "--no-index", "-z", "--stdin", given=given)
        except GitFailed as error:
            if error.said.strip():
                raise
            return set()  # it says by its exit code that there are none
        return {name.removeprefix("./") for name in os.fsdecode(found).split("\0") if name}

    def filtered(
        self, commit: str | None, paths: Iterable[str], *, attributes: Mapping[str, Entry] | None = None
    ) -> dict[str, str]:
        """The paths that a filter program belongs to, with its name; `attributes` count over those of the commit."""
        names = list(paths)
        if not names:
            return {}
        git = self.index_of(commit)
        if attributes:
            rows = "".join(f"{entry.mode} {entry.oid}\t{path}\0" for path, entry in attributes.items())
            git("update-index", "-z", "--index-info", given=os.fsencode(rows))
        given = os.fsencode("\0".join(names) + "\0")
        fields = os.fsdecode(git("check-attr", "--cached", "-z", "--stdin", "filter", given=given)).split("\0")[:-1]
        pairs = zip(fields[::3], fields[2::3], strict=True)
        return {path: name for path, name in pairs if name not in ("unspecified", "unset", "set", "")}


@contextlib.contextmanager
def quarantined(repository: Repository, parent: Path) -> Iterator[Quarantine]:
    """A private git folder below `parent`, gone afterwards.

    Raises:
        WorkspaceError: the repository cannot be read, or the folder not be made.
    """
    folder = parent / f"{_PREFIX}{secrets.token_hex(6)}"
    folder.mkdir(mode=0o700)
    try:
        yield _made(repository, folder)
    finally:
        remove_folder(folder)


def sweep(parent: Path) -> None:
    """Remove what a killed delivery left behind. Only for whoever holds the workspace."""
    for left in parent.glob(f"{_PREFIX}*"):
        remove_folder(left)


def refs_of(repository: Repository) -> tuple[dict[str, str], dict[str, str]]:
    """The refs of a repository, and those that stand for others."""
    with GitFolder(repository.git_dir) as own, GitFolder(repository.common_dir) as common:
        return read_refs(own, common, 64 if repository.object_format == "sha256" else 40)


def _made(repository: Repository, folder: Path) -> Quarantine:
    place = folder / "git"
    home = folder / "home"
    home.mkdir(mode=0o700)
    git = Git(place, home)
    git("init", "-q", "--bare", "--template=", f"--object-format={repository.object_format}", str(place))
    with GitFolder(repository.git_dir) as own, GitFolder(repository.common_dir) as common:
        named, symbolic = refs = read_refs(own, common, 64 if repository.object_format == "sha256" else 40)
        commit = head_of(own, refs)[1]
        shallow = common.read("shallow", _LARGEST)
        attributes = None if common.is_special("info/attributes") else common.read("info/attributes", _LARGEST)
    write_refs(named, symbolic, place)
    (place / "HEAD").write_text(f"{commit}\n" if commit else "ref: refs/heads/none\n", encoding="utf-8")
    for name, data in (("shallow", shallow), ("info/attributes", attributes)):
        if data is not None:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(data)
    (place / "info").mkdir(exist_ok=True)
    (place / "info/exclude").write_bytes(ignored_everywhere(repository))
    (place / "objects/info").mkdir(exist_ok=True)
    stores = b"".join(os.fsencode(store) + b"\n" for store in repository.objects)
    (place / "objects/info/alternates").write_bytes(stores)
    (place / "config").write_text(_settings(repository), encoding="utf-8")
    return Quarantine(folder, repository, git, named, symbolic)


def _settings(repository: Repository) -> str:
    rows = ["[core]\n\tbare = false\n\tsafecrlf = false\n\tlogAllRefUpdates = false\n"]
    is_sha256 = repository.object_format == "sha256"
    rows.append(f"\trepositoryformatversion = {1 if is_sha256 else 0}\n")
    for name in _KEPT:
        value = repository.setting(name)
        if value is not None and value.isalnum():
            rows.append(f"\t{name.partition('.')[2]} = {value}\n")
    return "".join([*rows, "[extensions]\n\tobjectFormat = sha256\n" if is_sha256 else ""])


def _lines(oids: Iterable[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode()


def _entries(listed: bytes) -> Iterator[tuple[str, Entry]]:
    """Lines of `ls-tree` and `ls-files -s`, whose first word is the mode, and the name of the object follows."""
    for line in os.fsdecode(listed).split("\0"):
        if line:
            about, _, path = line.partition("\t")
            words = about.split(" ")
            yield path, Entry(words[0], words[2] if len(words[1]) < 20 else words[1])


def _materialise(top: Path, path: str, node: Node) -> None:
    """Write a version of a file or link below a private folder."""
    folder, _, name = os.fsencode(path).rpartition(b"/")
    root = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parent = make_folders(root, folder) if folder else os.dup(root)
    finally:
        os.close(root)
    try:
        if node.kind == "l":
            os.symlink(node.target or b"", name, dir_fd=parent)
            return
        mode = 0o755 if node.mode & stat.S_IXUSR else 0o644
        handle = os.open(name, CREATE_FILE, mode, dir_fd=parent)
        try:
            write_all(handle, pieces_of(node.content))
            os.fchmod(handle, mode)
        finally:
            os.close(handle)
    finally:
        os.close(parent)
