"""Turn a TARGET as people type it into a Toolbox.

TARGET is a file (`tools.py`), a file and a name (`tools.py:box`), or a module
(`my_app.tools`, `my_app.tools:box`). Without a name the module's one Toolbox is
taken, else every decorated tool in it. The name of a ready-made toolbox (`planning`,
`files:docs`) stands for it where no module has that name. Loading the same target again reads its files
anew. Whatever is wrong with a target is said with file and line, never as a traceback.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from toolkit._base.words import typed_path
from toolkit.errors import TargetError, ToolkitError
from toolkit.tools import Served, Toolbox, as_served
from toolkit_servers.ready import is_ready, load_ready_spec
from toolkit_servers.target import _problems as problems
from toolkit_servers.target._imports import import_file, import_folder, importing_from, loaded_files, put_first


@dataclass(frozen=True, slots=True)
class Target:
    """The tools a TARGET stands for, and where they come from."""

    spec: str
    """What was typed."""
    toolbox: Toolbox
    files: frozenset[Path]
    """The user's source files behind the tools: a change to one of them may change the tools."""
    file: Path | None
    """The target's own source file."""
    folder: Path
    """Where the target's imports are found: its own folder, or the working directory for a module."""
    module: str | None = None
    """The dotted name, when TARGET is a module."""
    name: str | None = None
    """What TARGET says after the colon."""
    parts: tuple[Target, ...] = ()
    """The targets it is the sum of, where several were named."""


@dataclass(frozen=True, slots=True)
class Address:
    """A TARGET taken apart: either a file or a module, and maybe a name in it."""

    spec: str
    """What was typed."""
    place: str
    """The same without the name."""
    name: str | None
    file: Path | None
    """None where TARGET is a module."""
    cwd: Path
    """The folder that paths are read from, and shown relative to."""

    @classmethod
    def parse(cls, spec: str, cwd: Path) -> Address:
        """Read a TARGET; only its form is checked.

        Raises:
            TargetError: it is neither a path nor a dotted name.
        """
        if not spec.strip():
            raise TargetError("the TARGET is empty", target=spec, fix="Write a file: tools.py", is_mistyped=True)
        # The name must be an identifier, so that the colon of a Windows drive is not taken for ours.
        match = re.fullmatch(r"(?P<place>.+?)(?::(?P<name>[^\W\d][\w.]*))?", spec)
        place = match["place"] if match else ""
        name = match["name"] if match else None
        is_plain_folder = (cwd / place).is_dir() and not (cwd / place / "__init__.py").is_file()
        is_other_file = bool(Path(place).suffix) and (cwd / place).is_file()
        if place.endswith(".py") or "/" in place or "\\" in place or is_plain_folder or is_other_file:
            return cls(spec, place, name, (cwd / place).resolve(), cwd)
        if not all(part.isidentifier() for part in place.split(".")):
            fix = "Write a file (tools.py), a file and a name (tools.py:box) or a module (my_app.tools:box)"
            raise TargetError(f"'{spec}' is not a TARGET", target=spec, fix=fix, is_mistyped=True)
        return cls(spec, place, name, None, cwd)

    @property
    def folder(self) -> Path:
        """Where its imports are found."""
        return self.cwd if self.file is None else import_folder(self.file)

    def typed(self, file: str | Path) -> str:
        """A path as the user would type it."""
        return typed_path(file, self.cwd)

    def wrong(self, what: str, *where: str, fix: str) -> TargetError:
        """Something about this target that is not as it should be."""
        return TargetError(what, target=self.spec, where=where, fix=fix)

    def mistyped(self, what: str, *where: str, fix: str) -> TargetError:
        """A target that names no Python file and no module."""
        return TargetError(what, target=self.spec, where=where, fix=fix, is_mistyped=True)


def load_target(spec: str, *, cwd: Path | None = None) -> Target:
    """Import what TARGET names and box its tools.

    Raises:
        TargetError: it cannot be found or imported, or holds no tools.
        ToolDefinitionError: a tool in it is not well defined.
    """
    return load_together([spec], cwd=cwd)[0]


def check_target(spec: str, *, cwd: Path | None = None) -> None:
    """Refuse what names no file, or has not the form of a TARGET; nothing is imported.

    Raises:
        TargetError: it is none.
    """
    cwd = Path.cwd() if cwd is None else cwd.resolve()
    if not is_ready(spec, cwd):
        _found(spec, cwd)


def load_together(specs: Sequence[str], *, cwd: Path | None = None) -> tuple[Target, ...]:
    """The same for several of one program: a module that two of them use, or are, is imported once.

    Raises:
        TargetError: one of them cannot be found or imported, or holds no tools.
        ToolDefinitionError: a tool in one is not well defined.
    """
    cwd = Path.cwd() if cwd is None else cwd.resolve()
    addresses = {spec: _found(spec, cwd) for spec in specs if not is_ready(spec, cwd)}
    modules: dict[Path | str, ModuleType] = {}
    with importing_from(*dict.fromkeys(address.folder for address in addresses.values())):
        return tuple(
            _load(addresses[spec], modules)
            if spec in addresses
            else Target(spec, load_ready_spec(spec, cwd), frozenset(), None, cwd)
            for spec in specs
        )


def _found(spec: str, cwd: Path) -> Address:
    address = Address.parse(spec, cwd)
    if address.file is not None:
        problems.require_file(address, address.file)
    return address


def _load(address: Address, modules: dict[Path | str, ModuleType]) -> Target:
    key, folder = address.file or address.place, address.folder
    if key not in modules:
        put_first(folder)
        modules[key] = _import(address, folder)
    module = modules[key]
    toolbox = _toolbox_of(module, address)
    source = problems.source_of(module)
    file = Path(source) if source else None
    files = loaded_files(folder) | ({file} if file else set())
    return Target(address.spec, toolbox, files, file, folder, None if address.file else address.place, address.name)


def import_module_or_file(place: str, *, cwd: Path | None = None) -> ModuleType:
    """The module that a file or a dotted name stands for, found as a TARGET is.

    Raises:
        TargetError: it cannot be found or imported.
    """
    address = _found(place, Path.cwd() if cwd is None else cwd.resolve())
    with importing_from(address.folder):
        return _import(address, address.folder)


def _import(address: Address, folder: Path) -> ModuleType:
    try:
        if address.file is not None:
            return import_file(address.file)
        return importlib.import_module(address.place)
    except ToolkitError:
        raise
    except (Exception, SystemExit) as error:
        raise problems.import_failed(error, address, folder) from error


def _toolbox_of(module: ModuleType, address: Address) -> Toolbox:
    if address.name is not None:
        return _named(module, address, address.name)
    boxes = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, Toolbox)}
    if len(boxes) > 1:
        choices = [f"{address.place}:{name}" for name, _ in boxes.values()]
        what = f"{len(choices)} toolboxes in {address.place}, and no name to choose by"
        raise address.wrong(what, *choices, fix=f"Say which one: {choices[0]}")
    if boxes:
        return next(box for _, box in boxes.values())
    values = vars(module).values()
    if hasattr(module, "__all__"):
        problems.refuse_missing_names(address, module)
        values = {name: getattr(module, name) for name in module.__all__}.values()
    found = dict.fromkeys(each for each in map(as_served, values) if each is not None and not each.is_unbound_method)
    if not found:
        raise problems.no_tools(address, module)
    problems.refuse_hidden_tools(address, module)
    own = [each for each in found if hasattr(module, "__all__") or not _is_imported(each, module)]
    return Toolbox(_box_name(address), own or found)  # a module may also just collect the tools of others


def _is_imported(served: Served[..., Any], module: ModuleType) -> bool:
    """Whether another module has it under a name of its own."""
    home = sys.modules.get(served.__module__)
    return home is not None and home is not module and any(value is served for value in vars(home).values())


def _named(module: ModuleType, address: Address, name: str) -> Toolbox:
    try:
        value = attrgetter(name)(module)
    except AttributeError:
        usable = [known for known, value in vars(module).items() if isinstance(value, Served | Toolbox)]
        raise problems.no_such_name(address, module, name, usable) from None
    if isinstance(value, Toolbox):
        return value
    values = value if isinstance(value, list | tuple) else [value]
    if values and all(as_served(item) is not None for item in values):
        return Toolbox(_box_name(address), values)
    raise problems.not_a_tool(address, module, name, value)


def _box_name(address: Address) -> str:
    """The last part of the place, in the letters a client accepts in a server's name."""
    if address.file is None:
        stem = address.place.rpartition(".")[2]
    else:
        stem = address.file.parent.name if address.file.stem == "__init__" else address.file.stem
    return re.sub(r"[^A-Za-z0-9-]+", "_", stem)[:48].strip("_") or "tools"
