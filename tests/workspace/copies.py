"""Small trees, edits as an agent makes them, and trees as values to compare."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hypothesis import strategies as st

from toolkit.workspace import HostMount, WorkspaceSection

_OLD_ENOUGH_NS = 50_000_000  # files younger than 20 ms are kept whatever was asked for

Tree = dict[bytes, tuple[str, bytes]]
"""Path → what it is ('-', 'x' for an executable, 'l', 'd') and its bytes or target."""


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder where syncing costs nothing, if the machine has one: for tests with thousands of syncs."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def make_tree(root: Path, files: Mapping[str | bytes, bytes | str]) -> Path:
    """Write files below `root`; a str value is a link's target, a path ending in / a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        place = root / os.fsdecode(path)
        if os.fsdecode(path).endswith("/"):
            place.mkdir(parents=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, str):
            place.symlink_to(data)
        else:
            place.write_bytes(data)
    return root


def tree_of(root: Path, *, folders: bool = True) -> Tree:
    """Everything below `root`, links not followed."""
    tree: Tree = {}
    top = os.fsencode(root)
    for where, inner, names in os.walk(top):
        for name in [*inner, *names]:
            whole = where + b"/" + name
            path, mode = whole[len(top) + 1 :], os.lstat(whole).st_mode
            if stat.S_ISLNK(mode):
                tree[path] = ("l", os.fsencode(Path(os.fsdecode(whole)).readlink()))
            elif stat.S_ISDIR(mode):
                if folders:
                    tree[path] = ("d", b"")
            elif stat.S_ISREG(mode):
                tree[path] = ("x" if mode & 0o100 else "-", Path(os.fsdecode(whole)).read_bytes())
    return tree


def prepare(host: Path, *, at: str = "src", keep: bool = True) -> WorkspaceSection:
    """A workspace with one host folder in it, beside the host folder, released for any process to open.

    Without `keep` no bytes are kept: the host's files are old enough to show any later change by their stamps.
    """
    if not keep:
        newest = max(path.lstat().st_ctime_ns for path in host.rglob("*"))
        while time.time_ns() < newest + _OLD_ENOUGH_NS:
            time.sleep(0.005)
    section = WorkspaceSection([HostMount(host, at)], [host.parent], parent=host.parent, keep_bases=keep).prepare()
    section.release()
    return section


def git(folder: Path, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git as the judge, on a copy nobody else uses and without anybody's settings."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    return subprocess.run(
        ["git", *arguments], cwd=folder, input=data, capture_output=True, timeout=60, env=environment, check=False
    )


NAMES = [b"a", b"b c", b"d", b"\xff\xfe", b'q"uo\\te', b"new\nline", "é".encode(), b"tab\t", b"e.txt"]
TEXTS = [
    b"",
    b"one\n",
    b"one",
    b"one\ntwo\nthree\n",
    b"\n".join(b"line %d" % n for n in range(40)) + b"\n",
    b"\n".join(b"line %d" % n for n in range(40) if n not in (3, 20, 39)),
    b"crlf\r\nlines\r\n",
    b"bin\0ary" * 30,
    bytes(range(256)) * 3,
    b"latin \xe9\n",
]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(b"/".join)
trees = st.dictionaries(
    paths, st.one_of(st.tuples(st.sampled_from("-x"), st.sampled_from(TEXTS)), st.tuples(st.just("l"), st.just(b"a"))),
    max_size=8,
)  # fmt: skip
edits = st.lists(
    st.tuples(st.sampled_from(["write", "append", "delete", "move", "chmod", "link", "folder", "touch"]), paths, paths,
              st.sampled_from(TEXTS)),
    max_size=8,
)  # fmt: skip
Edit = tuple[str, bytes, bytes, bytes]


def build(root: Path, tree: Mapping[bytes, tuple[str, bytes]]) -> None:
    """Make a generated tree, leaving out what does not fit with what is already there."""
    root.mkdir(parents=True, exist_ok=True)
    for path, (kind, data) in tree.items():
        edit(root, ("link" if kind == "l" else "write", path, path, data))
        if kind == "x":
            edit(root, ("chmod", path, path, b""))


def edit(root: Path, step: Edit) -> None:
    """Do one thing an agent may do; what is impossible just then is left undone."""
    try:
        _EDITS[step[0]](root / os.fsdecode(step[1]), root / os.fsdecode(step[2]), step[3])
    except OSError:
        return


def _write(path: Path, _: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    path.write_bytes(data)


def _append(path: Path, _: Path, data: bytes) -> None:
    if path.is_file() and not path.is_symlink():
        path.write_bytes(path.read_bytes() + data)


def _delete(path: Path, _: Path, data: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _move(path: Path, to: Path, data: bytes) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    path.rename(to)


def _chmod(path: Path, _: Path, data: bytes) -> None:
    if path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode ^ 0o111)


def _link(path: Path, _: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("b c")


def _folder(path: Path, _: Path, data: bytes) -> None:
    path.mkdir(parents=True)


def _touch(path: Path, _: Path, data: bytes) -> None:
    os.utime(path, ns=(1, 1), follow_symlinks=False)


_EDITS: dict[str, Callable[[Path, Path, bytes], None]] = {
    "write": _write,
    "append": _append,
    "delete": _delete,
    "move": _move,
    "chmod": _chmod,
    "link": _link,
    "folder": _folder,
    "touch": _touch,
}
