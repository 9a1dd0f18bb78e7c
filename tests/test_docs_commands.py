"""Every `toolkit …` command on a page parses: its command exists, its options exist, and their values are of their kind."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from toolkit.cli import toolkit
from toolkit.cli.terminal.command import Bytes, Duration

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "cli.md"),  # made from --help
    *sorted((ROOT / "examples").glob("*/README.md")),
]
_FENCE = re.compile(r"^```(console|sh|yaml|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?<![\w.-])(?:\S*/)?toolkit\"? (?=[a-z])(.*)")
_OPERATORS = set("();<>|&")
_CHECKED = (click.Choice, type(click.INT), type(click.FLOAT), Duration, Bytes)
"""Kinds of values that can be judged without a file system or stored runs."""


def typed(page: Path) -> Iterator[list[str]]:
    """The words after `toolkit` of every command that a page shows to be typed."""
    for kind, block in _FENCE.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if kind == "console" and not line.startswith("$ "):
                continue
            if kind == "text" and " toolkit run " not in line:
                continue  # what a program prints
            for rest in _COMMAND.findall(line):
                yield from commands(rest)


def commands(rest: str) -> Iterator[list[str]]:
    """The first command of a shell line, and those after `;` in it that are ours."""
    words: list[str] = []
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= _OPERATORS:
            break
        words.append(word)
    yield words
    found = re.search(r"[;&|] *toolkit (.*)", rest)
    if found:
        yield from commands(found[1])


def parse(words: list[str]) -> None:
    """Find the command and let click read its options; nothing is executed.

    Raises:
        click.UsageError: click would refuse it.
    """
    command: click.Command = toolkit
    context = click.Context(command, info_name="toolkit")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, list(words))
        assert found is not None
        context = click.Context(found, info_name=name, parent=context, **found.context_settings)
        command = found
    values, _, _ = command.make_parser(context).parse_args(list(words))
    further = values.get("options")
    if isinstance(further, list | tuple):  # those of `toolkit run`, for every task of a batch
        parse(["run", "x", *further])
    for param in command.params:
        value = values.get(param.name)
        given = value if isinstance(value, list | tuple) else [value]
        if isinstance(param.type, _CHECKED):
            for one in given:
                if isinstance(one, str) and not one.startswith("$"):
                    param.type(one, param, context)


CASES = [(page, words) for page in PAGES for words in typed(page)]


def test_the_pages_show_commands() -> None:
    assert len(CASES) > 60
    assert sum(page.name == "cookbook.md" for page, _ in CASES) > 20


@pytest.mark.parametrize(("page", "words"), CASES, ids=lambda value: value.name if isinstance(value, Path) else None)
def test_a_command_on_a_page_parses(page: Path, words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize(
    "line", ["rnu x", "run x --mout .", "run x --deadline soon", "run x --effort huge", "runs shw"]
)
def test_a_command_with_a_mistake_does_not_parse(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(shlex.split(line))
