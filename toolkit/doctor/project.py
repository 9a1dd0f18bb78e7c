"""What an agent would have in a project: the usual programs, each started once in the jail of a run."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit._base.words import safe_line
from toolkit.doctor.finding import Finding
from toolkit.errors import SandboxError
from toolkit.sandbox import ShellOptions, run_confined

if TYPE_CHECKING:
    from toolkit.runs import RunPlan

_LONGEST_LOOK = 60.0
_PROGRAMS = {
    "python": ("python python3", "Make an environment in the project: python3 -m venv .venv"),
    "pytest": ("pytest", "Install it into the project's environment: .venv/bin/python -m pip install pytest"),
    "node": ("node", "Install node for all users, or with nvm; it is lent to projects with a package.json"),
    "git": ("git", "Install it for all users: apt install git"),
    "compiler": ("cc gcc clang", "Install one for all users: apt install build-essential"),
}
"""Programs that an agent often wants: the names it may have, and what to do where there is none."""
_LOOK = r"""
look() {
    local name=$1 path= said=; shift
    for one; do path=$(type -P "$one") && break; done
    [[ -n $path ]] && { said=$(timeout 20 "$path" --version 2>&1 < /dev/null); code=$?; } || code=
    [[ $code == 0 ]] && said=${said%%$'\n'*} || said=${said##*$'\n'}  # what went wrong is said last
    printf '%s\t%s\t%s\t%s\n' "$name" "$path" "$code" "${said//$'\t'/ }" >> found
}"""


def examine_project(plan: RunPlan) -> Iterator[Finding]:
    """Start the usual programs in a jail with what a run would be lent, and say which are there.

    None of them stops a run; never raises for what it finds.
    """
    known = {row["inside"]: row["what"] for row in plan.lent}
    with tempfile.TemporaryDirectory(prefix="toolkit-doctor-") as folder:
        try:
            options = ShellOptions(lent=plan.layout.lent, seconds=_LONGEST_LOOK)
            run_confined(["/bin/bash", "-c", _look(plan)], folder, options)
            rows = [line.split("\t") for line in (Path(folder) / "found").read_text(errors="replace").splitlines()]
        except (OSError, SandboxError) as error:
            what = error.what if isinstance(error, SandboxError) else str(error)
            yield Finding("the agent's tools", False, f"could not be looked at: {what}", stops=False)
            return
    found = {row[0]: row[1:] for row in rows if len(row) == 4}
    for name, (_, fix) in _PROGRAMS.items():
        path, code, version = found.get(name, ("", "", ""))
        if not path:
            yield Finding(f"agent's {name}", False, "none" if name in found else "not looked at", fix, stops=False)
            continue
        at = f"{safe_line(path, 200)} ({_origin(path, known)})"
        if code == "0":
            yield Finding(f"agent's {name}", True, f"{safe_line(version, 80)} at {at}", stops=False)
        else:
            yield Finding(f"agent's {name}", False, f"{at} does not start: {safe_line(version, 80)}", fix, stops=False)
    history = "git shows that of your repository" if plan.has_git else "none: the folder is no git repository"
    yield Finding("agent's history", True, history, stops=False)


def _look(plan: RunPlan) -> str:
    """A script that starts each program and writes down what it said."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    lines += [f"export PATH={shlex.quote(':'.join(plan.path))}", _LOOK]
    lines += [f"look {shlex.quote(name)} {words}" for name, (words, _) in _PROGRAMS.items()]
    return "\n".join(lines)


def _origin(path: str, known: dict[str, str]) -> str:
    """Whose program it is."""
    above = (str(one) for one in Path(path).parents)
    return next((known[one] for one in above if one in known), "the system's")
