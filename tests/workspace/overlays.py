"""What tests of overlays share: a machine that can have one, agents that do odd things, and hashes of trees."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.needs import needs
from toolkit._base.layered import why_no_layers
from toolkit.workspace import HostMount, WorkspaceSection

needs_overlay = needs(why_no_layers(Path(tempfile.gettempdir())) is None, "no overlay can be mounted here")


def section_of(host: Path, home: Path, *, backend: Any = "overlay", **options: Any) -> WorkspaceSection:
    """A prepared section of one folder, beside it."""
    mount = HostMount(host, "src", **options)
    section = WorkspaceSection([mount], [host.parent], parent=home.parent, backend=backend)
    return section.prepare(home=home)


@contextlib.contextmanager
def as_agent(section: WorkspaceSection) -> Iterator[Path]:
    """The folder of a section with all that is in it, as an agent sees it."""
    with section._prepared().whole() as root:
        yield Path(f"/proc/self/fd/{root}")


def make_host(folder: Path, *, files: int = 40) -> Path:
    """A project with folders, links, modes, odd names and an empty folder."""
    rng = random.Random(7)
    folder.mkdir()
    places = [folder / name for name in ("", "a", "a/b", "a/b/c", "docs", "empty", "näme")]
    for place in places:
        place.mkdir(exist_ok=True)
    for number in range(files):
        file = rng.choice([place for place in places if place.name != "empty"]) / f"f{number}.txt"
        file.write_bytes(rng.randbytes(rng.randrange(0, 3000)))
        file.chmod(rng.choice([0o644, 0o755, 0o600]))
    (folder / "a" / "link").symlink_to("../docs")
    (folder / "docs" / "self").symlink_to("nowhere")
    (folder / os.fsdecode(b"bad-\xff")).write_bytes(b"odd name")
    return folder


def tree_hash(folder: Path) -> str:
    """Everything below a folder: names, kinds, modes, owners, times, targets, bytes and attributes."""
    digest = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        st = path.lstat()
        facts = [st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, st.st_nlink, st.st_size]
        attributes = [(name, os.getxattr(path, name, follow_symlinks=False)) for name in _attributes(path)]
        digest.update(repr((os.fsencode(path), facts, attributes)).encode())
        if stat.S_ISREG(st.st_mode):
            digest.update(path.read_bytes())
        elif stat.S_ISLNK(st.st_mode):
            digest.update(os.fsencode(path.readlink()))
    return digest.hexdigest()


def _attributes(path: Path) -> list[str]:
    return sorted(os.listxattr(path, follow_symlinks=False))


def do_something(rng: random.Random, top: Path) -> None:
    """One thing that an agent might do below a folder; the same for the same dice and tree."""
    paths = sorted((path for path in top.rglob("*")), key=os.fsencode)
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    folders = [path for path in paths if path.is_dir() and not path.is_symlink()]
    file = rng.choice(files) if files else None
    folder = rng.choice([top, *folders])
    name = folder / f"new{rng.randrange(10**6)}"
    what = rng.randrange(14)
    if what == 0 and file:
        file.write_bytes(rng.randbytes(200))
    elif what == 1 and file:
        file.unlink()
    elif what == 2:
        name.write_bytes(b"new")
    elif what == 3 and folder != top:
        shutil.rmtree(folder)
    elif what == 4 and folder != top:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "again").write_bytes(b"again")
    elif what == 5 and file:
        shutil.move(file, name)
    elif what == 6 and folder != top:
        shutil.move(folder, top / f"moved{rng.randrange(10**6)}")
    elif what == 7 and file:
        file.chmod(rng.choice([0o644, 0o755, 0o600]))
    elif what == 8 and folder != top:
        folder.chmod(rng.choice([0o755, 0o700, 0o750]))
    elif what == 9:
        name.symlink_to(rng.choice(["docs", "../..", "f1.txt"]))
    elif what == 10 and file:
        os.link(file, name)
    elif what == 11 and file:
        file.unlink()
        file.mkdir()
        (file / "inner").write_bytes(b"a folder now")
    elif what == 12 and folder != top:
        shutil.rmtree(folder)
        folder.write_bytes(b"a file now")
    elif what == 13 and file:
        with contextlib.suppress(OSError):
            os.setxattr(file, "user.note", b"x")
