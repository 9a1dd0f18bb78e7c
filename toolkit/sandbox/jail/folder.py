"""The private host folder of one jail: made with an owner, gone when the owner is gone.

It holds the launcher, the agent's home and the gate's socket. Whoever made it
holds a lock in it; a folder whose lock is free was left by a killed process and
is cleared away, together with what was lent to that jail, by a small helper
that waits for exactly this, or by the next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import SandboxError
from toolkit.sandbox.jail.as_root import Stage, take_back, take_back_command
from toolkit.sandbox.jail.cgroup import remove_group

PREFIX = "toolkit-jail-"
_ORPHAN_SECONDS = 3600

# Waits for its input to end, which happens however the owner ends; then does what the owner could not do.
_CLEANER = """
read -r end || :
[ -d {state} ] || exit 0
for file in {state}/pids/*; do
    pid=${{file##*/}} tries=0
    while kill -0 "$pid" 2>/dev/null && [ $tries -lt 100 ]; do
        if [ $tries -ge 10 ] && grep -qs {name} "/proc/$pid/environ" "/proc/$pid/cmdline"; then kill -9 "$pid"; fi
        sleep 0.05
        tries=$((tries + 1))
    done
done
{give_back}
chmod -R u+rwX -- {state}
rm -rf -- {state}
"""


class State:
    """One jail's private folder, locked as long as its owner lives."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.name = self.folder.name
        self._lock = os.open(self.folder / "owner", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._stage: Stage | None = None
        self._cleaner: subprocess.Popen[bytes] | None = None
        self.shown = self.folder / "shown"
        """The part of it that appears in the jail."""
        self.bait = self.folder.with_name(self.name.replace(PREFIX, "toolkit-canary-"))
        """Where the canary's bait is laid out, in anybody's reach."""
        for path in (self.folder / "pids", self.shown, self.shown / "etc", self.shown / "home"):
            path.mkdir()
            path.chmod(0o755)  # whatever the umask: the folder around it is private

    def notes_in(self, workspace: Path) -> tuple[Path, Path]:
        """What the canary reads in the workspace, and what it writes there."""
        return workspace / f".{self.name}-note", workspace / f".{self.name}-answer"

    def hold(self, stage: Stage) -> None:
        """Keep a stage as long as this state."""
        self._stage = stage

    def record(self, *, folders: Sequence[Path], tenant: int | None, cgroups: Sequence[Path]) -> None:
        """Write down what must be given back, and start the helper that does it if we are killed.

        The first of `folders` is the workspace.
        """
        names, groups = [str(folder) for folder in folders], [str(group) for group in cgroups]
        traces = [str(trace) for trace in (self.bait, *self.notes_in(folders[0]))]
        facts = {"folders": names, "tenant": tenant, "cgroups": groups, "traces": traces}
        (self.folder / "lent").write_text(json.dumps(facts), encoding="utf-8")
        removals = [shlex.join(["rmdir", "--", group]) for group in groups]
        give_back = [f"for try in $(seq 60); do {remove} && break; sleep 0.05; done" for remove in removals]
        if tenant is not None:
            give_back += [shlex.join(take_back_command(folder, tenant)) for folder in folders]
        give_back += [shlex.join(["rm", "-rf", "--", *traces])]
        script = _CLEANER.format(
            state=shlex.quote(str(self.folder)), name=shlex.quote(self.name), give_back="\n".join(give_back)
        )
        self._cleaner = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def close(self) -> None:
        """Give back what was lent and remove the folder."""
        if self._stage is not None:
            self._stage.close()
        try:
            dispose(self.folder)
        finally:
            if self._cleaner is not None:
                assert self._cleaner.stdin is not None
                self._cleaner.kill()  # there is nothing left to do for it
                self._cleaner.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._cleaner.wait(timeout=10)
            os.close(self._lock)


def dispose(folder: Path) -> None:
    """Undo what a jail's state says it changed on the host, then remove the state."""
    problem: SandboxError | None = None
    with contextlib.suppress(OSError, ValueError, KeyError):
        lent = json.loads((folder / "lent").read_text(encoding="utf-8"))
        for group in lent["cgroups"]:
            remove_group(Path(group))
        for trace in map(Path, lent.get("traces", ())):
            remove_trace(trace)
        for lost in map(Path, lent["folders"] if lent["tenant"] is not None else ()):
            if lost.is_relative_to(folder):
                continue  # it is removed anyway
            try:
                take_back(lost, lent["tenant"])
            except SandboxError as error:
                problem = error
    _remove(folder)
    if problem is not None:
        raise problem


def remove_trace(path: Path) -> None:
    """Remove a file or a folder that may be gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def is_lent(folder: Path, besides: Path) -> bool:
    """Whether another jail that lives has this folder, one in it or one around it; `besides` is our own state."""
    for state in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            lent = json.loads((state / "lent").read_text(encoding="utf-8"))
            other = Path(lent["folders"][0])
            touches = other.is_relative_to(folder) or folder.is_relative_to(other)
            is_ours = state != besides and state.lstat().st_uid == os.geteuid()
            if is_ours and touches and lent["tenant"] is not None and not _is_abandoned(state):
                return True
    return False


def sweep() -> list[Path]:
    """Clear away what killed processes of this user left, and return those folders."""
    swept = []
    for folder in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError, SandboxError):
            if folder.lstat().st_uid == os.geteuid() and folder.is_dir() and _is_abandoned(folder):
                dispose(folder)
                swept.append(folder)
    return swept


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / "owner", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        # Either made this instant, or cut off before it was locked.
        return time.time() - folder.lstat().st_mtime > _ORPHAN_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _remove(folder: Path) -> None:
    """Remove a tree an agent may have made unreadable or deeper than Python can walk."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], capture_output=True, check=False)
