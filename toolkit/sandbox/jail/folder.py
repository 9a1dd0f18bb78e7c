"""The private host folder of one jail: made with an owner, gone when the owner is gone.

It holds the launcher, the agent's home and the gate's socket, and it knows the
processes that were started from it. Whoever made it holds a lock in it; a folder
whose lock is free was left by a killed process and is cleared away, together with
what was lent to that jail, by a small helper that waits for exactly this, or by
the next start.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit._base.files import write_json
from toolkit._base.handles import remove_tree
from toolkit._base.layered import Mounted
from toolkit._base.locks import take_lock
from toolkit._base.processes import all_pids, is_running
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.jail.as_root import Stage, take_back, take_back_command
from toolkit.sandbox.jail.cgroup import remove_group
from toolkit.sandbox.jail.machine import writing_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

MARK = "TOOLKIT_JAIL"
"""The variable every process of a jail carries, with the name of the jail's folder."""
PREFIX = "toolkit-jail-"
_ORPHAN_SECONDS = 3600
_GONE_SECONDS = 10.0
_TURN_SECONDS = 10.0
_LONGEST_PLACE = 107 - len(f"/{PREFIX}12345678/shown/api.sock")

# Waits for its input to end, which happens however the owner ends; then does what the owner could not do.
_CLEANER = """
read -r end || :
[ -d {folder} ] || exit 0
for file in {folder}/pids/*; do
    pid=${{file##*/}} tries=0
    while kill -0 "$pid" 2>/dev/null && [ $tries -lt 100 ]; do
        if [ $tries -ge 10 ] && grep -qs {name} "/proc/$pid/environ" "/proc/$pid/cmdline"; then kill -9 "$pid"; fi
        sleep 0.05
        tries=$((tries + 1))
    done
done
{give_back}
chmod -R u+rwX -- {folder}
rm -rf -- {folder}
"""


class JailFolder:
    """One jail's private folder, locked as long as its owner lives; a block with it ends the jail.

    Raises:
        UnconfinedError: the temporary folder's path leaves no room for a socket in it, or nothing can be written there.
    """

    def __init__(self) -> None:
        place = _temporary_folder()
        _demand_room_for_a_socket(place)
        with writing_in(place):
            self._make(place)

    def _make(self, place: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self.name = self.path.name
        # Locked before it has its name: a sweep that finds it in between would take the folder for abandoned.
        self._lock = take_lock(self.path / "owner.new")
        (self.path / "owner.new").rename(self.path / "owner")
        self._held: list[Stage | Mounted] = []
        self._facts: dict[str, Any] = {}
        self._cleaner: subprocess.Popen[bytes] | None = None
        self.visible = self.path / "shown"
        """The part of it that appears in the jail."""
        self.own = self.visible / "own"
        """What is the same for all inside: synthetic files in `etc`, programs in `apart` and perhaps `bin`."""
        self.home = self.visible / "home"
        """The home of the commands."""
        self.cli_home = self.visible / "cli"
        """A home for a CLI that brings none."""
        self.socket = self.visible / "api.sock"
        """Where the gate listens."""
        self.proxy = self.own / "gate"
        """Where it listens for commands."""
        self.bait = self.path.with_name(self.name.replace(PREFIX, "toolkit-canary-"))
        """Where the canary's bait is laid out, in anybody's reach."""
        within = [self.own / name for name in ("etc", "apart")]
        for folder in (self.path / "pids", self.visible, self.own, *within, self.home, self.cli_home):
            folder.mkdir()
            folder.chmod(0o755)  # whatever the umask: the folder around it is private

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
        finally:
            self.close()

    def own_workspace(self) -> Path:
        """An empty folder to work in that goes with this one, for a jail that is given none."""
        folder = self.path / "workspace"
        folder.mkdir(mode=0o700)
        return folder.resolve()

    def notes_in(self, workspace: Path) -> tuple[Path, Path]:
        """What the canary reads in the workspace, and what it writes there."""
        return workspace / f".{self.name}-note", workspace / f".{self.name}-answer"

    @property
    def whole(self) -> Path | None:
        """The workspace of an overlay with all that shows through it, for this process and those it starts."""
        handles = [one.whole for one in self._held if isinstance(one, Mounted)]
        return Path(f"/proc/{os.getpid()}/fd/{handles[0]}") if handles and handles[0] >= 0 else None

    def hold(self, mounted: Stage | Mounted) -> None:
        """Keep what is mounted as long as this folder."""
        self._held.append(mounted)

    def record(
        self, *, folders: Sequence[Path], notes_in: Path, tenant: int | None, cgroups: Sequence[Path], sole: bool
    ) -> None:
        """Write down what must be given back, and start the helper that does it if we are killed.

        The first of `folders` is the workspace, with `sole` for no other jail that wants one for itself; `notes_in`
        is where the canary leaves its notes.
        """
        names, groups = [str(folder) for folder in folders], [str(group) for group in cgroups]
        traces = [str(trace) for trace in (self.bait, *self.notes_in(notes_in))]
        self._facts = {"folders": names, "tenant": tenant, "cgroups": groups, "traces": traces}
        # A jail that root starts takes over the files, so it is alone in any case.
        self._facts |= {"sole": sole or tenant is not None, "pid": os.getpid(), "turn": None}
        write_json(self.path / "lent", self._facts)
        removals = [shlex.join(["rmdir", "--", group]) for group in groups]
        give_back = [f"for try in $(seq 60); do {remove} && break; sleep 0.05; done" for remove in removals]
        if tenant is not None:
            give_back += [shlex.join(take_back_command(folders, tenant))]
        give_back += [shlex.join(["rm", "-rf", "--", *traces])]
        script = _CLEANER.format(
            folder=shlex.quote(str(self.path)), name=shlex.quote(self.name), give_back="\n".join(give_back)
        )
        self._cleaner = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def claim(self) -> None:
        """Get the recorded workspace, or raise: of several that ask at once the first goes on, and only that one.

        Nobody else may hold a lock we wait for, so there is none: whoever asks takes a number above all others it
        sees, waits for those who are about to take one, and lets smaller ones go first (Lamport's bakery).

        Raises:
            SandboxError: another jail has the folder, one in it or one around it.
        """
        workspace = Path(self._facts["folders"][0])
        mine = 1 + max((_turn(facts) or 0 for facts in rivals(workspace, self.path).values()), default=0)
        self._facts["turn"] = mine
        write_json(self.path / "lent", self._facts)
        end = time.monotonic() + _TURN_SECONDS
        while self._facts["sole"]:
            others = rivals(workspace, self.path)
            for path, facts in others.items():
                turn = _turn(facts)
                is_first = turn is not None and (turn, path.name) < (mine, self.name)
                if is_first or (turn is None and time.monotonic() > end):
                    # Withdrawn at once: a third must not be refused because of one that is on its way out.
                    self._facts["sole"] = False
                    write_json(self.path / "lent", self._facts)
                    raise _in_use(workspace, facts)
            if None not in map(_turn, others.values()):
                return
            time.sleep(0.005)

    def processes(self) -> list[int]:
        """The host pids of the launchers started from this folder that are still alive."""
        started = [int(file.name) for file in (self.path / "pids").iterdir()]
        return [pid for pid in started if self._is_marked(pid, "environ") or self._is_marked(pid, "cmdline")]

    def kill(self) -> None:
        """End everything that was started from this folder and wait until nothing of it is left."""
        end = time.monotonic() + _GONE_SECONDS
        killed = self._kill_marked()
        # The first process in a jail has ended only when the kernel has ended all others in it.
        while alive := [pid for pid in killed if is_running(pid)]:
            killed |= self._kill_marked()  # what one of them started in its last moment
            if time.monotonic() > end:
                raise SandboxError(
                    f"a jail did not end: process {alive[0]}", fix="It is stuck in the kernel; see: ps -o wchan"
                )
            time.sleep(0.005)

    def _kill_marked(self) -> set[int]:
        ours = {pid for pid in all_pids() if self._is_marked(pid, "environ")}.union(self.processes())
        for pid in ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return ours

    def _is_marked(self, pid: int, where: str) -> bool:
        """Whether a process is ours; its pid alone says nothing, that may long be someone else's.

        Until it has become bubblewrap, with the mark in its environment, it carries our name in its command.
        """
        wanted = f"{MARK}={self.name}" if where == "environ" else self.name
        try:
            return wanted.encode() in Path(f"/proc/{pid}/{where}").read_bytes()
        except OSError:
            return False

    def close(self) -> None:
        """Give back what was lent and remove the folder."""
        for mounted in self._held:
            mounted.close()
        try:
            _dispose(self.path)
        finally:
            if self._cleaner is not None:
                assert self._cleaner.stdin is not None
                self._cleaner.kill()  # there is nothing left to do for it
                self._cleaner.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._cleaner.wait(timeout=10)
            if self._lock is not None:
                self._lock.release()


def _temporary_folder() -> Path:
    """Where jails have their folders: the system's, or that of TMPDIR, in which a file could be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UnconfinedError(
            "refusing to start: no temporary folder can be written to",
            rules=("jail",),
            where=[str(error.strerror)],
            fix="Make room in one of them, or set TMPDIR to another folder.",
        ) from None


def _demand_room_for_a_socket(place: Path) -> None:
    """The gate and the canary listen at paths below the temporary folder, and those may not be long."""
    if len(os.fsencode(place)) > _LONGEST_PLACE:
        raise UnconfinedError(
            f"refusing to start: the temporary folder's path is longer than {_LONGEST_PLACE} bytes",
            rules=("jail",),
            where=[f"{place}: a socket in it could not have a name"],
            fix="Set TMPDIR to a shorter path, for example: TMPDIR=/tmp",
        )


def rivals(workspace: Path, besides: Path) -> dict[Path, dict[str, Any]]:
    """The jails of this user that live and want this folder, one in it or one around it for themselves.

    Each by its own folder, with what it recorded; `besides` is ours.
    """
    found = {}
    for path in _temporary_folder().glob(PREFIX + "*"):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            facts: dict[str, Any] = json.loads((path / "lent").read_text(encoding="utf-8"))
            other = Path(facts["folders"][0])
            touches = other.is_relative_to(workspace) or workspace.is_relative_to(other)
            is_ours = path != besides and path.lstat().st_uid == os.geteuid()
            # An older version wrote down what it lent, and nothing else.
            if is_ours and touches and facts.get("sole", facts["tenant"] is not None) and not _is_abandoned(path):
                found[path] = facts
    return found


def _turn(facts: Mapping[str, Any]) -> int | None:
    """The number a jail has taken, None if it is about to."""
    turn: int | None = facts.get("turn", 0)
    return turn


def _in_use(workspace: Path, facts: Mapping[str, Any]) -> SandboxError:
    return SandboxError(
        f"the workspace '{workspace}' is in use by another jail",
        where=[f"process {facts.get('pid', 'unknown')} works in {facts['folders'][0]}"],
        fix="Wait until that one has ended, or give each a copy of its own.",
    )


def sweep() -> list[Path]:
    """Clear away what killed processes of this user left, and return those folders.

    A leftover that cannot be cleared away is passed over: it must never stop the next jail.
    """
    swept = []
    for path in _temporary_folder().glob(PREFIX + "*"):
        with contextlib.suppress(Exception):
            if path.lstat().st_uid == os.geteuid() and path.is_dir() and _is_abandoned(path):
                _dispose(path)
                swept.append(path)
    return swept


def remove_trace(path: Path) -> None:
    """Remove a file, or a folder with all an agent may have put into it, that may be gone already."""
    with contextlib.suppress(OSError):
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_tree(parent, path.name)
        finally:
            os.close(parent)


def _is_abandoned(path: Path) -> bool:
    try:
        # Shared, so that two who look at the same time do not take each other for the owner.
        lock = take_lock(path / "owner", create=False, shared=True)
    except FileNotFoundError:
        # Either made this instant, or cut off before it was locked.
        return time.time() - path.lstat().st_mtime > _ORPHAN_SECONDS
    if lock is None:
        return False
    lock.release()
    return True


def _dispose(path: Path) -> None:
    """Undo what a jail's folder says was changed on the host, then remove the folder."""
    problem: SandboxError | None = None
    with contextlib.suppress(OSError, ValueError, KeyError):
        lent = json.loads((path / "lent").read_text(encoding="utf-8"))
        for group in lent["cgroups"]:
            remove_group(Path(group))
        for trace in lent.get("traces", ()):  # an older version wrote none
            remove_trace(Path(trace))
        if lent["tenant"] is not None:
            staying = [folder for folder in map(Path, lent["folders"]) if not folder.is_relative_to(path)]
            try:
                take_back(staying, lent["tenant"])
            except SandboxError as error:
                problem = error
    remove_trace(path)
    if problem is not None:
        raise problem
