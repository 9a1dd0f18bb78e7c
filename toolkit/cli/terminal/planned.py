"""The plan of a run as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolkit._base.words import count_text, duration_text, safe_name, safe_text, size_text
from toolkit.cli.terminal.display import lent_lines

if TYPE_CHECKING:
    from toolkit.runs import RunPlan

_NO_COPY = {
    "empty": "nothing: the agent begins in an empty folder",
    "in place": "nothing: the agent changes this folder of the host itself, and nothing can be undone",
    "copy": "nothing more: the copy is there already",
}


def plan_lines(plan: RunPlan) -> list[str]:
    """All of it, a line for each thing."""
    lines = [f"starts in  {plan.start}", *_copied(plan), *_setup(plan), *lent_lines({"lent": plan.lent})]
    lines += [f"readable   {path}" for path in plan.readable]
    lines += [f"PATH       {':'.join(plan.path)}"]
    lines += [f"variable   {name}={value}" for name, value in plan.environment.items()]
    lines += [f"variable   {name}: as you gave it" for name in plan.variables]
    lines += [f"tools      {name}" for name in plan.tools]
    lines += [f"server     {name}, inside the jail" for name in plan.servers]
    lines += [f"network    {_network(plan)}", f"mode       {plan.mode}, profile {plan.profile}", *_limits(plan)]
    lines += _job(plan)
    lines += [f"warning    {what}" for what in plan.warnings()]
    return [safe_text(line).replace("\n", " ") for line in lines]


def _copied(plan: RunPlan) -> Iterator[str]:
    if plan.copied is None:
        yield f"copies     {_NO_COPY[plan.works_in]}"
        return
    for mount in plan.copied.mounts:
        size = f"{count_text(mount.files, 'file')}, {size_text(mount.size)}"
        at = safe_name(plan.place_of(mount.mount_path))
        yield f"copies     {safe_name(mount.host_path)}: {size}, which the agent finds at {at}"
        for line in mount.left_lines(most=12):
            yield f"             {line}"
    if plan.backend is not None:
        used, why = plan.backend
        yield f"files      {'an overlay' if used == 'overlay' else 'a copy of their own'}{f': {why}' if why else ''}"


def _setup(plan: RunPlan) -> Iterator[str]:
    if plan.setup is None:
        return
    setup = plan.setup
    yield f"setup      {setup.command}"
    if setup.layer is not None:
        yield f"             does not run: its layer {setup.layer.short} is there, {size_text(setup.layer.size)}"
    else:
        reaches = f"reaches {', '.join(setup.domains)}" if setup.domains else "reaches nothing"
        limit = duration_text(setup.deadline * 1000)
        yield f"             would run first, for {limit} at most, and {reaches}: no layer {setup.key[:12]} is there"
    inputs = ", ".join(map(safe_name, setup.inputs)) or "no file: no lock file was found"
    yield f"             depends on {inputs}"


def _job(plan: RunPlan) -> Iterator[str]:
    """What the launcher would do itself."""
    if plan.verify is not None:
        times, most = plan.verify.attempts, duration_text(round(plan.verify.deadline * 1000))
        yield f"verify     {plan.verify.name}, up to {count_text(times, 'time')}, for {most} at most each"
    yield from (f"protected  {path}" for path in plan.protect)
    if plan.retry is not None:
        yield f"retry      up to {count_text(plan.retry.times, 'time')}, after {', '.join(plan.retry.on)}"
    if plan.branch is not None:
        so = "verified" if plan.verify is not None else "ok"
        yield f"branch     {safe_name(plan.branch)}, made at the end if it is {so}"


def _network(plan: RunPlan) -> str:
    commands = f"commands reach {', '.join(plan.domains)}" if plan.domains else "commands reach nothing"
    return f"{commands}; the CLI reaches the model API at {plan.api_host}"


def _limits(plan: RunPlan) -> Iterator[str]:
    for name, value in plan.limits.items():
        yield f"limit      {name} {size_text(int(value)) if name.endswith('_bytes') else format(value, 'g')}"
