"""How much of the machine a jail may use, and what really holds it to that.

Every limit that is asked for ends up in one of three places: the kernel refuses
the next byte or process; a watchdog looks often and ends the jail; or nothing
on this machine can hold it, and that is said instead of hidden.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from toolkit._base.words import did_you_mean
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.jail.cgroup import Cgroup, make_cgroup

_MIB = 1024 * 1024
_GIB = 1024 * _MIB
SHM_BYTES = 64 * _MIB
# Below these not even the check can run inside.
_LEAST = {"memory_bytes": 64 * _MIB, "processes": 16, "file_bytes": 65_536, "tmp_bytes": 65_536}
_MOST = 2**63 - 1
"""The kernel counts no further."""


@dataclass(frozen=True, slots=True)
class JailLimits:
    """The most a jail may use; None leaves that one open."""

    memory_bytes: int | None = 4 * _GIB
    """Memory of all its processes together, tmpfs included."""
    processes: int | None = 512
    """Processes and threads alive at once. The CLI itself needs about 40."""
    file_bytes: int | None = _GIB
    """The largest single file."""
    workspace_bytes: int | None = 4 * _GIB
    """The workspace and the jail's home together."""
    tmp_bytes: int = 512 * _MIB
    """Size of /tmp, which is memory."""
    cpu_seconds: int | None = None
    """Processor time of all its processes together."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), _LEAST.get(field.name, 1)
            if value is None and field.name != "tmp_bytes":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                unit = {"processes": "processes", "cpu_seconds": "seconds"}.get(field.name, "bytes")
                raise SandboxError(
                    f"limit {field.name}={value!r} is not a whole number of {unit}, {least} or more",
                    fix=f"Write for example: {field.name}={field.default or 600}",
                )
            if value > _MOST:
                fix = f"Write at most {_MOST}" + ("" if field.name == "tmp_bytes" else ", or None for no limit")
                raise SandboxError(f"limit {field.name} is larger than the kernel can count", fix=fix)


_FIX = "Run where cgroup v2 is delegated (systemd user session, or as root), or do not require it."
_CPU_FIX = "Do not require it: a limit on seconds bounds it, too."


@dataclass(frozen=True, slots=True)
class HeldLimit:
    """One limit, and what holds it on this machine."""

    name: str
    """memory, processes, file, workspace, tmp or cpu."""
    value: int
    by: str
    """What holds it: cgroup, systemd, rlimit, tmpfs or watchdog."""
    enforced: bool
    """False where only a fallback is left that a quick program can outrun."""


@dataclass(frozen=True, slots=True)
class LimitPlan:
    """What a launcher does for its limits, and what it can say about them."""

    held: tuple[HeldLimit, ...]
    cgroup: Cgroup | None
    rlimits: tuple[str, ...]
    """Arguments for prlimit, set inside the jail: only there do processes count per jail."""

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """Names of the limits this machine cannot hold firmly."""
        return tuple(limit.name for limit in self.held if not limit.enforced)


def jail_limits(given: object) -> JailLimits:
    """The limits of a jail: as they are, from a mapping with the same names, or the usual ones for None.

    Raises:
        SandboxError: it is neither, or names a limit that a jail does not have.
    """
    if given is None or isinstance(given, JailLimits):
        return given or JailLimits()
    if not isinstance(given, Mapping):
        fix = "Write for example: limits=JailLimits(memory_bytes=2 * 1024**3). Time and money are limits of a run"
        raise SandboxError(f"limits is JailLimits(…), not {type(given).__name__}(…)", fix=fix)
    known = [field.name for field in fields(JailLimits)]
    for name in given:
        if name not in known:
            raise SandboxError(f"limits: a jail has no limit '{name}'{did_you_mean(str(name), known)}")
    return JailLimits(**given)


def limit_names() -> tuple[str, ...]:
    """The names that `require` and reports use."""
    return tuple(field.name.rpartition("_")[0] or field.name for field in fields(JailLimits))


def known_limits(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, if every one is a limit."""
    for name in names:
        if name not in limit_names():
            raise SandboxError(f"there is no limit called '{name}'", fix=f"The limits are: {', '.join(limit_names())}.")
    return tuple(names)


def plan_limits(limits: JailLimits, *, name: str, require: Sequence[str] = ()) -> LimitPlan:
    """Decide how each limit is held here; `name` becomes the name of a control group.

    Raises:
        SandboxError: `require` names a limit that does not exist or is not set.
        UnconfinedError: a required limit cannot be enforced on this machine.
    """
    known_limits(require)
    cgroup = make_cgroup(name, limits.memory_bytes) if limits.memory_bytes is not None else None
    plan = LimitPlan(held=_held(limits, cgroup), cgroup=cgroup, rlimits=_rlimits(limits))
    firm = {limit.name for limit in plan.held if limit.enforced}
    lost = [wanted for wanted in require if wanted not in firm]
    if lost:
        if cgroup is not None:
            cgroup.remove()
        raise UnconfinedError(
            f"refusing to start: the limit on {' and '.join(lost)} would not hold",
            rules=tuple(f"limit: {wanted}" for wanted in lost),
            where=[_why_not(wanted, limits) for wanted in lost],
            fix=_CPU_FIX if lost == ["cpu"] else _FIX,
        )
    return plan


def _held(limits: JailLimits, cgroup: Cgroup | None) -> tuple[HeldLimit, ...]:
    by = "watchdog" if cgroup is None else "systemd" if cgroup.prefix else "cgroup"
    rows = (
        ("tmp", limits.tmp_bytes, "tmpfs", True),
        ("memory", limits.memory_bytes, by, cgroup is not None),
        ("processes", limits.processes, "rlimit", True),
        ("file", limits.file_bytes, "rlimit", True),
        ("workspace", limits.workspace_bytes, "watchdog", True),
        ("cpu", limits.cpu_seconds, "rlimit and watchdog", False),  # what is waited for by nobody is not seen
    )
    return tuple(HeldLimit(name, value, by, enforced) for name, value, by, enforced in rows if value is not None)


def _rlimits(limits: JailLimits) -> tuple[str, ...]:
    wanted = {
        "nproc": (resource.RLIMIT_NPROC, limits.processes),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "cpu": (resource.RLIMIT_CPU, limits.cpu_seconds),
    }
    arguments = ["--core=0"]
    for name, (kind, value) in wanted.items():
        if value is not None:
            _, hard = resource.getrlimit(kind)
            arguments.append(f"--{name}={value if hard == resource.RLIM_INFINITY else min(value, hard)}")
    return tuple(arguments)


def _why_not(name: str, limits: JailLimits) -> str:
    if name not in {limit.name for limit in _held(limits, None)}:
        return f"{name}: no value is set for it"
    if name == "cpu":
        return "cpu: it is watched, and the time of processes that nobody waits for is not seen"
    return f"{name}: no control group can be made by uid {os.geteuid()} on this machine"
