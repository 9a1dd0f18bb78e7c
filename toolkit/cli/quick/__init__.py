"""What is done before click is imported: `--version`, `--help`, `serve` of plain targets over stdio, and looking at
this machine (`sandbox check`, `sandbox exec`, `doctor`) without options.

An MCP client starts `toolkit serve tools.py` at each of its own starts, and a parser of command lines has no part in
that. Whatever is not exactly one of these goes to click, which has the last word on how it is said.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """Usage: toolkit [OPTIONS] COMMAND [ARGS]...

  {description}

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
{commands}

  {epilog}
"""
_MARGIN = 2
"""click leaves these columns free."""


def printed(words: Sequence[str]) -> bool:
    """Print what the words ask for, if it needs no parser; False when it does."""
    if words == ["--version"]:
        from toolkit import __version__

        sys.stdout.write(f"toolkit {__version__}\n")
        return True
    return words in (["--help"], ["-h"]) and _print_help()


def _print_help() -> bool:
    """Print the help, where no line is too long for the terminal."""
    from toolkit.cli.quick.table import COMMANDS, DESCRIPTION, EPILOG

    widest = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{widest}}  {COMMANDS[name].summary}" for name in sorted(COMMANDS))
    text = _HELP.format(description=DESCRIPTION, commands=commands, epilog=EPILOG)
    if max(map(len, text.splitlines())) > _columns() - _MARGIN:
        return False
    sys.stdout.write(text)
    return True


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1).columns or 80
    except (OSError, ValueError):
        return 80


def served(words: Sequence[str]) -> bool:
    """Serve targets over stdio, with no option but the two that clients are configured with; False if it is more."""
    if words[:1] != ["serve"]:
        return False
    targets: list[str] = []
    cwd, reload = None, False
    given = iter(words[1:])
    for word in given:
        if word == "--cwd":
            cwd = next(given, "")
        elif word == "--reload":
            reload = True
        elif word.startswith("-") or not word:
            return False
        else:
            targets.append(word)
    if not targets:
        return False
    if cwd is not None:
        try:
            os.chdir(cwd)
        except OSError:
            return False
    from toolkit.cli.quick.over_stdio import serve_over_stdio

    serve_over_stdio(targets, reload=reload)
    return True


def looked(words: Sequence[str]) -> int | None:
    """Look at this machine or run a command in a jail, and return the exit code; None where an option asks for more."""
    if words[:1] not in (["sandbox"], ["doctor"]):
        return None
    from toolkit.cli.quick.saying import ended

    return ended(lambda: _looked(words))


def _looked(words: Sequence[str]) -> int | None:
    if words == ["sandbox", "check"]:
        from toolkit.cli.quick.jails import print_check

        return print_check()
    if words[:3] == ["sandbox", "exec", "--"] and words[3:]:
        from toolkit.cli.quick.jails import run_command

        return run_command(words[3:])
    if words == ["doctor"]:
        from toolkit.cli.quick.findings import is_project, show

        if not is_project():
            from toolkit.doctor import examine

            return show(examine())
    return None
