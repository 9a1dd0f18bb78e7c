"""Write docs/cli.md from what `--help` says: `python -m tests.docs_cli`. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from toolkit.cli import toolkit

FILE = Path(__file__).parents[1] / "docs" / "cli.md"

INTRO = """\
# The command line

Made from `--help` by `python -m tests.docs_cli`: change the commands, not this page.

Results go to stdout, everything else to stderr. A command ends with 0 when it is done, 1 when the work
failed and 2 on a usage error.
"""


def commands(
    group: click.Group = toolkit, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it, groups before what is in them."""
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def help_of(path: tuple[str, ...], columns: int = 80) -> str:
    """What `toolkit PATH --help` prints on a terminal of this width."""
    done = CliRunner().invoke(toolkit, [*path, "--help"], prog_name="toolkit", terminal_width=columns)
    assert done.exit_code == 0
    return done.output.rstrip()


def page() -> str:
    """The whole page."""
    titles = {path: f"## {' '.join(('toolkit', *path))}\n\n" if path else "" for path, _ in commands()}
    return "\n".join([INTRO, *(f"{title}```text\n{help_of(path)}\n```\n" for path, title in titles.items())])


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(page(), encoding="utf-8")
