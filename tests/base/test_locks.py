"""A lock is held as long as its process lives, and not a moment longer."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit._base.locks import hold, take_lock

HOLDER = """
import sys, time
from toolkit._base.locks import take_lock
lock = take_lock(sys.argv[1], shared=sys.argv[2] == "shared")
print("held" if lock else "not held", flush=True)
time.sleep(60)
"""


@contextmanager
def held_elsewhere(file: Path, kind: str = "alone") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the file; killed at the end of the block, at the latest."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(file), kind], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_lock_that_another_process_holds_is_not_taken_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with held_elsewhere(file) as holder:
        assert take_lock(file) is None
        assert take_lock(file, shared=True) is None
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        lock = take_lock(file)
        assert lock is not None
        lock.release()


def test_a_shared_lock_keeps_out_only_who_wants_it_alone(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with held_elsewhere(file, "shared"):
        assert take_lock(file) is None
        together = take_lock(file, shared=True)
        assert together is not None
        together.release()


def test_a_lock_is_let_go_at_the_end_of_its_block_and_twice_does_no_harm(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    with lock:
        assert take_lock(tmp_path / "lock") is None
    lock.release()
    assert lock.handle == -1
    again = take_lock(tmp_path / "lock")
    assert again is not None
    again.release()


def test_a_program_that_was_started_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.release()
        again = take_lock(tmp_path / "lock")
        child.kill()
    assert again is not None
    again.release()


def test_who_waits_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    got = threading.Event()

    def wait() -> None:
        lock = take_lock(file, wait=True)
        assert lock is not None
        got.set()
        lock.release()

    with held_elsewhere(file):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.wait(0.05)
    assert got.wait(60)
    waiting.join(60)


def test_a_link_in_place_of_the_lock_is_refused_and_a_missing_one_is_made_only_if_wanted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("outside")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is the claim
        take_lock(tmp_path / "link")
    assert caught.value.errno == errno.ELOOP
    with pytest.raises(FileNotFoundError):
        take_lock(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    lock = take_lock(tmp_path / "none")
    assert lock is not None
    assert (tmp_path / "none").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_a_lock_can_be_taken_by_its_name_in_an_open_folder(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    lock = take_lock("lock", folder=folder)
    other = os.open("lock", os.O_RDWR, dir_fd=folder)
    assert not hold(other)
    assert lock is not None
    lock.release()
    assert hold(other)
    os.close(other)
    os.close(folder)
