"""Files of tools that were sent to another machine: the names that their modules have here, and the import there.

A file is a module with a private name, which follows from its path. What is pickled names its functions by that, so on
the other machine the same file is imported under the same name, from wherever it lies there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import TargetError
from toolkit_servers.target._imports import import_folder, import_under, importing_from, private_name, put_first

_one_at_a_time = threading.RLock()


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of code, as the machine names it that it comes from."""

    root: Path
    """The folder whose modules it can import."""
    path: str
    """Relative to that."""
    name: str | None
    """The private name of its module; None where it is in a package, and has a plain one."""


def sent_file(file: Path) -> SentFile:
    """How a file is known where it is sent from. It is not imported."""
    real = file.resolve()
    root = import_folder(real)
    in_package = (real.parent / "__init__.py").is_file()
    return SentFile(root, str(real.relative_to(root)), None if in_package else private_name(real))


def import_sent(roots: Iterable[Path], names: dict[str, Path]) -> None:
    """Make folders importable, and files the modules of these private names; done before, it costs nothing.

    Raises:
        TargetError: a file cannot be imported here.
    """
    folders = list(roots)
    with _one_at_a_time:
        known = all(getattr(sys.modules.get(name), "__file__", None) == str(file) for name, file in names.items())
        if known and names:
            return
        with importing_from(*folders):
            for folder in folders:
                put_first(folder)
            for name, file in names.items():
                try:
                    import_under(name, file)
                except (Exception, SystemExit) as error:
                    raise TargetError(
                        f"{file.name} cannot be imported on this machine: {type(error).__name__}: {error}",
                        target=file.name,
                        fix="Install there what it imports, or send that as well: --with FILE",
                    ) from error
