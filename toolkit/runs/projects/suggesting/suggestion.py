"""What was found in a project, and the project file that follows from it: text, file, and its owner's word for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.files import is_there, refused_at, umask, write_whole
from toolkit._base.words import count_text, safe_name
from toolkit.runs import RunPlan, RunSpec, plan_run
from toolkit.runs.projects.errors import ProjectFileError
from toolkit.runs.projects.finding import OWN, PYPROJECT
from toolkit.runs.projects.project_file import ProjectFile
from toolkit.runs.projects.reading.source import written
from toolkit.runs.projects.suggesting.looking import Language, has_own_table, look
from toolkit_workspace import HostMount, Secret, WorkspaceSection

_CACHES = (
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    "htmlcov",
    ".coverage",
    ".next",
    ".turbo",
    ".parcel-cache",
    ".gradle",
)
"""What programs make again by themselves: no agent needs it."""
_MOST_NAMED = 5
_HEAD = """\
# What an agent is given in this project. `toolkit run` obeys this file once you have accepted it;
# options of the command win over it. All keys: docs/project-file.md of the toolkit.
"""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A project file for one folder, and why it is as it is."""

    folder: Path
    languages: tuple[Language, ...]
    plan: RunPlan
    """What a run on the folder would be given."""
    caches: tuple[str, ...]

    @property
    def test(self) -> str | None:
        """The command that runs all tests."""
        tests = [language.test for language in self.languages if language.test]
        own = [test for test in tests if test != "make test"]
        return " && ".join(own or tests) or None

    @property
    def installs(self) -> tuple[str, ...]:
        """What to type first, because the packages of the project are not there."""
        return tuple(language.install for language in self.languages if language.install)

    @property
    def test_folders(self) -> tuple[str, ...]:
        """Where its tests are, as far as the usual names tell."""
        folders = [self.folder / name for name in ("tests", "test")]
        return tuple(one.name for one in folders if one.is_dir() and not one.is_symlink())

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Files that may hold credentials."""
        return () if self.plan.copied is None else self.plan.copied.secrets

    def found(self) -> list[str]:
        """What was seen, a line for each."""
        return [*self._found()]

    def text(self) -> str:
        """The whole project file."""
        return "\n".join([_HEAD.rstrip(), *self._lines()]) + "\n"

    def _lent(self) -> list[dict[str, str]]:
        """What a run lends without being asked, but for the history of git."""
        return [row for row in self.plan.lent if ".git" not in Path(row["host"]).parts]

    def _found(self) -> Iterator[str]:
        for language in self.languages:
            parts = [f"tests by {language.test}" if language.test else "no tests that were recognised"]
            parts += [f"packages pinned by {', '.join(language.locks)}"] if language.locks else []
            yield f"{language.name}: {'; '.join(parts)}"
        if not self.languages:
            yield "no language that was recognised"
        for row in self._lent():
            yield f"lent by itself: {safe_name(row['host'])} ({row['what']})"
        if self.plan.has_git:
            yield "git: works for the agent, over your history"
        if self.secrets:
            yield f"{count_text(len(self.secrets), 'file')} may hold credentials: {_named(self.secrets)}"

    def _lines(self) -> Iterator[str]:
        yield written({"mounts": ["."]}).rstrip()
        if self.caches:
            yield written({"exclude_glob": list(self.caches)}).rstrip()
        if self.secrets:
            yield f"# They may hold credentials: {_named(self.secrets)}."
            yield "leave_out_secrets = true"
        inside = [row for row in self._lent() if Path(row["host"]).is_relative_to(self.folder)]
        if inside:
            names = [safe_name(str(Path(row["host"]).relative_to(self.folder))) for row in inside]
            shown = [f"{name} ({row['what']})" for name, row in zip(names, inside, strict=True)]
            yield f"# Shown read-only by itself: {', '.join(shown)}."
        if self.test is not None and self.test_folders:
            yield "# What the agent must not change, so that no run passes by editing the tests:"
            yield f"# {written({'protect': list(self.test_folders)}).rstrip()}"
        yield "\n[limits]"
        yield written({"seconds": "30m", "usd": 5}).rstrip()
        if self.test is not None:
            yield "\n# The launcher runs this itself when the agent is done; what fails goes back to it."
            yield f"[verify]\n{written({'command': self.test, 'attempts': 3}).rstrip()}"
        if self.installs:
            yield "\n# To install the packages before the agent starts, once: take the marks off, name the hosts."
            yield f"# [setup]\n# {written({'command': ' && '.join(self.installs)}).rstrip()}"
            yield '# domains = ["packages.example.org"]'


def suggest(folder: Path | str = ".") -> Suggestion:
    """Look at a folder and say what its project file could be. Nothing of it is executed or written.

    Raises:
        ToolkitError: the folder cannot be looked at.
    """
    top = Path(folder).resolve()
    section = WorkspaceSection([HostMount(top)], allowed_host_roots=[top])
    plan = plan_run(RunSpec("(none)", workspace=section))
    return Suggestion(top, tuple(look(top)), plan, tuple(_caches(top)))


def _caches(folder: Path) -> Iterator[str]:
    """The caches that there are at the top or one folder below it."""
    below = [folder]
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            below.append(Path(entry.path))
    for name in _CACHES:
        if any(is_there(place / name) for place in below if os.access(place, os.R_OK | os.X_OK)):
            yield name


def write_suggestion(suggestion: Suggestion, *, force: bool = False, home: Path | str | None = None) -> ProjectFile:
    """Write the project file of a suggestion; it counts as accepted, for its owner just made it.

    Raises:
        ProjectFileError: there is one, and `force` does not say that it may be replaced; or it cannot be written.
    """
    file = suggestion.folder / OWN
    if has_own_table(suggestion.folder):
        raise ProjectFileError(
            f"{PYPROJECT} has a table [tool.toolkit] already, and one project file is enough",
            file=suggestion.folder / PYPROJECT,
            fix="Change that one, or take it out first",
        )
    if is_there(file) and not force:
        raise ProjectFileError(f"there is a {OWN} already", file=file, fix="To write it anew: toolkit init --force")
    text = suggestion.text()
    try:
        write_whole(file, text, mode=0o666 & ~umask())
    except OSError as error:
        what = f"{OWN} cannot be written: {error.strerror}"
        raise ProjectFileError(what, file=file, where=[refused_at(file, error)]) from None
    made = ProjectFile.read(file, home=home)
    if made.text != text:
        raise ProjectFileError(f"{OWN} is not what was written: somebody else changes it", file=file)
    made.accept()
    return made


def _named(secrets: Sequence[Secret]) -> str:
    """The first few, by their paths in the project."""
    names = [safe_name(one.path.partition("/")[2] or one.path) for one in secrets[:_MOST_NAMED]]
    more = [f"{len(secrets) - _MOST_NAMED} more"] if len(secrets) > _MOST_NAMED else []
    return ", ".join([*names, *more])
