"""Hold a file as long as this process lives.

The locks are the kernel's: a process that dies lets go of them, so a lock that is
not held proves that its owner is gone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Lock:
    """A file that is held; closing it, in any way, lets go."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle
        """The open file, -1 once it was let go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let go of the file; once is enough, twice does no harm."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def take_lock(
    file: Path | str,
    *,
    folder: int | None = None,
    shared: bool = False,
    wait: bool = False,
    create: bool = True,
) -> Lock | None:
    """Hold a file, or None while somebody else holds it. With `wait` it is waited for.

    Args:
        file: The file; a link is refused.
        folder: An open folder that `file` is a name in.
        shared: Hold it together with others who do the same.
        create: Make the file (readable by its owner only) where there is none.

    Raises:
        FileNotFoundError: there is no such file, and `create` is off.
    """
    access = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
    handle = os.open(file, access | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        if hold(handle, shared=shared, wait=wait):
            return Lock(handle)
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def hold(handle: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Hold an open file until its last handle is closed; False while somebody else holds it."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
