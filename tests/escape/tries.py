"""Ways out that need more than a shell; copied into the workspace and run there by the agent.

Each prints what it got, or ends with 0 only if it got its way.
"""

import ctypes
import mmap
import os
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path

_X86 = platform.machine() == "x86_64"
_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(x86: int, arm: int, *arguments: object) -> int:
    return int(_LIBC.syscall(x86 if _X86 else arm, *arguments))


def keyring() -> int:
    found = _call(249, 218, b"user", b"escape", None, 0)
    text = ctypes.create_string_buffer(200)
    if found < 0 or _call(250, 219, 11, found, text, 200) < 0:
        return 1
    print(text.value.decode())
    return 0


def handle() -> int:
    # The root of most file systems; only the right to ask matters here.
    raw = (ctypes.c_byte * 16).from_buffer_copy(
        (8).to_bytes(4, "little") + (1).to_bytes(4, "little") + (2).to_bytes(8, "little")
    )
    return 0 if _call(304, 265, os.open("/", os.O_RDONLY), raw, os.O_RDONLY) >= 0 else 1


def chroot(secret: str) -> int:
    Path("c").mkdir(exist_ok=True)
    top = os.open("/", os.O_RDONLY)
    os.chroot("c")
    os.fchdir(top)
    for _ in range(40):
        os.chdir("..")
    os.chroot(".")
    print(Path(secret).read_text(encoding="ascii"))
    return 0


def io_uring() -> int:
    return 0 if _call(425, 425, 4, (ctypes.c_byte * 256)()) >= 0 else 1


def bpf() -> int:
    attributes = (ctypes.c_byte * 128)()
    got = [_call(321, 280, 0, attributes, 128), _call(298, 241, attributes, 0, -1, -1, 0), _call(323, 282, 0)]
    return 0 if max(got) >= 0 else 1


def module() -> int:
    return 0 if _call(175, 105, b"", 0, b"") >= 0 or ctypes.get_errno() not in (1, 38) else 1


def ptrace(pid: str) -> int:
    attached = _LIBC.ptrace(16, int(pid), None, None)
    if attached == 0:
        os.waitpid(int(pid), 0x40000000)
        _LIBC.ptrace(17, int(pid), None, None)
    return 0 if attached == 0 else 1


def http(host: str, port: str, path: str) -> int:
    with socket.create_connection((host, int(port)), timeout=3) as connection:
        connection.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
        print(connection.recv(4096).decode())
    return 0


def udp(host: str, port: str, text: str) -> int:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(text.encode(), (host, int(port)))
    return 0


def unix(path: str, text: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(3)
        connection.connect(path)
        connection.sendall(text.encode())
        print(connection.recv(4096).decode())
    return 0


def abstract(name: str, text: str) -> int:
    return unix("\0" + name, text)


def family(*wanted: str) -> int:
    """0 if a socket of one of these families (and protocols) can be opened, also in a namespace of its own."""
    for words in wanted:
        number, protocol = (*map(int, words.split()), 0)[:2]
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            if _call(41, 198, number, kind, protocol) >= 0:
                return 0
    return 1


def foreign() -> int:
    """socket(AF_VSOCK, SOCK_STREAM, 0) by its 32-bit and its x32 number."""
    if not _X86:
        return 1
    if _call(0x40000000 + 41, 0, 40, 1, 0) >= 0:
        return 0
    code = bytes.fromhex("53b867010000bb28000000b90100000031d2cd805bc3")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return 0 if ctypes.CFUNCTYPE(ctypes.c_int)(start)() >= 0 else 1


def daemon(marker: str) -> int:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)", marker])
        os._exit(0)
    os.wait()
    return 0


def forks(wanted: str) -> int:
    children = []
    try:
        for _ in range(int(wanted)):
            children.append(subprocess.Popen(["sleep", "60"]))
    except OSError:
        pass
    for child in children:
        child.kill()
    print(len(children), "children")
    return 0 if len(children) == int(wanted) else 1


def memory(megabytes: str) -> int:
    held = []
    for _ in range(int(megabytes) // 50):
        held.append(bytearray(os.urandom(1) * 50_000_000))
    time.sleep(1.5)  # a watchdog needs a moment to see it
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
