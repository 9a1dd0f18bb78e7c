"""A program that tries to get out of a jail, and the host's view of whether it did.

It runs in the very jail the agent will run in. It does not judge itself: it
tries everything and prints what it got; the host looks for planted words in
that text and for connections and files on its own side. What was not tried, or
not answered, has failed.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolkit.sandbox.jail.folder import MARK, remove_trace
from toolkit.sandbox.jail.launcher import OpenJail
from toolkit.sandbox.jail.machine import find_program, writing_in
from toolkit.sandbox.jail.walls import APART, CLI_HOME, CLI_TMP, SOCKET

_SECONDS = 60
_BASH = ("/bin/bash", "--noprofile", "--norc", "-c")
_NAMESPACES = ("user", "pid", "net", "ipc", "uts", "mnt", "cgroup")
_HELD = "/tmp/.toolkit-canary"
"""A file the canary holds open in the jail, as the CLI holds its output."""
_FAMILIES = ("16:3:15:x00000000000000000000", "40:1:0:x0000000000000000000000000000")
_FEW = 8
"""Processes that may be visible inside: bubblewrap, the canary and what it runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing the canary tried."""

    name: str
    ok: bool
    detail: str
    """What was seen, for a person."""


@dataclass(frozen=True, slots=True)
class Flight:
    """What came of running the canary once."""

    outcomes: tuple[Outcome, ...]
    started: bool
    stderr: str
    cli_version: str


class _Plant:
    """Bait on the host: readable, writable and connectable by anyone who is not in a jail."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.folder.chmod(0o777)
        self.word = "canary" + os.urandom(12).hex()
        self.secret = self.folder / "secret"
        self.secret.write_text(self.word + "-file", encoding="ascii")
        self.written = self.folder / "written"
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.unix, self.abstract = (socket.socket(socket.AF_UNIX) for _ in range(2))
        self.unix_path = self.folder / "socket"
        self.unix.bind(str(self.unix_path))
        self.unix_path.chmod(0o777)
        self.abstract_name = self.word + "-abstract"
        self.abstract.bind("\0" + self.abstract_name)
        for listener in (self.unix, self.abstract):
            listener.listen(4)

    def close(self) -> None:
        for listener in (self.tcp, self.unix, self.abstract):
            listener.close()
        remove_trace(self.folder)


def fly(opened: OpenJail, cli: Path | None, meanwhile: Callable[[], None]) -> Flight:
    """Run the canary in an open jail and say what it reached; `meanwhile` is done as soon as it has started."""
    with writing_in(opened.folder.bait.parent):
        plant = _Plant(opened.folder.bait)
    try:
        with _note_in(opened, plant.word) as (note, answer):
            script = _script(opened, plant, cli, note, answer)
            environment = {**os.environ, "TOOLKIT_CANARY": plant.word + "-environment"}
            try:
                process = _start(opened, script, environment)
            except OSError as error:
                return _failed(str(error))
            try:
                meanwhile()
                stdout, stderr = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                return _failed(f"the check did not end within {_SECONDS} s: bubblewrap hangs, or the machine is busy")
            finally:
                if process.returncode is None:
                    opened.folder.kill()  # all of it: one that was about to become a jail holds the pipes as well
                    process.kill()
                    process.communicate(timeout=_SECONDS)
            text = stdout.decode(errors="replace")
            outcomes = tuple(_judge(opened, plant, text, answer))
        version = next((line[4:] for line in text.splitlines() if line.startswith("cli ")), "")
        return Flight(outcomes, "tried start" in text, stderr.decode(errors="replace"), version.strip())
    finally:
        plant.close()


def _start(opened: OpenJail, script: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # With its input closed: what bubblewrap opens must not take that place.
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", opened.script, *_BASH, script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd="/",
        process_group=0,  # the launcher needs not make one then
    )


def _failed(why: str) -> Flight:
    return Flight((), started=False, stderr=why, cli_version="")


@contextmanager
def _note_in(opened: OpenJail, word: str) -> Iterator[tuple[Path, Path]]:
    """A file for the canary to read in the workspace, and the one it should write; neither stays."""
    note, answer = opened.folder.notes_in(opened.jail.notes_in)
    try:
        with writing_in(opened.jail.notes_in):
            note.write_text(word + "-note", encoding="ascii")
            if opened.tenant is not None:
                os.chown(note, opened.tenant, opened.tenant)
        yield note, answer
    finally:
        for path in (note, answer):
            remove_trace(path)


# Without programs and subshells, as far as bash goes: each is felt, and a program that is missing looks like a wall.
_HELPERS = """\
show() { for file; do mapfile -t text < "$file" && printf '%s\\n' "${text[@]}"; done; }
variables() { for file; do mapfile -d '' -t text < "$file" && printf '%s\\n' "${text[@]}" || echo unreadable; done; }
"""


def _script(opened: OpenJail, plant: _Plant, cli: Path | None, note: Path, answer: Path) -> str:
    """Every line is allowed to fail; what it got is printed, then that it was tried.

    What needs a program runs side by side; who is there, and what they hold, is looked at before.
    """
    secret, written = shlex.quote(str(plant.secret)), shlex.quote(str(plant.written))
    tries = {
        "start": ":",
        "processes": "printf 'process %s\\n' /proc/[0-9]*; variables /proc/[0-9]*/environ",
        "read": f"show {secret} /proc/1/root{secret} /proc/self/root{secret} /../..{secret}; "
        'mapfile -t mounts < /proc/self/mountinfo; set -f; for mount in "${mounts[@]}"; do '
        f'set -- $mount; show "$5"{secret}; done; set +f',
        "handles": 'for file in /proc/[0-9]*/fd/*; do [ -d "$file/" ] && echo "folder $file"; done',
        "write": f"echo x > {written}; echo x > /usr/{plant.word}; echo x > /etc/{plant.word}; echo x > /{plant.word}",
        "port": f": 3<>/dev/tcp/127.0.0.1/{plant.tcp.getsockname()[1]}",
        "environment": "export -p",
        "pid1": "variables /proc/1/environ",
        "privileges": "show /proc/self/status",
        # Opened for writing, nothing written: a hole must not do harm here.
        "kernel": "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger; do "
        ': >> "$f" && echo "opened $f"; done',
        "workspace": f"show {_inside(opened, note)}; echo $UID > {_inside(opened, answer)}",
    }
    aside = _programs(opened, plant, cli)
    lines = [
        _HELPERS,
        f"exec 6>> {_HELD}\n",
        *(_try(name, tries.pop(name)) for name in ("start", "processes", "handles")),
    ]
    lines += [f"exec {{{name}}}< <( {what} )\n" for name, what in aside.items()]
    lines += [_try(name, what) for name, what in tries.items()]
    lines += [_try(name, f"show /dev/fd/${name}") for name in aside]
    return "".join(lines)


def _inside(opened: OpenJail, path: Path) -> str:
    """A note in the workspace as the shell inside names it."""
    return shlex.quote(f"{opened.jail.shown_at()[0][1]}/{path.name}")


def _try(name: str, what: str) -> str:
    return f'{{ {what}; }}\necho\necho "tried {name}"\n'


def _programs(opened: OpenJail, plant: _Plant, cli: Path | None) -> dict[str, str]:
    """The tries that cannot do without a program."""
    bwrap, socat = (shlex.quote(find_program(name)) for name in ("bwrap", "socat"))  # none that stands before on PATH
    unix = shlex.quote(str(plant.unix_path))
    tries = {} if cli is None else {"cli": f'echo "cli $({shlex.quote(str(cli))} --version)"'}
    # What takes longest is begun first.
    tries |= {
        "apart": _reaching_for_the_cli(),
        "nested": f"{bwrap} --unshare-user --unshare-pid --unshare-net --ro-bind / / --dev /dev true && "
        "echo nested works",
        # Netlink's broadcast of the kernel, which is everywhere, and a virtual machine's way to its host.
        "families": "; ".join(
            f"{socat} -u OPEN:/dev/null SOCKET-DATAGRAM:{family} 2>&1; echo socat ended $?" for family in _FAMILIES
        ),
        # A path is looked up in the same way for both: what is not there cannot be connected to.
        "unix": f"[ ! -e {unix} ] || {socat} -u OPEN:/dev/null UNIX-CONNECT:{unix}",
        "abstract": f"{socat} -u OPEN:/dev/null ABSTRACT-CONNECT:{plant.abstract_name}",
        "namespaces": "readlink " + " ".join(f"/proc/self/ns/{kind}" for kind in _NAMESPACES),
    }
    if opened.jail.has_gate:
        tries["gate"] = f"{socat} -u OPEN:/dev/null UNIX-CONNECT:{SOCKET} && echo the gate answers"
    return tries


def _reaching_for_the_cli() -> str:
    """What the CLI starts for others, reaching for the canary's own process, which stands where the CLI will.

    Once more without being kept apart: if that does not get there, nothing was shown.
    """
    forge = "echo $who writes >> /proc/$cli/fd/6"
    look = 'for f in environ mem maps; do : < /proc/$cli/$f && echo "$who opens $f"; done'
    enter = 'for f in root cwd; do [ -d /proc/$cli/$f/ ] && echo "$who enters $f"; done'
    # Where it finds itself by its number it finds others by theirs, and can signal them.
    signal = '[ /proc/self -ef /proc/$$ ] && echo "$who signals"'
    change = f'for f in {CLI_HOME} {CLI_TMP}; do [ -w $f ] && echo "$who changes $f"; done'
    reach = f"text={shlex.quote('; '.join((forge, look, enter, signal, change, 'echo $who tried')))}"
    both = f'( cli=$$ who=beside; eval "$text" ); {APART}/command "cli=$$ who=apart; $text"'
    return f"{reach}; {both}; show {_HELD}"


def _sections(text: str) -> dict[str, list[str]]:
    """What each try printed; a try that did not end has no section."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("tried "):
            sections[line[len("tried ") :]] = lines
            lines = []
        else:
            lines.append(line)
    return sections


def _judge(opened: OpenJail, plant: _Plant, text: str, answer: Path) -> Iterator[Outcome]:
    printed = _sections(text)

    def outcome(name: str, holds: bool, good: str, bad: str) -> Outcome:
        if name not in printed:
            return Outcome(name, False, "could not be tried")
        return Outcome(name, holds, good if holds else bad)

    def has(name: str, word: str) -> bool:
        return any(word in line for line in printed.get(name, ()))

    yield outcome("read", plant.word + "-file" not in text, "a planted secret stays unread", "read a secret outside")
    folders = has("handles", "folder ")
    yield outcome("handles", not folders, "no folder outside is held open", "a handle leads to a folder outside")
    yield outcome("write", not plant.written.exists(), "nothing can be written outside", "wrote a file outside")
    for name, listener in (("port", plant.tcp), ("unix", plant.unix), ("abstract", plant.abstract)):
        reached = _was_reached(listener)
        yield outcome(name, not reached, "not reachable", "connected to a socket of the host")
    bait = plant.word + "-environment"
    for name in ("environment", "pid1"):
        looked = has(name, f"{MARK}=") or has(name, "unreadable")
        bad = "sees the caller's variables" if looked else "could not be looked at"
        yield outcome(name, looked and not has(name, bait), "nothing is inherited", bad)
    seen = sum(line.startswith("process ") for line in printed.get("processes", ()))
    alone = 0 < seen <= _FEW and has("processes", f"{MARK}=") and not has("processes", bait)
    yield outcome("processes", alone, f"sees {seen}, all its own", f"sees {seen} processes")
    shared = [kind for kind in _NAMESPACES if not _is_other_namespace(kind, printed.get("namespaces", []))]
    yield outcome("namespaces", not shared, "none shared with the host", f"shared: {', '.join(shared)}")
    without = sum("socket(" in line and "not supported" in line for line in printed.get("families", ()))
    closed = without == len(_FAMILIES)
    yield outcome("families", closed, "only unix, inet and route sockets", "opened a socket that leads past the walls")
    yield _apart(opened, printed.get("apart", []), outcome("apart", True, "", ""))
    excess = _excess_privileges(printed.get("privileges", []))
    yield outcome("privileges", not excess, "no capability, none to gain", f"unexpected: {'; '.join(excess)}")
    writable = has("kernel", "opened ")
    yield outcome("kernel", not writable, "kernel settings are read-only", "a kernel setting can be opened for writing")
    yield outcome("nested", has("nested", "nested works"), "a second sandbox starts inside", "no nested namespaces")
    started = any(line in ("socat ended 0", "socat ended 1") for line in printed.get("families", ()))
    yield Outcome("tools", started, "socat starts inside" if started else "socat cannot be started inside")
    yield _workspace(opened, plant, text, answer, outcome("workspace", True, "", ""))
    if opened.jail.has_gate:
        answers = has("gate", "the gate answers")
        yield outcome("gate", answers, "the gate answers", "the gate's socket cannot be reached")


def _apart(opened: OpenJail, lines: list[str], tried: Outcome) -> Outcome:
    if not tried.ok:
        return tried
    needed = {"apart tried", "beside writes"}
    if opened.jail.has_cli:
        needed |= {f"beside changes {CLI_HOME}", f"beside changes {CLI_TMP}"}
    if not needed.issubset(lines):
        return Outcome("apart", False, "could not be tried")
    reached = [line for line in lines if line.startswith("apart ") and line != "apart tried"]
    if reached:
        return Outcome("apart", False, f"what the CLI starts reaches it: {', '.join(reached)}")
    return Outcome("apart", True, "its output, memory, process and files are out of reach")


def _workspace(opened: OpenJail, plant: _Plant, text: str, answer: Path, tried: Outcome) -> Outcome:
    if not tried.ok:
        return tried
    if plant.word + "-note" not in text:
        return Outcome("workspace", False, "cannot be read")
    if opened.jail.read_only:
        changed = answer.exists()
        return Outcome("workspace", not changed, "readable, and writable" if changed else "readable, not writable")
    try:
        owner, inside = answer.lstat().st_uid, answer.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return Outcome("workspace", False, "cannot be written")
    if owner == 0:
        return Outcome("workspace", False, "what is written there belongs to root on the host")
    return Outcome("workspace", inside == "1000", f"readable and writable, as uid {owner} on the host")


def _was_reached(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        connection, _ = listener.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


def _is_other_namespace(kind: str, lines: list[str]) -> bool:
    inside = next((line for line in lines if line.startswith(f"{kind}:[")), "")
    return bool(inside) and inside != str(Path(f"/proc/self/ns/{kind}").readlink())


def _excess_privileges(lines: list[str]) -> list[str]:
    wanted = {"CapEff": 0, "CapPrm": 0, "CapBnd": 0, "CapAmb": 0, "NoNewPrivs": 1, "Seccomp": 2}
    found = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return [
        f"{key} {found.get(key, 'unknown')}"
        for key, value in wanted.items()
        if key not in found or int(found[key], 16) != value
    ]
