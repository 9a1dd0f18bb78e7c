"""The `toolkit` command: parse, call, print. Each group of commands lives in a file of its own.

A file is imported when one of its commands is used; the one-line summaries stand in a table and a test keeps
them true. What needs no parser at all (`toolkit --help`, `toolkit serve tools.py`) is done before click is
imported (`quick`). What the commands share is in `terminal`.
"""

from __future__ import annotations

import os
import sys

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolkit.cli.group import toolkit as toolkit
    from toolkit.cli.quick.table import COMMANDS as COMMANDS, Entry as Entry
    from toolkit.errors import ToolkitError

_HOMES = {"toolkit.cli.group": "toolkit", "toolkit.cli.quick.table": "COMMANDS Entry"}
__getattr__, __dir__, _names = lazy_names(__name__, _HOMES)
__all__ = ["main", *_names]
_OBJECTS = 50_000
"""New ones until garbage is looked for; Python's own number is 700."""


def main() -> None:
    """Run the command line; a ToolkitError is printed as it is and ends with its exit code.

    What the machine refuses and no command expected (a folder of another user, a broken disk) is said in words, too.
    """
    from toolkit.cli import streams
    from toolkit.cli.quick import looked, printed, served

    streams.settle()
    words = [] if "_TOOLKIT_COMPLETE" in os.environ else sys.argv[1:]
    from toolkit.errors import ToolkitError

    try:
        if printed(words):
            return
        _collect_seldom()
        if served(words):
            return
        if (code := looked(words)) is not None:
            sys.exit(code)
        from toolkit.cli.group import toolkit

        toolkit(prog_name="toolkit")
    except ToolkitError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # before click, which says the same
        sys.stderr.write("\nAborted!\n")
        sys.exit(1)
    except OSError as error:
        if error.filename is None and not streams.is_full(error):
            raise  # nothing to name: where it happened is all there is to say
        sys.stderr.write(f"{_refused_by_machine(error)}\n")
        sys.exit(1)


def _refused_by_machine(error: OSError) -> ToolkitError:
    from pathlib import Path

    from toolkit._base.files import is_full, room_in, state_home
    from toolkit.errors import ToolkitError

    if error.filename is None:
        return ToolkitError("the command could not go on", where=[f"{error.strerror or error}"], fix="Make room.")
    path, home = os.fsdecode(error.filename), state_home()
    if is_full(error):
        where = f"{room_in(Path(path))}; {error.strerror}"
        return ToolkitError("the command could not go on", where=[where], fix="Make room there.")
    fix = "Make it accessible to this user, or name another place."
    if path == str(home) or path.startswith(f"{home}/"):
        fix = "Give this user access to it, or set TOOLKIT_HOME to a folder of yours."
    return ToolkitError("the command could not go on", where=[f"{path}: {error.strerror or error}"], fix=fix)


def _collect_seldom() -> None:
    """Look for garbage seldom, and not at the exit: imports make none, and most of a command is imports."""
    import atexit
    import gc

    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)
