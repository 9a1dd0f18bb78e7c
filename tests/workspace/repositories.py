"""Repositories to deliver to, an agent's work in a copy, and everything of a host that must stay as it is."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.delivering import Delivery, Signature
from toolkit_workspace.git import Origin

AGENT = Signature("agent (model-x)", "run-1@agent.invalid")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_NAME": "Someone" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "someone@example.org" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}


def git(folder: Path, *arguments: str, data: bytes = b"", fails: bool = False) -> str:
    """What git says, as the judge and as the owner's own tool."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=ENVIRONMENT, input=data, capture_output=True, check=False, timeout=60
    )
    assert fails or done.returncode == 0, (arguments, done.stderr)
    return os.fsdecode(done.stdout).rstrip("\n")


def repository(folder: Path, *init: str, files: dict[str, bytes] | None = None) -> Path:
    """A repository with one commit on main."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", *init)
    for name, data in (files or {"app.py": b"one\ntwo\nthree\nfour\nfive\nsix\n", "lib/code.py": b"a = 1\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def prepared(*folders: Path, **options: Any) -> WorkspaceSection:
    """A workspace of some folders, beside the first."""
    roots = [folder.parent for folder in folders]
    mounts = [HostMount(folder, **options) for folder in folders]
    return WorkspaceSection(mounts, roots, parent=folders[0].parent).prepare()


def delivery(name: str = "agent/x", **options: Any) -> Delivery:
    """What is asked for, the rest being the usual."""
    given: dict[str, Any] = {"message": "Do it", "agent": AGENT, "trailers": [("Toolkit-Run", "run-1")], **options}
    return Delivery(name=name, **given)


def trusting_packer(section: WorkspaceSection) -> Any:
    """Packs like the one in the jail, without a jail: for copies that only the test has worked in."""

    def pack(origin: Origin, tip: str, base: str | None, into: int) -> None:
        assert origin.git is not None
        asked = f"{tip}\n" + (f"^{base}\n" if base else "")
        subprocess.run(
            ["git", f"--git-dir={section.temp_dir / origin.git}", "pack-objects", "--revs", "--thin", "--stdout", "-q"],
            input=asked.encode(),
            stdout=into,
            env=ENVIRONMENT,
            check=True,
        )

    return pack


def everything(top: Path, *, but: str = "agent/x") -> dict[str, Any]:
    """All of a work tree and its git folder that a delivery must not change: bytes, modes, times; not its objects."""
    found: dict[str, Any] = {}
    for where, folders, names in os.walk(top):
        if where.endswith("/objects"):
            folders[:] = []
            continue
        for name in [*folders, *names]:
            path = Path(where) / name
            below = str(path.relative_to(top))
            if ".git" in below and (but.split("/")[0] in below or below in (".git/refs/heads", ".git/logs/refs/heads")):
                continue
            st = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
            found[below] = (st.st_mode, st.st_uid, st.st_mtime_ns, digest)
    return found
