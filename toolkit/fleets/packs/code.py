"""Files of tools that workers do not have: packed, and imported there under the names that they have here.

r0/ r1/ …    a folder for each from which modules are imported, with the files that were named in it
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.packs.kept import unpack
from toolkit.fleets.packs.pack import Pack, packed_into
from toolkit.fleets.parcels import Packing, ParcelError
from toolkit.fleets.store import Store
from toolkit_servers.target import import_sent, sent_file

_PRIVATE = re.compile(rb"toolkit_target_\w+_[0-9a-f]{8}")
MOST_CODE = 64 << 20
"""How many bytes of code may be sent."""


def pack_code(files: Sequence[Path | str], folder: Path) -> Pack:
    """Pack Python files and packages into `folder/HASH`.

    Raises:
        RunError: one is not there, is neither a Python file nor a package, or all are too large.
    """
    roots: dict[Path, int] = {}
    modules: dict[str, str] = {}
    named: dict[str, Path] = {}
    for file in [one for given in files for one in _files_of(Path(given))]:
        sent = sent_file(file)
        path = f"r{roots.setdefault(sent.root, len(roots))}/{sent.path}"
        named[path] = file
        if sent.name is not None:
            modules[sent.name] = path
    facts = {"roots": [f"r{number}" for number in roots.values()], "modules": modules}
    try:
        return packed_into(folder, lambda unborn: _packed(unborn, named, facts))
    except ParcelError as error:
        raise RunError(f"the files of --with cannot be sent: {error.what}") from None
    except OSError as error:
        raise RunError(f"the files of --with cannot be read: {error.strerror}", where=[str(error.filename)]) from None


def require_code(pickled: bytes, files: Sequence[Path | str]) -> None:
    """Look whether something pickled needs files of tools that are not among these.

    Raises:
        RunError: it does: no worker could read it.
    """
    sent = {sent_file(one).name for given in files for one in _files_of(Path(given))}
    wanted = {name.decode() for name in _PRIVATE.findall(pickled)} - sent
    paths = [str(getattr(sys.modules.get(name), "__file__", name)) for name in sorted(wanted)]
    if paths:
        options = " ".join(f"--with {path}" for path in paths)
        raise RunError("workers do not have the files of these tools", where=paths, fix=f"Send them: {options}")


def load_code(pack: Pack, store: Store, *, temp: Path | None = None) -> None:
    """Import what was packed, so that what is pickled by these modules' names can be read in this process.

    Raises:
        ParcelError: the store has another pack, or a damaged one.
        TargetError: a file cannot be imported here.
        RunError: the store cannot be read, or the files cannot be kept here.
    """
    with unpack(pack, store, temp=temp, most_bytes=MOST_CODE) as there:
        facts = there.facts
        names = {str(name): there.tree / str(path) for name, path in facts["modules"].items()}
        import_sent([there.tree / str(root) for root in facts["roots"]], names)


def _files_of(given: Path) -> Iterator[Path]:
    """A file, or all files of a package but for bytecode."""
    if given.is_file() and given.suffix == ".py":
        yield given
    elif (given / "__init__.py").is_file():
        for above, folders, names in os.walk(given):
            folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
            yield from (Path(above, name) for name in sorted(names) if not name.endswith((".pyc", ".pyo")))
    else:
        raise RunError(
            f"'{given}' is no Python file and no package", fix="Write for example: --with notes.py, or --with my_tools/"
        )


def _packed(into: Path, named: dict[str, Path], facts: dict[str, Any]) -> Pack:
    with Packing(into, most_bytes=MOST_CODE) as packing:
        folders: set[str] = set()
        for path, file in named.items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                above = "/".join(parts[:depth])
                if above not in folders:
                    folders.add(above)
                    packing.folder_entry(os.fsencode(above), 0o700)
            packing.file(os.fsencode(path), file.read_bytes(), 0o600)
        return Pack(packing.finish(facts))
