"""Find the Python of a project: its virtual environment and the interpreter it stands on, without running either."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolkit._base.files import is_there
from toolkit.sandbox.lending.installation import Lent, is_shown_anyway, lend, python_prefix

_NAMES = (".venv", "venv", "env")


def virtualenv_of(project: Path, environ: Mapping[str, str]) -> Path | None:
    """The virtual environment to use for a project: its own, else the active one."""
    for name in _NAMES:
        if is_virtualenv(project / name):
            return project / name
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        active = environ.get(variable)
        if active and (is_virtualenv(Path(active)) or is_conda(Path(active))):
            return Path(active)
    return None


def is_virtualenv(folder: Path) -> bool:
    """Whether this is a virtual environment: by its pyvenv.cfg and its interpreter."""
    # Not Path.exists, which raises where the interpreter is in a folder that this user may not enter.
    return os.path.isfile(folder / "pyvenv.cfg") and os.path.exists(folder / "bin" / "python")  # noqa: PTH110, PTH113


def is_installed(folder: Path) -> bool:
    """Whether this is a virtual environment, also where its interpreter is found inside of a jail only."""
    return (folder / "pyvenv.cfg").is_file() and is_there(folder / "bin" / "python")


def is_conda(folder: Path) -> bool:
    """Whether this is a conda environment."""
    return (folder / "conda-meta").is_dir() and python_prefix(folder)


def interpreter_of(environment: Path) -> list[Lent]:
    """The installations a virtual environment needs: what its pyvenv.cfg names and its `python` leads to."""
    prefixes = dict.fromkeys(prefix for prefix in _named_prefixes(environment) if python_prefix(prefix))
    return [one for prefix in prefixes for one in lend(prefix, f"the Python of {environment.name}")]


def interpreter_on_path(project: Path, environ: Mapping[str, str]) -> Path | None:
    """The Python that a project without an environment gets: the caller's own, where it is an installation."""
    found = shutil.which("python3", path=environ.get("PATH"))
    if found is None:
        return None
    program = Path(found)
    if program.parent.name == "shims":  # pyenv: a script that looks up the version
        return _pyenv_version(program.parent.parent, project)
    prefix = program.resolve().parent.parent
    return prefix if python_prefix(prefix) and not is_shown_anyway(prefix) else None


def _named_prefixes(environment: Path) -> Iterator[Path]:
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip().startswith("/"):
            yield Path(value.strip()).parent
    program = environment / "bin" / "python"
    for _ in range(20):  # each step of the chain must be there inside
        if not program.is_symlink():
            break
        program = program.parent / program.readlink()
        if not program.is_relative_to(environment):
            yield program.parent.parent


def _pyenv_version(root: Path, project: Path) -> Path | None:
    for file in (project / ".python-version", root / "version"):
        try:
            names = file.read_text(encoding="utf-8").split()
        except (OSError, ValueError):
            continue
        for name in names:
            prefix = root / "versions" / name
            if "/" not in name and name not in ("..", ".") and python_prefix(prefix):
                return prefix
    return None
