"""What can be wrong with a TARGET, in words: what, where (file:line), and what to do.

Paths are shown as the user would type them, relative to the working directory.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from toolkit._base.words import nearest
from toolkit.errors import TargetError, ToolDefinitionError
from toolkit_servers.ready import READY
from toolkit_servers.target._imports import is_user_file

if TYPE_CHECKING:
    from toolkit_servers.target._load import Address

_PUT_TOOL = "(from toolkit import tool)"


def unreadable(spec: str) -> TargetError:
    """TARGET has neither form."""
    return TargetError(
        f"'{spec}' is not a TARGET",
        target=spec,
        fix="Write a file (tools.py), a file and a name (tools.py:box) or a module (my_app.tools:box)",
    )


def require_file(address: Address, file: Path) -> None:
    """Raise unless `file` can be read as a Python file."""
    if file.is_file():
        return
    typed, folder = _typed(file, address.cwd), file.parent
    if file.is_dir():
        here = sorted(each.name for each in file.glob("*.py"))
        fix = f"Name a file in it: {_typed(file / here[0], address.cwd)}" if here else "Name a Python file: tools.py"
        raise _wrong(address, f"{typed} is a folder", fix=fix)
    if not folder.is_dir():
        raise _wrong(
            address,
            f"there is no file {typed}",
            where=[f"the folder {_typed(folder, address.cwd)} does not exist"],
            fix="Check the path; it is read from the current directory",
        )
    near = nearest(file.name, sorted(each.name for each in folder.glob("*.py")))
    raise _wrong(
        address,
        f"there is no file {typed}",
        where=[f"looked in {folder}"],
        fix=f"Did you mean {_typed(folder / near, address.cwd)}?" if near else "Check the path and the name",
    )


def import_failed(error: BaseException, address: Address, folder: Path) -> TargetError:
    """Whatever came out of importing the target."""
    place = address.place
    if isinstance(error, SyntaxError):
        return _syntax_error(error, address)
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and address.module and f"{address.module}.".startswith(f"{missing}."):
        return _no_module(missing, address)
    where = user_lines(error, folder, address.cwd)[-1:]
    if missing:
        top = missing.partition(".")[0]
        # A slip in a neighbour's name must not end in installing somebody's package of that name.
        neighbours = [each.stem for each in (*folder.glob("*.py"), *folder.glob("*/")) if each.stem != Path(place).stem]
        near = nearest(top, neighbours)
        install = f"Install it where toolkit runs: {sys.executable} -m pip install {top}"
        what = f"{place} imports '{missing}', which is not installed"
        return _wrong(address, what, where=where, fix=f"Did you mean {near}?" if near else install)
    if isinstance(error, SystemExit):
        return _wrong(
            address,
            f"{place} ended the program while it was imported: sys.exit({error.code!r})",
            where=where,
            fix='Move that call under: if __name__ == "__main__":',
        )
    return _wrong(
        address,
        f"{place} could not be imported: {''.join(traceback.format_exception_only(error)).strip().splitlines()[-1]}",
        where=where,
        fix="Correct that line, or move it into the tool that needs it",
    )


def no_tools(address: Address, module: ModuleType) -> TargetError:
    """A module without a Toolbox or a tool."""
    neighbour = address.cwd / f"{address.spec}.py"
    if neighbour.is_file() and source_of(module) != str(neighbour):
        return _wrong(
            address,
            f"no tools in the module '{address.spec}'",
            where=[f"{source_of(module) or 'a built-in module'}  was imported: that name is taken"],
            fix=f"To load the file in this folder, write: {neighbour.name}",
        )
    functions = [
        value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return _wrong(
        address,
        f"no tools in {address.place}",
        where=[_definition(function, address) for function in functions[:3]] or [_file_of(module, address)],
        fix=f"Put @tool above {'it' if len(functions) == 1 else 'a function'} {_PUT_TOOL}",
    )


def several_toolboxes(address: Address, names: Iterable[str]) -> TargetError:
    """A module in which nobody can tell which Toolbox is meant."""
    choices = [f"{address.place}:{name}" for name in names]
    return _wrong(
        address,
        f"{len(choices)} toolboxes in {address.place}, and no name to choose by",
        where=choices,
        fix=f"Say which one: {choices[0]}",
    )


def no_such_name(address: Address, module: ModuleType, name: str, usable: list[str]) -> TargetError:
    """A name the module does not have."""
    has = f"  has: {', '.join(usable[:8])}" if usable else "  has no tools"
    if near := nearest(name, usable):
        fix = f"Did you mean {address.place}:{near}?"
    elif usable:
        fix = f"Name one of these: {address.place}:{usable[0]}"
    else:
        fix = f"Put @tool above a function {_PUT_TOOL}"
    return _wrong(address, f"{address.place} has no '{name}'", where=[_file_of(module, address) + has], fix=fix)


def refuse_missing_names(address: Address, module: ModuleType) -> None:
    """Raise when `__all__` lists what the module does not have."""
    missing = next((name for name in module.__all__ if not hasattr(module, name)), None)
    if missing is not None:
        near = nearest(missing, vars(module))
        raise _wrong(
            address,
            f"{address.place} lists '{missing}' in __all__, but has no such name",
            where=[_assignment(module, "__all__", address)],
            fix=f"Did you mean {near}?" if near else "Remove it from the list",
        )


def refuse_hidden_tools(address: Address, module: ModuleType) -> None:
    """Raise when a decorated function at the top of the module is replaced by another one of its name."""
    file = source_of(module)
    if file is None or not file.endswith(".py"):
        return
    seen: dict[str, int] = {}
    for node in ast.parse("".join(linecache.getlines(file))).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not any(map(_is_tool, node.decorator_list)):
            continue
        if node.name in seen:
            typed = _typed(Path(file), address.cwd)
            raise ToolDefinitionError(
                f"two tools are called '{node.name}': the second replaces the first",
                tool=node.name,
                where=[f"{typed}:{at}  {linecache.getline(file, at).strip()}" for at in (seen[node.name], node.lineno)],
                fix="Give one of the functions another name",
            )
        seen[node.name] = node.lineno


def not_a_tool(address: Address, module: ModuleType, name: str, value: object) -> TargetError:
    """A name that stands for something else."""
    if isinstance(value, FunctionType):
        where = [_definition(value, address)]
        return _wrong(
            address, f"'{name}' is a function, but not a tool", where=where, fix=f"Put @tool above it {_PUT_TOOL}"
        )
    kind = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
    return _wrong(
        address,
        f"'{name}' is {kind}, not a Toolbox or a tool",
        where=[_assignment(module, name, address)],
        fix=f"Name a Toolbox, a decorated function or a list of them, or leave ':{name}' off to take every tool",
    )


def user_lines(error: BaseException, folder: Path, cwd: Path) -> list[str]:
    """`file:line  source` of the user's lines an exception came through, the last one at the end."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if is_user_file(each.filename, folder)]
    return [f"{_typed(each.filename, cwd)}:{each.lineno}  {each.line or ''}".rstrip() for each in frames[-5:]]


def source_of(module: ModuleType) -> str | None:
    """The module's file; a built-in module and a folder without __init__.py have none."""
    return getattr(module, "__file__", None)


def _wrong(address: Address, what: str, *, where: Sequence[str] = (), fix: str) -> TargetError:
    return TargetError(what, target=address.spec, where=where, fix=fix)


def _typed(file: str | Path, cwd: Path) -> str:
    """A path as the user would type it."""
    path = Path(file)
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


def _definition(function: FunctionType, address: Address) -> str:
    """`file:line  def name(…)` of a function."""
    code = function.__code__
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = "(…)"
    return f"{_typed(code.co_filename, address.cwd)}:{code.co_firstlineno}  def {function.__name__}{signature}"


def _syntax_error(error: SyntaxError, address: Address) -> TargetError:
    place = _typed(error.filename, address.cwd) if error.filename else address.place
    return _wrong(
        address,
        f"{place} is not valid Python: {error.msg}",
        where=[f"{place}:{error.lineno}  {(error.text or '').strip()}".rstrip()] if error.lineno else [],
        fix="Correct that line",
    )


def _no_module(missing: str, address: Address) -> TargetError:
    *above, last = missing.split(".")
    parent = address.cwd.joinpath(*above)
    here = {each.stem for each in parent.glob("*.py")} | {each.parent.name for each in parent.glob("*/__init__.py")}
    near = nearest(last, [*sorted(here), *(() if above else READY)])
    meant = ".".join([*above, near or ""]) + address.spec.removeprefix(missing)
    holder = address.place.partition(".")[0]
    return _wrong(
        address,
        f"there is no module '{missing}'",
        where=[f"looked in {address.cwd} and in what is installed for {sys.executable}"],
        fix=f"Did you mean {meant}?"
        if near
        else f"Run this from the folder that holds {holder}, or give a file: tools.py",
    )


def _assignment(module: ModuleType, name: str, address: Address) -> str:
    """The line that binds a name, as far as a plain look at the source tells."""
    file = source_of(module)
    first = name.partition(".")[0]
    for number, line in enumerate(linecache.getlines(file) if file else [], start=1):
        if line.startswith((f"{first} =", f"{first}:", f"class {first}", f"{first}=")):
            return f"{_file_of(module, address)}:{number}  {line.strip()}"
    return _file_of(module, address)


def _is_tool(decorator: ast.expr) -> bool:
    """`@tool`, `@tool(…)` or `@toolkit.tool`."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == "tool"


def _file_of(module: ModuleType, address: Address) -> str:
    file = source_of(module)
    return _typed(Path(file), address.cwd) if file else f"module {module.__name__}"
