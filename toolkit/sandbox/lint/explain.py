"""Explain what is wrong with a settings file, and what would happen because of it.

`explain_file` reads a file as the CLI would and lists every key the CLI would
ignore or choke on, every rule that never matches, and every protection that is
not there, each with its consequence and its line. An empty list of errors means
that the settings say what they seem to say; it does not mean that settings alone
confine an agent (see docs/confinement.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from toolkit._base.json_text import Scan, scan
from toolkit.errors import SettingsError
from toolkit.sandbox.lint.holes import holes
from toolkit.sandbox.settings import (
    Closed,
    SandboxSettings,
    describe_value_error,
    join_path,
    meant_key,
    nested_model,
)

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to know about a settings file."""

    level: Literal["error", "note"]
    """An error loses a protection or stops the CLI; a note is worth knowing."""
    key: str
    """The settings key, as a dotted path; empty for the file as a whole."""
    line: int | None
    what: str
    consequence: str
    fix: str = ""

    def render(self, source: str) -> str:
        """The problem as three lines: what and where, the consequence, what to do."""
        place = f"{source}:{self.line}" if self.line else source
        key = f"{self.key}: " if self.key else ""
        lines = [f"{self.level}: {place}  {key}{self.what}", f"  {self.consequence}"]
        return "\n".join([*lines, *([f"  {self.fix}"] if self.fix else [])])


def explain_file(path: Path) -> list[Problem]:
    """Every problem of a settings file, errors first.

    Raises:
        SettingsError: the file cannot be read at all.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as wrong:
        raise SettingsError(
            f"the settings file {path} cannot be read", where=[str(wrong.strerror)], fix="Name an existing file"
        ) from None
    except UnicodeDecodeError:
        return [Problem("error", "", None, "is not UTF-8", "The CLI cannot read it and exits.", "Save it as UTF-8.")]
    return explain_text(text, is_project_file=_is_project_file(path))


def explain_text(text: str, *, is_project_file: bool = False) -> list[Problem]:
    """Every problem of settings given as JSON text, errors first."""
    try:
        data = json.loads(text)
    except ValueError as wrong:
        line = wrong.lineno if isinstance(wrong, json.JSONDecodeError) else None
        return [Problem("error", "", line, f"is not JSON: {wrong}", "The CLI exits 1 and starts nothing.")]
    except RecursionError:
        return [Problem("error", "", None, "is nested too deeply", "The CLI cannot be expected to read it.")]
    places = scan(text)
    if not isinstance(data, dict):
        return [Problem("error", "", 1, "is not a JSON object", "The CLI takes no settings from it.")]
    problems = [*_repeated(places), *_Form(data, places).problems(SandboxSettings, data, ())]
    for found in holes(data, is_project_file=is_project_file):
        level, loc, what, consequence, fix = found
        problems.append(Problem(level, join_path(*loc), places.line_of(loc), what, consequence, fix))
    return sorted(problems, key=lambda problem: (problem.level != "error", problem.line or 0))


def _repeated(places: Scan) -> Iterator[Problem]:
    for loc, line in places.repeated:
        yield Problem(
            "error", join_path(*loc), line, "stands twice", "Only the last one counts.", "Keep one of the two."
        )


class _Form:
    """What the closed model says about a file: all of it, not just the first."""

    def __init__(self, data: dict[str, Any], places: Scan) -> None:
        sandbox = data.get("sandbox")
        self._has_sandbox = "sandbox" in data
        self._is_on = isinstance(sandbox, dict) and sandbox.get("enabled") is True
        self._places = places

    def problems(self, model: type[Closed], data: dict[str, Any], loc: Loc) -> Iterator[Problem]:
        keys = model.keys()
        for name, value in data.items():
            here = (*loc, name)
            if name not in keys:
                yield from self._unknown(here)
            elif (inner := nested_model(keys[name].annotation)) is not None:
                if isinstance(value, dict):
                    yield from self.problems(inner, value, here)
                else:
                    yield self._wrong(here, "has to be an object")
            else:
                for where, said in _value_errors(keys[name].annotation, value):
                    yield self._wrong((*here, *where), said)

    def _unknown(self, loc: Loc) -> Iterator[Problem]:
        key = join_path(*loc)
        meant = meant_key(key)
        if len(loc) == 1 and meant is None:
            return  # not about confinement: the CLI has many other settings
        is_the_switch = meant is not None and meant.endswith(("'sandbox'?", "'sandbox.enabled'?"))
        lost = "the sandbox would be off" if is_the_switch and not self._is_on else "it has no effect"
        consequence = f"The CLI ignores it in silence: {lost}."
        yield Problem("error", key, self._places.line_of(loc), "is an unknown key", consequence, meant or "Remove it.")

    def _wrong(self, loc: Loc, said: str) -> Problem:
        consequence = (
            "The CLI refuses to start and names the key."
            if self._has_sandbox
            else "With no 'sandbox' block, the CLI drops all settings in silence."
        )
        return Problem("error", join_path(*loc), self._places.line_of(loc), said, consequence)


def _value_errors(annotation: Any, value: object) -> list[tuple[Loc, str]]:
    if value is None:
        return [((), "has to be left out instead of null")]
    try:
        TypeAdapter(annotation, config=ConfigDict(strict=True)).validate_python(value)
    except SettingsError as wrong:  # from a closed model inside a list
        return [((), f"has an entry that is wrong: {wrong.what}")]
    except ValidationError as wrong:
        return [(error["loc"][:1], describe_value_error(error)) for error in wrong.errors(include_url=False)[:1]]
    return []


def _is_project_file(path: Path) -> bool:
    folder = path.resolve().parent
    return folder.name == ".claude" and folder.parent != Path.home()
