"""Which packages are installed, by the names of the folders that describe them.

`importlib.metadata` reads those folders with a parser of mails, which takes as long to load as all else here. It is
asked about a package only where no folder says it by its name.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

_FOLDER = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.(dist|egg)-info")


def versions(names: Iterable[str]) -> dict[str, str | None]:
    """The version of each distribution that this Python would import; None for one that is not there."""
    known: dict[str, str] = {}
    for place in sys.path:
        try:
            entries = os.listdir(place or os.curdir)  # noqa: PTH208
        except OSError:
            continue
        for entry in entries:
            if found := _FOLDER.fullmatch(entry):
                known.setdefault(_spelled(found["name"]), found["version"])
    return {name: known.get(_spelled(name)) or _asked(name) for name in names}


def _spelled(name: str) -> str:
    """A name as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _asked(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
