"""Import a user's file or module as often as asked, with its neighbours at hand and nothing shadowed.

The user's folder ranks behind the standard library and behind everything this toolkit
is built on, but before whatever else is installed: a neighbour called `http.py` or
`mcp.py` cannot break a library, and one called `utils.py` wins over a stray package
of that name. Importing again reads every file of that folder anew; when that fails,
the modules of the last good import are put back.
"""

from __future__ import annotations

import importlib
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from zlib import crc32

import toolkit

_OWN = ("toolkit", "toolkit_servers", "toolkit_workspace")


def import_file(file: Path) -> ModuleType:
    """Run a file as a module whose private name no other module can have.

    A file inside a package (a folder with `__init__.py`) is imported under its
    dotted name, so that its relative imports work.
    """
    dotted = _dotted_name(file)
    if dotted is not None:
        return importlib.import_module(dotted)
    return import_under(private_name(file), file)


def private_name(file: Path) -> str:
    """The name of the module that a file by itself becomes."""
    return f"toolkit_target_{re.sub(r'[^0-9A-Za-z_]', '_', file.stem)}_{crc32(str(file).encode()):08x}"


def import_under(private: str, file: Path) -> ModuleType:
    """Run a file as the module of this name."""
    spec = spec_from_file_location(private, file, loader=_FreshLoader(private, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(private, None)
        raise
    return module


def import_folder(file: Path) -> Path:
    """The folder whose neighbours a file may import: its own, or the one that holds its top package."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


@contextmanager
def importing_from(*folders: Path) -> Iterator[None]:
    """Make the folders importable for good and, inside the block, have their modules read anew, once."""
    finders = [_finder_for(folder) for folder in folders]
    old = _loaded_from(folders)
    for finder in finders:
        finder.fresh = finder.fresh or any(_is_loaded_from(name, old[name], finder.folder) for name in old)
    for name in old:
        del sys.modules[name]
    importlib.invalidate_caches()
    linecache.checkcache()
    try:
        yield
    except BaseException:
        for name in _loaded_from(folders):
            del sys.modules[name]
        sys.modules.update(old)
        raise


def put_first(folder: Path) -> None:
    """Have the next imports find this folder's modules, also where another target's folder has some of the same name.

    Those stay with the modules that have imported them.
    """
    finder = _finder_for(folder)
    sys.meta_path.remove(finder)
    sys.meta_path.insert(min(map(sys.meta_path.index, _finders()), default=_last_place()), finder)
    for top in {name.partition(".")[0] for name in _loaded_from([each.folder for each in _finders()])}:
        found = finder.find_spec(top)
        if found is not None and found.origin != getattr(sys.modules.get(top), "__file__", None):
            for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
                del sys.modules[name]


def _loaded_from(folders: Sequence[Path]) -> dict[str, ModuleType]:
    modules = list(sys.modules.items())
    return {name: each for name, each in modules if any(_is_loaded_from(name, each, folder) for folder in folders)}


def loaded_files(folder: Path) -> frozenset[Path]:
    """The source files of every module the user's code has brought in from `folder`."""
    modules = [module for name, module in list(sys.modules.items()) if _is_loaded_from(name, module, folder)]
    return frozenset(Path(file) for module in modules if (file := getattr(module, "__file__", None)))


def is_user_file(file: str | Path, folder: Path) -> bool:
    """Whether a file under `folder` is the user's: not of the standard library, an installed package or ours."""
    path = Path(file)
    if not path.is_relative_to(folder) or {"site-packages", "dist-packages"} & set(path.relative_to(folder).parts):
        return False
    return not any(path.is_relative_to(place) for place in _foreign_places())


class _UserFinder:
    """Finds the modules of one folder, unless the standard library or the toolkit's own needs have that name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = frozenset(sys.modules) - _loaded_from([each.folder for each in _finders()]).keys()
        """What was loaded before the user's code: never to be imported anew."""
        self.fresh = False
        """Pass over cached bytecode: it cannot tell two edits within one second apart."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Submodules are found without help; only their bytecode is in the way of a second reading.
        if not self._may_serve(fullname) if path is None else not self.fresh:
            return None
        spec = PathFinder.find_spec(fullname, [str(self.folder)] if path is None else path)
        if spec is None or spec.origin is None or not is_user_file(spec.origin, self.folder):
            return None
        if self.fresh and type(spec.loader) is SourceFileLoader:
            spec.loader = _FreshLoader(fullname, spec.origin)
        return spec

    def _may_serve(self, name: str) -> bool:
        if name in sys.stdlib_module_names:
            return False
        if not (self.folder / f"{name}.py").exists() and not (self.folder / name).is_dir():
            return False
        installed = PathFinder.find_spec(name)
        if installed is None or installed.origin is None or is_user_file(installed.origin, self.folder):
            return True
        return name not in _needed_names()


class _FreshLoader(SourceFileLoader):
    """Compiles the source that is there now, whatever bytecode is cached."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _finder_for(folder: Path) -> _UserFinder:
    for finder in _finders():
        if finder.folder == folder:
            return finder
    made = _UserFinder(folder)
    sys.meta_path.insert(_last_place(), made)
    # Folders without __init__.py are found through sys.path alone; behind all else, where they shadow nothing.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return made


def _finders() -> list[_UserFinder]:
    return [each for each in sys.meta_path if isinstance(each, _UserFinder)]


def _last_place() -> int:
    """Before the finder of everything that is installed."""
    return sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0


def _dotted_name(file: Path) -> str | None:
    """`pkg.tools` for a file of an importable package, None for a plain file."""
    folder = import_folder(file)
    if folder == file.parent:
        return None
    parts = file.relative_to(folder).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if not all(part.isidentifier() for part in parts):
        return None
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        return None
    # A package that something else hides (a folder called `http`) is loaded as a plain file.
    return ".".join(parts) if spec is not None and spec.origin == str(folder / parts[0] / "__init__.py") else None


def _is_loaded_from(name: str, module: ModuleType, folder: Path) -> bool:
    if name in _finder_for(folder).before or name == "__main__" or name.partition(".")[0] in _OWN:
        return False
    file = getattr(module, "__file__", None)
    # A folder without __init__.py is a module too: it holds on to the modules in it.
    places = [file] if isinstance(file, str) else list(getattr(module, "__path__", ()))
    return any(is_user_file(place, folder) for place in places)


@cache
def _foreign_places() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    own = [Path(toolkit.__file__).parent, Path(__file__).parents[1]]
    return (*{Path(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")}, *own)


@cache
def _needed_names() -> frozenset[str]:
    """Top-level import names of the toolkit and of everything it depends on, as installed here."""
    from importlib import metadata

    names, seen, waiting = set(_OWN), set[str](), ["agent-toolkit-mcp"]
    while waiting:
        distribution = waiting.pop()
        if distribution in seen:
            continue
        seen.add(distribution)
        try:
            found = metadata.distribution(distribution)
        except metadata.PackageNotFoundError:
            continue
        needs = [need for need in found.requires or () if "extra ==" not in need]
        waiting += [match[0] for need in needs if (match := re.match(r"[\w.-]+", need))]
        names |= {file.parts[0].partition(".")[0] for file in found.files or () if file.suffix in {".py", ".so"}}
    return frozenset(names)
