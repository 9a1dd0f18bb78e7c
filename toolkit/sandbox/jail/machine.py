"""What a machine must have for a jail, and what to change on one that refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

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
