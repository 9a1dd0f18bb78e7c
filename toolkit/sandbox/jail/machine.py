"""What to change on a machine that refuses namespaces."""

from __future__ import annotations

from pathlib import Path

IN_CONTAINER = (
    "Namespaces are refused, usually by the container around this process. Start that container with "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined (root also: --cap-add SYS_ADMIN)."
)


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
