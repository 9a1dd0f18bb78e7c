"""docs/runs.md has one row for every option of a run, with its default and the command's options that give it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from toolkit.cli.starting.running import run
from toolkit.runs import Limits, RunSpec
from toolkit.sandbox import JailLimits

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its two head lines."""
    section = PAGE.partition(f"\n{title}\n")[2]
    lines = re.search(r"^\|.*?\n(?!\|)", section, re.MULTILINE | re.DOTALL)
    assert lines
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[0].splitlines()[2:]]


def test_the_table_has_every_option_of_a_run_in_order() -> None:
    assert [row[0].strip("` ") for row in rows("## Options")] == [field.name for field in dataclasses.fields(RunSpec)]


def test_a_default_in_the_table_is_that_of_the_option() -> None:
    said = {row[0].strip("` "): row[1] for row in rows("## Options")}
    for field in dataclasses.fields(RunSpec):
        if isinstance(field.default, bool | str | float):
            assert said[field.name] == f"`{field.default!r}`"
        elif field.default is None or field.default == ():
            assert said[field.name] == "–"


def test_the_table_names_options_of_the_command_that_exist_and_those_of_every_kind() -> None:
    known = {name for param in run.params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")}
    section = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", section))
    assert named <= known
    opposites = {"--keep-workspace", "--no-gitignore", "--with-secrets"}
    project_file = {"--config", "--no-config", "--trust"}  # on a page of their own
    assert known - named == opposites | project_file


def test_the_limits_and_their_defaults_are_those_of_the_jail() -> None:
    units = {"GiB": 1 << 30, "MiB": 1 << 20}
    said = {row[0].strip("` "): row[1] for row in rows("## Limits")}
    assert list(said) == [field.name for field in dataclasses.fields(Limits)]
    for name, text in said.items():
        number, _, unit = text.partition(" ")
        value = None if text == "none" else int(number) * units.get(unit, 1)
        assert value == getattr(JailLimits(), name, None), name
