"""Look at projects and say which of the owner's installations are lent, and what PATH the agent gets.

Nothing is executed to find out. Only what is recognised as an installation is lent:
a virtual environment with the Python it stands on, a node_modules folder with the
node that runs it. What lies in /usr is shown in every jail anyway.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.sandbox.lending.installation import Lent, is_shown_anyway, lend, node_prefix
from toolkit.sandbox.lending.python import interpreter_of, interpreter_on_path, is_conda, is_installed, virtualenv_of

_NODE_MARKS = ("package.json", "node_modules")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What is lent for a run, and the variables that make programs find it."""

    lent: tuple[Lent, ...] = ()
    path: tuple[str, ...] = ()
    """Folders to put before the system's on PATH; each is lent, so none can be changed by the agent."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def inside(self, folder: Path) -> tuple[str, ...]:
        """The lent folders that lie in a project, relative to it."""
        places = [Path(one.inside) for one in self.lent]
        return tuple(dict.fromkeys(str(p.relative_to(folder)) for p in places if folder in p.parents))


def find_toolchain(
    projects: Sequence[Path],
    environ: Mapping[str, str] | None = None,
    *,
    covered: Mapping[Path, Path] | None = None,
    bare: bool = False,
) -> Toolchain:
    """The owner's tools for these projects, first come first on PATH.

    Args:
        projects: Folders of the host, as the user wrote them, made absolute.
        environ: The caller's variables; those of this process if not given.
        covered: Folders in the projects that something else is shown over, and what that is: they are not lent.
        bare: Leave out every virtual environment and node_modules, and lend only what runs them.
    """
    covered = covered or {}
    others = {project for project in projects for place in covered if place.parent == project}
    has_python = {one for one in others if any(is_installed(host) for at, host in covered.items() if at.parent == one)}
    environ = os.environ if environ is None else environ
    lent: list[Lent] = []
    path: list[str] = []
    variables: dict[str, str] = {}
    for project in projects:
        if project in has_python:
            continue
        environment = None if bare else virtualenv_of(project, environ)
        if environment is not None:
            name = "CONDA_PREFIX" if is_conda(environment) else "VIRTUAL_ENV"
            lent += lend(environment, "conda environment" if is_conda(environment) else "virtual environment")
            lent += [] if is_conda(environment) else interpreter_of(environment)
            path.append(str(environment / "bin"))
            variables.setdefault(name, str(environment))
        elif prefix := interpreter_on_path(project, environ):
            lent += lend(prefix, "the Python on your PATH")
            path.append(str(prefix / "bin"))
    modules = [project / "node_modules" for project in projects if _is_node_modules(project / "node_modules")]
    for folder in () if bare else (one for one in modules if one not in covered):
        lent += lend(folder, "node packages")
        if (folder / ".bin").is_dir():
            path.append(str(folder / ".bin"))
    if any((project / mark).exists() for project in projects for mark in _NODE_MARKS):
        node = _node(environ)
        lent += [] if node is None else lend(node, "the node on your PATH")
        path += [] if node is None else [str(node / "bin")]
    return Toolchain(tuple(_each_once(lent)), tuple(dict.fromkeys(_shown(path, lent))), variables)


def toolchain_of(installations: Sequence[tuple[Path, str]]) -> Toolchain:
    """What makes programs find installations that are shown elsewhere than they lie: PATH, and what runs them.

    Args:
        installations: Folders of the host, each with its place inside.
    """
    lent: list[Lent] = []
    path: list[str] = []
    variables: dict[str, str] = {}
    for host, inside in installations:
        if is_installed(host):
            lent += interpreter_of(host)
            path.append(f"{inside}/bin")
            variables.setdefault("VIRTUAL_ENV", inside)
        elif Path(inside).name == "node_modules" and (host / ".bin").is_dir():
            path.append(f"{inside}/.bin")
    return Toolchain(tuple(_each_once(lent)), tuple(dict.fromkeys(path)), variables)


def _is_node_modules(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink()


def _node(environ: Mapping[str, str]) -> Path | None:
    found = shutil.which("node", path=environ.get("PATH"))
    if found is None:
        return None
    prefix = Path(found).resolve().parent.parent
    return prefix if node_prefix(prefix) and not is_shown_anyway(prefix) else None


def _each_once(lent: Iterable[Lent]) -> Iterable[Lent]:
    """Without what lies in another lent folder at the same place."""
    by_place = {one.inside: one for one in reversed([*lent])}
    for place, one in reversed([*by_place.items()]):
        above = (by_place.get(str(parent)) for parent in Path(place).parents)
        if not any(other is not None and one.host.is_relative_to(other.host) for other in above):
            yield one


def _shown(path: Iterable[str], lent: Sequence[Lent]) -> Iterable[str]:
    """The folders that really are lent, or the system's: PATH is shared with the CLI."""
    places = [Path(one.inside) for one in lent]
    return [p for p in path if is_shown_anyway(Path(p)) or any(Path(p).is_relative_to(place) for place in places)]
