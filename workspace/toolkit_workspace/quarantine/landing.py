"""Put what was made into the host's repository: the objects first, the branch last.

Git itself writes there, as whoever the repository belongs to. Objects that no branch
names are nothing to anybody, so a kill at any point leaves the repository as it was,
or with the whole branch. The work tree and the index are not opened.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceConflictError, WorkspaceError
from toolkit_workspace.quarantine.plumbing import GitFailed
from toolkit_workspace.quarantine.private import Quarantine

_SECONDS = 300


def land(quarantine: Quarantine, name: str, tip: str, old: str | None, *, known: Sequence[str], why: str) -> None:
    """Make the branch.

    Args:
        quarantine: What holds the objects.
        name: Of the branch.
        tip: Its commit.
        old: What it has now, as far as it is there.
        known: Commits that the repository has, on which the branch stands.
        why: For the log of the branch.

    Raises:
        WorkspaceConflictError: the branch was made or moved by somebody else meanwhile.
        WorkspaceError: the repository cannot be written.
    """
    _copy_objects(quarantine, tip, known)
    nothing = "0" * len(tip)
    who = {f"GIT_COMMITTER_{what}": "toolkit" for what in ("NAME", "EMAIL")}
    ref = f"refs/heads/{name}"
    try:
        quarantine.host.at(**who)("update-ref", "--no-deref", "-m", why, ref, tip, old or nothing)
    except GitFailed as error:
        if "but expected" in error.said or "already exists" in error.said or "cannot lock ref" in error.said:
            raise WorkspaceConflictError(
                f"the branch {safe_name(name)} was made or moved by somebody else meanwhile, or another git is at work",
                where=error.where,
                fix="Nothing was changed. Look at it, then try again.",
            ) from error
        raise _cannot_write(quarantine, error) from error


def _copy_objects(quarantine: Quarantine, tip: str, known: Sequence[str]) -> None:
    """All objects that the repository has not got, as one pack."""
    packing = quarantine.git.start(
        "pack-objects", "--revs", "--stdout", "-q", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with packing:
        assert packing.stdin is not None
        assert packing.stdout is not None
        taking = quarantine.host.start("index-pack", "--stdin", stdin=packing.stdout, stdout=subprocess.DEVNULL)
        packing.stdout.close()
        with taking:
            try:
                packing.stdin.write("".join([f"{tip}\n", *(f"^{one}\n" for one in known)]).encode())
                packing.stdin.close()
                said = taking.communicate(timeout=_SECONDS)[1]
                packing.wait(timeout=_SECONDS)
            except BaseException as error:
                packing.kill()
                taking.kill()
                if isinstance(error, subprocess.TimeoutExpired | OSError):
                    raise _cannot_write(quarantine, GitFailed("index-pack", str(error))) from error
                raise
        failure = packing.stderr.read() if packing.stderr is not None else b""
    if taking.returncode != 0 and not failure:  # the one that packs ends, too, when nobody takes what it gives
        raise _cannot_write(quarantine, GitFailed("index-pack", said.decode(errors="replace")))
    if packing.returncode != 0:
        raise GitFailed("pack-objects", failure.decode(errors="replace"))


def _cannot_write(quarantine: Quarantine, error: GitFailed) -> WorkspaceError:
    return WorkspaceError(
        "the repository cannot be written; nothing was changed",
        where=[str(quarantine.repository.common_dir), *error.where],
        fix="Look at its permissions and at the room on its disk, then try again.",
    )
