"""The system calls nothing in the jail may make, as a filter for bubblewrap's --seccomp.

Namespaces do not cover the kernel keyring a process inherits, io_uring steps
around the filters of the sandbox nested in the jail, and a program that shares
a terminal can type into it. None of these is needed to build, test or edit, so
they answer "not implemented" or "not permitted". Everything else passes.
"""

from __future__ import annotations

import errno
import platform
import struct

from toolkit.errors import SandboxError

_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NR, _ARCH, _SECOND_ARGUMENT = 0, 4, 24  # offsets in struct seccomp_data (little endian)
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000

# name: (x86_64, aarch64)
_ABSENT = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_REFUSED = {
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
}
_IOCTL = (16, 29)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def seccomp_filter(machine: str | None = None) -> bytes:
    """Return the compiled filter for this machine.

    Raises:
        SandboxError: the numbers of the system calls on this machine are not known here.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise SandboxError(
            f"the jail has no system call filter for a {machine} machine",
            fix="Run it on x86_64 or aarch64.",
        )
    column, arch = _MACHINES[machine]
    absent = [numbers[column] for numbers in _ABSENT.values()]
    refused = [numbers[column] for numbers in _REFUSED.values()]

    # A foreign ABI (32 bit, x32) has other numbers for the same calls, so all of it is absent.
    rules: list[tuple[int, int, str, str]] = [(_JUMP_EQ, arch, "", "absent"), (_LOAD, _NR, "", "")]
    if machine == "x86_64":
        rules.append((_JUMP_GE, _X32, "absent", ""))
    rules += [(_JUMP_EQ, number, "absent", "") for number in absent]
    rules += [(_JUMP_EQ, number, "refused", "") for number in refused]
    rules += [
        (_JUMP_EQ, _IOCTL[column], "", "allow"),
        (_LOAD, _SECOND_ARGUMENT, "", ""),
        (_JUMP_EQ, _TIOCSTI, "refused", ""),
        (_JUMP_EQ, _TIOCLINUX, "refused", "allow"),
    ]
    return _assemble([(_LOAD, _ARCH, "", ""), *rules])


def _assemble(rules: list[tuple[int, int, str, str]]) -> bytes:
    """Turn rules with named targets into BPF: the three endings stand after the last rule."""
    endings = {"allow": _ALLOW, "absent": _ERRNO | errno.ENOSYS, "refused": _ERRNO | errno.EPERM}
    place = {name: len(rules) + offset for offset, name in enumerate(endings)}

    def distance(here: int, target: str) -> int:
        return place[target] - here - 1 if target else 0

    program = [
        struct.pack("<HBBI", code, distance(here, yes), distance(here, no), value)
        for here, (code, value, yes, no) in enumerate(rules)
    ]
    program += [struct.pack("<HBBI", _RETURN, 0, 0, value) for value in endings.values()]
    return b"".join(program)
