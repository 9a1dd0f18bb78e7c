"""What a running jail uses at this moment: memory, processor time, and disk.

Everything is read from outside, in /proc and in its folders, and nothing in there
is trusted: a folder may be closed, moved or deeper than any path, and a file that
was removed takes its space as long as somebody holds it. Each answer about the
disk says whether all of it could be seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path

from toolkit._base.handles import READ_DIR, DirStack, open_folder
from toolkit._base.processes import all_pids, stat_fields

_PER_FILE = 1024
"""What a file takes besides its bytes, so that empty ones count as well."""
_MOST_HANDLES = 50_000
"""Looking at more takes too long; what is behind them counts as unseen."""
_BLOCK = 512
_PIDFD_GETFD = 438
"""A system call that Python has no name for; its number is the same on x86_64 and aarch64."""
_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_FILES = 2
_libc = ctypes.CDLL(None, use_errno=True)
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def measure_processes(roots: list[int]) -> tuple[set[int], int, int]:
    """These processes and all that came from them, with their memory in bytes and processor seconds."""
    parents: dict[int, int] = {}
    usage: dict[int, tuple[int, int]] = {}
    for pid in all_pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat_fields(pid)
            shared = int(_read(f"/proc/{pid}/statm").split()[2])
            parents[pid] = int(fields[1])
            ticks = sum(int(value) for value in fields[11:15])
            usage[pid] = (max(0, int(fields[21]) - shared) * _PAGE, ticks)
    wanted = set(roots)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    counted = [usage[pid] for pid in wanted if pid in usage]
    return wanted, sum(memory for memory, _ in counted), sum(ticks for _, ticks in counted) // _TICKS


def _read(file: str) -> bytes:
    """A file of /proc in one piece; this is done for every process, several times a second."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 4096)
    finally:
        os.close(handle)


def measure_tmpfs(pids: set[int]) -> int:
    """Bytes in the memory file systems these processes have mounted; no process is charged for them."""
    of_the_host = {device for device, _, _ in _mounts("self")}
    used: dict[str, int] = {}
    seen: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            namespace = Path(f"/proc/{pid}/ns/mnt").readlink()
            if namespace in seen:
                continue
            seen.add(namespace)
            for device, place, kind in _mounts(str(pid)):
                if kind == "tmpfs" and device not in of_the_host and device not in used:
                    with contextlib.suppress(OSError):
                        found = os.statvfs(f"/proc/{pid}/root{place}")
                        used[device] = (found.f_blocks - found.f_bfree) * found.f_frsize
                        used[device] += (found.f_files - found.f_ffree) * _PER_FILE
    return sum(used.values())


def _mounts(pid: str) -> list[tuple[str, str, str]]:
    """Device, place and kind of everything a process has mounted."""
    lines = Path("/proc", pid, "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    parts = [line.split(" ") for line in lines]
    return [(fields[2], fields[4], fields[fields.index("-") + 1]) for fields in parts]


def measure_folders(folders: list[Path], *, stop_at: int, changed_since: float = math.inf) -> tuple[int, bool]:
    """Bytes on disk below `folders`, and whether all of it could be seen. Stops once it is too much.

    A file that changed after `changed_since` counts with the bytes that it shows, if those are more: holes become
    bytes where it is kept or sent.
    """
    total, seen_all = 0, True
    for folder in folders:
        try:
            top = os.open(folder, READ_DIR)
        except FileNotFoundError:
            continue
        except OSError:
            seen_all = False
            continue
        used, complete = _measure_tree(DirStack(top), stop_at - total, changed_since)
        total, seen_all = total + used, seen_all and complete
    return total, seen_all


def _measure_tree(stack: DirStack, stop_at: int, changed_since: float) -> tuple[int, bool]:
    """The same for the open folder in `stack`, which is closed; an agent may move folders meanwhile."""
    complete = True
    try:
        total, inner = _measure_entries(stack.top, changed_since)
        levels = [inner]
        while levels and total <= stop_at:
            if not levels[-1]:
                levels.pop()
                if levels:
                    stack.pop()
                continue
            try:
                handle = open_folder(stack.top, levels[-1].pop())
            except OSError as error:
                complete &= error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
                continue
            found = os.fstat(handle)
            stack.push(handle, (found.st_dev, found.st_ino))
            used, inner = _measure_entries(handle, changed_since)
            total += used
            levels.append(inner)
    except OSError:  # it was moved while we stood in it
        return total, False
    finally:
        stack.close()
    return total, complete


def _measure_entries(folder: int, changed_since: float) -> tuple[int, list[str]]:
    """Bytes of what is directly in an open folder, and the names of the folders in it."""
    total, folders = 0, []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                total += found.st_blocks * _BLOCK + _PER_FILE
                if found.st_ctime > changed_since and stat.S_ISREG(found.st_mode):
                    total += max(0, found.st_size - found.st_blocks * _BLOCK)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    return total, folders


def measure_unlinked(pids: Iterable[int], folders: list[Path]) -> tuple[int, bool]:
    """Bytes of removed files on the disk of `folders` that these processes hold, and whether all could be seen.

    They hold a file by an open handle or by mapping it. A handle that is under way in a socket cannot be looked at.
    A file that is held through an overlay has the overlay's device; it takes its space below `folders` all the same.
    """
    devices = {folder.stat().st_dev for folder in folders if folder.exists()}
    files: dict[tuple[int, int], int] = {}
    overlays = _Overlays()

    def look_at_maps(pid: int) -> bool:
        devices.update(overlays.of(pid))
        seen_all = True
        for place in _unlinked_maps(pid, devices):
            seen_all &= _add_unlinked(files, devices, Path(f"/proc/{pid}/map_files/{place}").stat)
        return seen_all

    seen_all = _look_at_handles(pids, files, devices, look_at_maps)
    return sum(files.values()), seen_all


def measure_shared(pids: Iterable[int]) -> tuple[int, bool]:
    """Bytes of the memory that these processes share without a name, and whether all of it could be seen.

    Files in memory (memfd) that they hold by a handle, and what they have mapped of those, of shared memory and of
    segments (SysV). A handle under way in a socket cannot be looked at, and a segment nobody maps is not seen at all.
    """
    device = _shared_memory_device()
    files: dict[tuple[int, int], int] = {}
    mapped: dict[int, tuple[int, int]] = {}

    def look_at_maps(pid: int) -> bool:
        if shared := _shared_resident(pid):
            _add_mapped(mapped, pid, device, shared)
        return True

    seen_all = _look_at_handles(pids, files, {device}, look_at_maps)
    held = {inode for _, inode in files}
    return sum(files.values()) + sum(min(one) for inode, one in mapped.items() if inode not in held), seen_all


def shared_on_machine() -> int:
    """Bytes of shared memory on the whole machine, memory file systems included."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith(b"Shmem:"):
            return int(line.split()[1]) * 1024
    return 0


def _look_at_handles(
    pids: Iterable[int], files: dict[tuple[int, int], int], devices: set[int], look_at_maps: Callable[[int], bool]
) -> bool:
    """Add the removed files of these devices that the processes hold open; whether all could be looked at."""
    seen_all, left = True, _MOST_HANDLES
    for pid in chain.from_iterable(map(_holders, pids)):
        try:
            seen_all &= look_at_maps(pid)
            handles = _handles(pid)
            left -= len(handles)
            if left < 0:
                return False
            for number in handles:
                seen_all &= _add_unlinked(files, devices, partial(_stat_handle, pid, number), f"{pid}/fdinfo/{number}")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            seen_all = False
    return seen_all


@cache
def _shared_memory_device() -> int:
    """The device of memory that has no name in any folder; the kernel has one for all of it."""
    handle = os.memfd_create("toolkit", os.MFD_CLOEXEC)
    try:
        return os.fstat(handle).st_dev
    finally:
        os.close(handle)


def _shared_resident(pid: int) -> int:
    """Bytes of shared memory that a process has in its address space, with or without a name."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"RssShmem:"):
            return int(line.split()[1]) * 1024
    return 0


def _add_mapped(mapped: dict[int, tuple[int, int]], pid: int, device: int, shared: int) -> None:
    """Add what a process maps of this device: for each inode what is there in all that map it, and its size."""
    try:
        lines = Path(f"/proc/{pid}/smaps").read_bytes().splitlines()
    except PermissionError:
        mapped[-pid] = (shared, shared)  # one that cannot be dumped says only how much it is
        return
    inode = 0
    for line in lines:
        fields = line.split(maxsplit=5)
        if fields[0].endswith(b":"):
            if inode and fields[0] == b"Rss:":
                mapped[inode] = (mapped[inode][0] + int(fields[1]) * 1024, mapped[inode][1])
            continue
        major, minor = (int(number, 16) for number in fields[3].split(b":"))
        inode = int(fields[4]) if os.makedev(major, minor) == device else 0
        if inode:
            start, end = (int(number, 16) for number in fields[0].split(b"-"))
            there, size = mapped.get(inode, (0, 0))
            mapped[inode] = (there, max(size, int(fields[2], 16) + end - start))


class _Overlays:
    """The devices of the overlays that processes see and the host does not, for each mount namespace once."""

    def __init__(self) -> None:
        self._of_the_host = {device for device, _, _ in _mounts("self")}
        self._seen: set[Path] = set()

    def of(self, pid: int) -> set[int]:
        """Those that nobody before this process had. Raises OSError if its namespace cannot be looked at."""
        namespace = Path(f"/proc/{pid}/ns/mnt").readlink()
        if namespace in self._seen:
            return set()
        found = {device for device, _, kind in _mounts(str(pid)) if kind == "overlay"}
        self._seen.add(namespace)
        pairs = (device.split(":") for device in found - self._of_the_host)
        return {os.makedev(int(major), int(minor)) for major, minor in pairs}


def _holders(pid: int) -> Iterator[int]:
    """A process, and those of its threads that have handles of their own or outlive its first one."""
    yield pid
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except OSError:
        return  # it has ended
    for thread in threads:
        if thread != pid and not _share_handles(pid, thread):
            yield thread


def _share_handles(process: int, thread: int) -> bool:
    """Whether that is certain."""
    number = _KCMP.get(os.uname().machine)
    return number is not None and _libc.syscall(number, process, thread, _KCMP_FILES, 0, 0) == 0


def _handles(pid: int) -> list[str]:
    """The numbers of a process's handles."""
    try:
        return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except PermissionError:
        # A process that cannot be dumped has its handles shown to root only. The CLI's own sandbox starts such ones.
        return os.listdir(f"/proc/{pid}/fdinfo")  # noqa: PTH208


def _stat_handle(pid: int, number: str) -> os.stat_result:
    """What is behind a handle; of a process that hides its handles by a copy, which whoever made its jail may take."""
    try:
        return Path(f"/proc/{pid}/fd/{number}").stat()
    except PermissionError:
        process = _open_process(pid)
    try:
        copy = _libc.syscall(_PIDFD_GETFD, process, int(number), 0)
        if copy < 0:
            code = ctypes.get_errno()
            raise OSError(errno.ENOENT if code == errno.EBADF else code, os.strerror(code))
    finally:
        os.close(process)
    try:
        return os.fstat(copy)
    finally:
        os.close(copy)


def _open_process(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return os.pidfd_open(pid, os.O_EXCL)  # a thread


def _add_unlinked(
    files: dict[tuple[int, int], int], devices: set[int], look: Callable[[], os.stat_result], info: str | None = None
) -> bool:
    """Count a file once, if it was removed; False if it could not be looked at. `info` is below /proc."""
    try:
        found = look()
        if info is not None and stat.S_ISSOCK(found.st_mode):
            lines = _read(f"/proc/{info}").splitlines()
            return all(line.split()[1:] == [b"0"] for line in lines if line.startswith(b"scm_fds"))
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    if found.st_nlink == 0 and stat.S_ISREG(found.st_mode) and found.st_dev in devices:
        files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK + _PER_FILE
    return True


def _unlinked_maps(pid: int, devices: set[int]) -> list[str]:
    """The places in memory where a process maps removed files of these devices."""
    places = []
    for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
        if line.endswith(b" (deleted)"):
            place, _, _, device, _ = line.split(maxsplit=5)[:5]
            major, minor = (int(number, 16) for number in device.split(b":"))
            if os.makedev(major, minor) in devices:
                places.append(place.decode())
    return places
