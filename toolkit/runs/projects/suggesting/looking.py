"""Read a project's own files to find out what it is written in and how it is tested. Nothing of it is executed.

The files may be anybody's: they are read up to a bound, links are not followed, and
nothing of their contents goes into what is suggested.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.handles import READ_FILE

_MOST_BYTES = 1024 * 1024
_MOST_TESTS = 200
_NO_TEST = "no test specified"
_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "tox.ini", "environment.yml")
_PYTHON_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt")
_PYTEST_MARKS = ("pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py")
_SAYS_PYTEST = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "requirements-dev.txt", "dev-requirements.txt")
_NODE_INSTALLS = {
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
    "yarn.lock": "yarn install --frozen-lockfile",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "bun.lockb": "bun install --frozen-lockfile",
}


@dataclass(frozen=True, slots=True)
class Language:
    """What a project is written in, as far as its files tell."""

    name: str
    test: str | None
    """The command that runs its tests."""
    locks: tuple[str, ...]
    """Its files that pin what it depends on."""
    install: str | None
    """What to type where its packages are not there yet; None where they are, or nobody can tell."""


def look(folder: Path) -> list[Language]:
    """The languages of a project, those first whose tools can be lent."""
    return [language for language in (_python(folder), _node(folder), *_others(folder)) if language is not None]


def _python(folder: Path) -> Language | None:
    named = [name for name in _PYTHON if (folder / name).is_file()]
    if not named and not any(folder.glob("*.py")):
        return None
    locks = tuple(name for name in _PYTHON_LOCKS if (folder / name).is_file())
    has_environment = any((folder / name / "pyvenv.cfg").is_file() for name in (".venv", "venv"))
    return Language("Python", _python_test(folder), locks, None if has_environment else _python_install(folder, locks))


def _python_test(folder: Path) -> str | None:
    if any((folder / name).is_file() for name in _PYTEST_MARKS):
        return "pytest"
    says = (*_SAYS_PYTEST, *sorted(path.name for path in folder.glob("requirements*.txt")))
    if any(re.search(r"\bpytest\b", _text(folder / name)) for name in says):
        return "pytest"
    tests = [_text(file) for file in _test_files(folder)]
    if any(re.search(r"^\s*(?:import|from) unittest\b", one, re.MULTILINE) for one in tests):
        return "python -m unittest"
    return "pytest" if tests else None


def _test_files(folder: Path) -> Iterator[Path]:
    """Files with tests, at the top and in the usual folders."""
    count = 0
    for place in (folder, folder / "tests", folder / "test"):
        for file in sorted(place.glob("test_*.py")) if place.is_dir() and not place.is_symlink() else ():
            count += 1
            if count > _MOST_TESTS:
                return
            yield file


def _python_install(folder: Path, locks: tuple[str, ...]) -> str:
    if "uv.lock" in locks:
        return "uv sync"
    if "poetry.lock" in locks:
        return "poetry config virtualenvs.in-project true --local && poetry install"
    what = "-e ." if any((folder / name).is_file() for name in ("pyproject.toml", "setup.py")) else ""
    what = what or ("-r requirements.txt" if "requirements.txt" in locks else "")
    return "python3 -m venv .venv" + (f" && .venv/bin/pip install {what}" if what else "")


def _node(folder: Path) -> Language | None:
    if not (folder / "package.json").is_file():
        return None
    said: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        said = json.loads(_text(folder / "package.json") or "{}")
    scripts = said.get("scripts") if isinstance(said, dict) else None
    script = scripts.get("test") if isinstance(scripts, dict) else None
    test = "npm test" if isinstance(script, str) and script.strip() and _NO_TEST not in script else None
    locks = tuple(name for name in _NODE_INSTALLS if (folder / name).is_file())
    needs = isinstance(said, dict) and any(said.get(key) for key in ("dependencies", "devDependencies"))
    is_there = (folder / "node_modules").is_dir()
    install = None if is_there or not needs else _NODE_INSTALLS[locks[0]] if locks else "npm install"
    return Language("Node", test, locks, install)


def _others(folder: Path) -> Iterator[Language]:
    if (folder / "Cargo.toml").is_file():
        yield Language("Rust", "cargo test --offline", _there(folder, "Cargo.lock"), None)
    if (folder / "go.mod").is_file():
        yield Language("Go", "go test ./...", _there(folder, "go.sum"), None)
    for name in ("Makefile", "GNUmakefile", "makefile"):
        if re.search(r"^test\s*:(?!=)", _text(folder / name), re.MULTILINE):
            yield Language("Make", "make test", (), None)
            return


def _there(folder: Path, *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if (folder / name).is_file())


def has_own_table(folder: Path) -> bool:
    """Whether a pyproject.toml has a table for us already; no where it cannot be read."""
    try:
        return "toolkit" in tomllib.loads(_text(folder / "pyproject.toml")).get("tool", {})
    except (ValueError, RecursionError, AttributeError, TypeError):
        return False


def _text(file: Path) -> str:
    """The beginning of a file; empty where there is none, or it is a link or no file."""
    try:
        handle = os.open(file, READ_FILE)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
