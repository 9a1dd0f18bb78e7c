"""A jail uses no more of the machine than it may, and says what cannot be held here."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.jails import a_jail, inside, needs_jail, soon
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox import JailLimits, ShellOptions, limits, python_environment, run_confined
from toolkit.sandbox.jail import cgroup
from toolkit.sandbox.limits import plan_limits
from toolkit.sandbox.measure import measure_folders, measure_processes, measure_shared, measure_unlinked

_MIB = 1024 * 1024


# 500 MB in files that have no name any more; `hide` makes them harder to find.
# Much more than is allowed: what cannot be looked at is seen by what is free on the disk, which others change as well.
_HELD = """
import ctypes, mmap, os, socket, time
files = [open(str(i), "w+b") for i in range(20)]
for file in files:
    file.write(bytes(25_000_000))
    file.flush()
    os.unlink(file.name)
{hide}
time.sleep(150)
"""
_MAPPED = """
maps = [mmap.mmap(file.fileno(), 4096) for file in files]
for file in files:
    file.close()
"""
_UNDER_WAY = """
here, there = socket.socketpair()
for file in files:
    socket.send_fds(here, [b"x"], [file.fileno()])
    file.close()
"""
_NOT_TO_BE_LOOKED_AT = "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
# Files without a byte in them, in a file system of memory.
_EMPTY = """
import os, time
for i in range(250_000):
    os.mknod("/tmp/%d" % i)
time.sleep(60)
"""
# 500 MB of memory that no process is charged for; `hide` lets go of the handles.
_IN_MEMORY = """
import mmap, os, socket, time
files = [os.memfd_create("x") for _ in range(5)]
for file in files:
    os.truncate(file, 100_000_000)
    for _ in range(10):
        os.write(file, bytes(10_000_000))
{hide}
time.sleep(60)
"""
_MAPPED_IN_MEMORY = """
maps = [mmap.mmap(file, 100_000_000) for file in files]
for one, file in zip(maps, files):
    one.read()
    os.close(file)
"""
_UNDER_WAY_IN_MEMORY = """
here, there = socket.socketpair()
for file in files:
    socket.send_fds(here, [b"x"], [file])
    os.close(file)
"""
_SHARED = """
import mmap, time
shared = mmap.mmap(-1, 500_000_000)
for _ in range(50):
    shared.write(bytes(10_000_000))
time.sleep(60)
"""
_DEEP = """
import os, time
for _ in range(2_500):
    os.mkdir("d")
    os.chdir("d")
for i in range(20):
    with open(str(i), "wb") as file:
        file.write(bytes(10_000_000))
time.sleep(60)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "workspace"
    folder.mkdir()
    yield folder
    # Deeper than pytest could remove, or closed.
    subprocess.run(["chmod", "-R", "u+rwx", "--", folder], check=True)
    subprocess.run(["rm", "-rf", "--", folder], check=True)


@pytest.fixture
def no_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "make_cgroup", lambda name, memory_bytes: None)


@pytest.mark.parametrize(
    "values", [{"memory_bytes": 0}, {"processes": 15}, {"file_bytes": 1.5}, {"tmp_bytes": None}, {"cpu_seconds": True}]
)
def test_a_limit_that_is_no_count_is_refused_by_name(values: dict[str, object]) -> None:
    with pytest.raises(SandboxError) as caught:
        JailLimits(**values)  # type: ignore[arg-type]
    assert next(iter(values)) in caught.value.what


def test_a_limit_that_cannot_be_enforced_is_listed(no_cgroup: None) -> None:
    plan = plan_limits(JailLimits(cpu_seconds=5), name="x")

    assert plan.not_enforced == ("memory", "cpu")
    assert {limit.name: limit.by for limit in plan.held} == {
        "tmp": "tmpfs",
        "memory": "watchdog",
        "processes": "rlimit",
        "file": "rlimit",
        "workspace": "watchdog",
        "cpu": "rlimit and watchdog",
    }


def test_a_required_limit_that_cannot_be_enforced_is_a_refusal(no_cgroup: None, workspace: Path) -> None:
    with pytest.raises(UnconfinedError) as caught:
        run_confined(["true"], workspace, ShellOptions(require=("memory",)))

    assert caught.value.rules == ("limit: memory",)
    assert "would not hold" in caught.value.what


def test_requiring_what_is_no_limit_or_not_set_is_refused(workspace: Path) -> None:
    with pytest.raises(SandboxError, match="no limit called 'memry'"):
        plan_limits(JailLimits(), name="x", require=["memry"])
    for seconds, why in ((None, "no value is set for it"), (5, "processes that nobody waits for")):
        with pytest.raises(UnconfinedError) as caught:
            plan_limits(JailLimits(cpu_seconds=seconds), name="x", require=["cpu"])
        assert why in caught.value.where[0]
        assert "cgroup" not in str(caught.value.fix)  # none would help


@needs_jail
def test_files_processes_and_tmp_are_held_by_the_kernel(workspace: Path) -> None:
    small = JailLimits(processes=30, file_bytes=_MIB, tmp_bytes=2 * _MIB)
    count = "import os, time\nn = 0\ntry:\n  for n in range(60):\n    os.fork() or time.sleep(20)\nexcept OSError: print(n, flush=True)\nos._exit(0)"
    with a_jail(workspace, limits=small, readable=python_environment()) as jail:
        big = inside(jail, "head -c 3000000 /dev/zero > big; stat -c %s big")
        many = inside(jail, f"{sys.executable} -c '{count}'")
        full = inside(jail, "for i in 1 2 3 4; do head -c 900000 /dev/zero > /tmp/$i; done; du -sbx /tmp | cut -f1")

    assert int(big.stdout) == _MIB
    assert 10 < int(many.stdout) < 30, many
    assert int(full.stdout) <= 2 * _MIB + 4096


@needs_jail
def test_memory_is_held_where_a_control_group_can_be_made(workspace: Path) -> None:
    plan = plan_limits(JailLimits(memory_bytes=200 * _MIB), name="toolkit-jail-probe")
    if plan.cgroup is None:
        pytest.skip("no control group can be made here")
    plan.cgroup.remove()
    with a_jail(workspace, limits=JailLimits(memory_bytes=200 * _MIB), readable=python_environment()) as jail:
        done = inside(jail, f"{sys.executable} -c 'bytearray(400_000_000)'; echo $?")
        groups = jail.plan.cgroup.folders if jail.plan.cgroup else ()

    assert done.stdout.split()[-1:] == ["137"], done
    assert not any(group.exists() for group in groups)


@needs_jail
def test_a_command_that_the_kernel_ends_for_its_memory_is_told_as_ended_for_that(workspace: Path) -> None:
    small = ShellOptions(python_environment(), JailLimits(memory_bytes=100 * _MIB))
    use_up = f"{sys.executable} -c 'bytearray(400_000_000)'"
    done = run_confined(["/bin/bash", "-c", f"exec {use_up}"], workspace, small)
    if "memory" in done.not_enforced:
        pytest.skip("no control group can be made here")
    went_on = run_confined(["/bin/bash", "-c", f"{use_up}; true"], workspace, small)
    failed = run_confined(["/bin/bash", "-c", "kill -9 $$"], workspace, small)

    assert (done.exit_code, str(done.exceeded)) == (137, "the limit on memory was passed (105 MB of 105 MB)")
    assert (went_on.exit_code, went_on.exceeded) == (0, None)
    assert (failed.exit_code, failed.exceeded) == (137, None)


@pytest.mark.parametrize(
    ("files", "killed"),
    [
        ({"memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n"}, 2),
        ({"memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n"}, 0),
        (
            {
                "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
                "memory.max_usage_in_bytes": "104857600\n",
                "memory.limit_in_bytes": "104857600\n",
            },
            1,
        ),
        (
            {
                "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
                "memory.max_usage_in_bytes": "4096\n",
                "memory.limit_in_bytes": "104857600\n",
            },
            0,
        ),
        ({}, 0),
    ],
    ids=["version 2", "version 2, by the machine", "version 1", "version 1, by the machine", "gone"],
)
def test_a_control_group_tells_how_many_processes_its_limit_has_ended(
    tmp_path: Path, files: dict[str, str], killed: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")

    assert cgroup.Cgroup(folders=(tmp_path,)).killed() == killed


@needs_jail
@pytest.mark.parametrize(
    ("limit", "command"),
    [
        ("memory", f"{sys.executable} -c 'x = bytearray(400_000_000); import time; time.sleep(60)'"),
        ("memory", "for i in $(seq 20); do head -c 20000000 /dev/zero > /dev/shm/$i; done; sleep 60"),
        ("memory", f"{sys.executable} -c '{_EMPTY}'"),
        ("memory", f"{sys.executable} -c '{_IN_MEMORY.format(hide='')}'"),
        ("memory", f"{sys.executable} -c '{_IN_MEMORY.format(hide=_MAPPED_IN_MEMORY)}'"),
        ("memory", f"{sys.executable} -c '{_IN_MEMORY.format(hide=_UNDER_WAY_IN_MEMORY)}'"),
        ("memory", f"{sys.executable} -c '{_SHARED}'"),
        ("workspace", "for i in $(seq 20); do head -c 10000000 /dev/zero > $i; done; sleep 60"),
        (
            "workspace",
            "mkdir -p d/e; cd d/e; chmod 0 ..; for i in $(seq 20); do head -c 9000000 /dev/zero > $i; done; sleep 60",
        ),
        ("workspace", f"{sys.executable} -c '{_HELD.format(hide='')}'"),
        ("workspace", f"{sys.executable} -c '{_HELD.format(hide=_MAPPED)}'"),
        ("workspace", f"{sys.executable} -c '{_HELD.format(hide=_UNDER_WAY)}'"),
        ("workspace", f"{sys.executable} -c '{_HELD.format(hide=_NOT_TO_BE_LOOKED_AT)}'"),
        ("workspace", f"{sys.executable} -c '{_DEEP}'"),
        ("workspace", "for i in $(seq 20); do truncate -s 10000000 $i; done; sleep 60"),
        ("cpu", "for i in 1 2 3; do sh -c 'while :; do :; done' & done; wait"),
    ],
    ids=[
        "memory of a process",
        "memory as files",
        "memory as empty files",
        "memory as files without a name",
        "memory as mapped files without a name",
        "memory as files in a socket",
        "memory of several processes",
        "many files",
        "in a closed folder",
        "removed files",
        "removed and mapped files",
        "removed files in a socket",
        "removed files of a process that hides",
        "far below any path",
        "files with holes",
        "many busy processes",
    ],
)
def test_the_watchdog_ends_what_the_kernel_cannot_hold(
    no_cgroup: None, workspace: Path, limit: str, command: str
) -> None:
    seconds = 2 if limit == "cpu" else 60  # on a busy machine the others take some, too
    small = JailLimits(memory_bytes=150 * _MIB, workspace_bytes=100 * _MIB, cpu_seconds=seconds, tmp_bytes=500 * _MIB)
    if "shm" in command:
        # /dev/shm is small; a memory file system of its own is not.
        command = f"unshare -Urm sh -c 'mount -t tmpfs none /dev/shm; {command}'"

    done = run_confined(["/bin/bash", "-c", command], workspace, ShellOptions(python_environment(), small, seconds=120))

    assert done.exceeded is not None
    assert done.exceeded.limit == limit
    assert done.exceeded.used > done.exceeded.allowed
    assert done.exit_code != 0


def test_folders_are_measured_by_what_they_take_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "full").write_bytes(b"x" * 200_000)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(50_000_000)

    used, seen_all = measure_folders([tmp_path], stop_at=10**9)

    assert 200_000 <= used < 1_000_000
    assert seen_all
    # Files with holes that an agent made are bytes wherever they are kept: any number of them would cost it nothing.
    began = (tmp_path / "sparse").stat().st_ctime
    assert measure_folders([tmp_path], stop_at=10**9, changed_since=began) == (used, True)
    assert measure_folders([tmp_path], stop_at=10**9, changed_since=began - 1)[0] >= 50_200_000


def test_removed_files_are_measured_as_long_as_they_are_held(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(3_000_000))
        file.flush()
        named = measure_unlinked([os.getpid()], [tmp_path])
        (tmp_path / "file").unlink()
        twice = os.dup(file.fileno())
        removed = measure_unlinked([os.getpid()], [tmp_path])
        os.close(twice)

    assert removed[0] - named[0] == pytest.approx(3_000_000, abs=100_000)


def test_memory_that_is_shared_counts_once(tmp_path: Path) -> None:
    before = measure_shared([os.getpid()])
    file = os.memfd_create("x")
    try:
        os.write(file, bytes(20_000_000))
        with mmap.mmap(file, 20_000_000), mmap.mmap(-1, 10_000_000) as anonymous:
            anonymous.write(bytes(10_000_000))
            pid = os.fork()
            if pid == 0:
                signal.pause()
            both = measure_shared([os.getpid(), pid])
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    finally:
        os.close(file)
    after = measure_shared([os.getpid()])

    assert both[0] - before[0] == pytest.approx(30_000_000, abs=1_000_000)
    assert both[1]
    assert after[0] == pytest.approx(before[0], abs=1_000_000)


@needs_jail
def test_a_process_that_hides_its_handles_is_looked_at_like_any_other(workspace: Path) -> None:
    program = _HELD.format(hide=f"{_NOT_TO_BE_LOOKED_AT}\nprint(1, flush=True)")
    with (
        a_jail(workspace, readable=python_environment()) as jail,
        subprocess.Popen([jail.script, sys.executable, "-c", program], stdout=subprocess.PIPE) as running,
    ):
        assert running.stdout is not None
        assert running.stdout.readline() == b"1\n"
        removed, seen_all = measure_unlinked(measure_processes([running.pid])[0], [workspace])
        jail.folder.kill()

    assert removed >= 200_000_000
    assert seen_all


def test_systemd_gives_a_scope_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "systemd-run"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n', encoding="ascii")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(cgroup, "_parents", lambda: [])
    monkeypatch.setattr(cgroup, "_SYSTEMD", tmp_path)

    plan = plan_limits(JailLimits(memory_bytes=64 * _MIB), name="x", require=["memory"])

    assert plan.cgroup is not None
    assert plan.cgroup.prefix[0] == str(fake)
    assert f"MemoryMax={64 * _MIB}" in plan.cgroup.prefix
    fake.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    assert plan_limits(JailLimits(), name="x").not_enforced == ("memory",)


_OWN_HANDLES = """
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
def hold():
    assert libc.unshare(0x400) == 0  # handles of its own
    held = os.open("held", os.O_RDWR | os.O_CREAT)
    os.unlink("held")
    os.write(held, bytes(3_000_000))
    print(1, flush=True)
    time.sleep(60)
threading.Thread(target=hold, daemon=True).start()
{then}
"""


@pytest.mark.parametrize("then", ["time.sleep(60)", "libc.syscall(60, 0)"], ids=["beside the first", "after the first"])
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of exit")
def test_what_a_thread_holds_by_itself_is_measured(tmp_path: Path, then: str) -> None:
    program = [sys.executable, "-c", _OWN_HANDLES.format(then=then)]
    with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"1\n"
        assert soon(lambda: measure_unlinked([running.pid], [tmp_path])[0] >= 3_000_000)
        running.kill()
