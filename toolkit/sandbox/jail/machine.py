"""What a machine must have for a jail, and what to change on one that refuses."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.files import is_full, room_in
from toolkit._base.words import safe_name
from toolkit.errors import UnconfinedError

INSTALL = {
    "bwrap": "apt install bubblewrap",
    "socat": "apt install socat",
    **dict.fromkeys(("chown", "env"), "apt install coreutils"),
}
IN_CONTAINER = (
    "Namespaces are refused, usually by the container around this process. Start that container with "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined (root also: --cap-add SYS_ADMIN)."
)


def find_program(name: str) -> str:
    """Return where a program the jail is built with is installed."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise UnconfinedError(
            f"refusing to start: {name} was not found on PATH",
            rules=("jail",),
            fix=f"Install it ({INSTALL.get(name, 'apt install util-linux')}), or see: toolkit sandbox check",
        )
    # Not resolved: one binary may be many programs, told apart by the name they are called by.
    return str(Path(found).absolute())


@contextlib.contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Let no OSError out of a block that writes there: what cannot be made or checked does not hold.

    Raises:
        UnconfinedError: in place of one; on a full disk also with how much room there is.
    """
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str | bytes) else str(folder)
        room = [room_in(folder)] if is_full(error) else []
        raise UnconfinedError(
            f"refusing to start: the jail cannot be made and checked: {error.strerror or error}",
            rules=("jail",),
            where=room or [safe_name(place)],
            fix="Make room there." if room else "Make it writable for this user, or name another place.",
        ) from error


def how_to_allow(stderr: str) -> str:
    """The exact change that lets this user make namespaces, by what the kernel is set to."""
    if sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor refuses user namespaces. Allow them for bwrap: put 'abi <abi/4.0>, include <tunables/global> "
            "profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }' into /etc/apparmor.d/bwrap and run "
            "'apparmor_parser -r /etc/apparmor.d/bwrap'; or for everyone: "
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if sysctl("kernel/unprivileged_userns_clone") == "0":
        return "The kernel refuses user namespaces. Run: sysctl -w kernel.unprivileged_userns_clone=1"
    if sysctl("user/max_user_namespaces") == "0":
        return "The kernel allows no user namespace. Run: sysctl -w user.max_user_namespaces=15000"
    if any(word in stderr for word in ("not permitted", "ermission denied", "No permissions")):
        return IN_CONTAINER
    return "Run the command by hand to see more: bwrap --unshare-all --ro-bind / / true"


def sysctl(name: str) -> str:
    """The kernel's setting, empty if it has none of that name."""
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
