"""What can be wrong with a TARGET, in words: what, where (file:line), and what to do.

Paths are shown as the user would type them, relative to the working directory.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from toolkit._base.words import nearest, typed_path
from toolkit.errors import TargetError, ToolDefinitionError
from toolkit_servers.ready import READY
from toolkit_servers.target._imports import is_user_file

if TYPE_CHECKING:
    from toolkit_servers.target._load import Address

_PUT_TOOL = "(from toolkit import tool)"


def require_file(address: Address, file: Path) -> None:
    """Raise unless `file` can be read as a Python file."""
    if file.is_file():
        if file.suffix in (".py", ""):
            return
        beside = file.with_suffix(".py")
        fix = f"Did you mean {address.typed(beside)}?" if beside.is_file() else "Name a Python file: tools.py"
        raise address.mistyped(f"{address.typed(file)} is no Python file: its name does not end in .py", fix=fix)
    what, folder = f"there is no file {address.typed(file)}", file.parent
    if file.is_dir():
        here = sorted(file.glob("*.py"))
        fix = f"Name a file in it: {address.typed(here[0])}" if here else "Name a Python file: tools.py"
        raise address.mistyped(f"{address.typed(file)} is a folder", fix=fix)
    if not folder.is_dir():
        where = f"the folder {address.typed(folder)} does not exist"
        raise address.mistyped(what, where, fix="Check the path; it is read from the current directory")
    near = nearest(file.name, sorted(each.name for each in folder.glob("*.py")))
    fix = f"Did you mean {address.typed(folder / near)}?" if near else "Check the path and the name"
    raise address.mistyped(what, f"looked in {folder}", fix=fix)


def import_failed(error: BaseException, address: Address, folder: Path) -> TargetError:
    """Whatever came out of importing the target."""
    place = address.place
    if isinstance(error, SyntaxError):
        place = address.typed(error.filename) if error.filename else place
        where = [f"{place}:{error.lineno}  {(error.text or '').strip()}".rstrip()] if error.lineno else []
        return address.wrong(f"{place} is not valid Python: {error.msg}", *where, fix="Correct that line")
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and address.file is None and f"{place}.".startswith(f"{missing}."):
        return _no_module(missing, address)
    where = user_lines(error, folder, address.cwd)[-1:]
    if missing:
        top = missing.partition(".")[0]
        # A slip in a neighbour's name must not end in installing somebody's package of that name.
        neighbours = [each.stem for each in (*folder.glob("*.py"), *folder.glob("*/")) if each.stem != Path(place).stem]
        near = nearest(top, neighbours)
        install = f"Install it where toolkit runs: {sys.executable} -m pip install {top}"
        what = f"{place} imports '{missing}', which is not installed"
        return address.wrong(what, *where, fix=f"Did you mean {near}?" if near else install)
    if isinstance(error, SystemExit):
        what = f"{place} ended the program while it was imported: sys.exit({error.code!r})"
        return address.wrong(what, *where, fix='Move that call under: if __name__ == "__main__":')
    import traceback

    reason = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    fix = "Correct that line, or move it into the tool that needs it"
    return address.wrong(f"{place} could not be imported: {reason}", *where, fix=fix)


def no_tools(address: Address, module: ModuleType) -> TargetError:
    """A module without a Toolbox or a tool."""
    neighbour = address.cwd / f"{address.spec}.py"
    if neighbour.is_file() and source_of(module) != str(neighbour):
        taken = f"{source_of(module) or 'a built-in module'}  was imported: that name is taken"
        fix = f"To load the file in this folder, write: {neighbour.name}"
        return address.wrong(f"no tools in the module '{address.spec}'", taken, fix=fix)
    functions = [
        value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    where = [_definition(function, address) for function in functions[:3]] or [_file_of(module, address)]
    fix = f"Put @tool above {'it' if len(functions) == 1 else 'a function'} {_PUT_TOOL}"
    return address.wrong(f"no tools in {address.place}", *where, fix=fix)


def no_such_name(address: Address, module: ModuleType, name: str, usable: list[str]) -> TargetError:
    """A name the module does not have."""
    has = f"  has: {', '.join(usable[:8])}" if usable else "  has no tools"
    if near := nearest(name, usable):
        fix = f"Did you mean {address.place}:{near}?"
    elif usable:
        fix = f"Name one of these: {address.place}:{usable[0]}"
    else:
        fix = f"Put @tool above a function {_PUT_TOOL}"
    return address.mistyped(f"{address.place} has no '{name}'", _file_of(module, address) + has, fix=fix)


def refuse_missing_names(address: Address, module: ModuleType) -> None:
    """Raise when `__all__` lists what the module does not have."""
    missing = next((name for name in module.__all__ if not hasattr(module, name)), None)
    if missing is not None:
        near = nearest(missing, vars(module))
        what = f"{address.place} lists '{missing}' in __all__, but has no such name"
        fix = f"Did you mean {near}?" if near else "Remove it from the list"
        raise address.wrong(what, _assignment(module, "__all__", address), fix=fix)


def refuse_hidden_tools(address: Address, module: ModuleType) -> None:
    """Raise when a decorated function at the top of the module is replaced by another one of its name."""
    file = source_of(module)
    if file is None or not file.endswith(".py"):
        return
    seen: dict[str, int] = {}
    for node in ast.parse("".join(linecache.getlines(file))).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not any(map(_is_ours, node.decorator_list)):
            continue
        if node.name in seen:
            typed = address.typed(file)
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
        what, fix = f"'{name}' is a function, but not a tool", f"Put @tool above it {_PUT_TOOL}"
        return address.wrong(what, _definition(value, address), fix=fix)
    kind = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
    fix = f"Name a Toolbox, a decorated function or a list of them, or leave ':{name}' off to take every tool"
    return address.wrong(f"'{name}' is {kind}, not a Toolbox or a tool", _assignment(module, name, address), fix=fix)


def user_lines(error: BaseException, folder: Path, cwd: Path) -> list[str]:
    """`file:line  source` of the user's lines an exception came through, the last one at the end."""
    import traceback

    frames = [each for each in traceback.extract_tb(error.__traceback__) if is_user_file(each.filename, folder)]
    return [f"{typed_path(each.filename, cwd)}:{each.lineno}  {each.line or ''}".rstrip() for each in frames[-5:]]


def source_of(module: ModuleType) -> str | None:
    """The module's file; a built-in module and a folder without __init__.py have none."""
    return getattr(module, "__file__", None)


def _definition(function: FunctionType, address: Address) -> str:
    """`file:line  def name(…)` of a function."""
    code = function.__code__
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = "(…)"
    return f"{address.typed(code.co_filename)}:{code.co_firstlineno}  def {function.__name__}{signature}"


def _no_module(missing: str, address: Address) -> TargetError:
    import mimetypes

    if "." in address.place and mimetypes.guess_type(address.place)[0] is not None:
        return _no_file_either(address)
    *above, last = missing.split(".")
    parent = address.cwd.joinpath(*above)
    here = {each.stem for each in parent.glob("*.py")} | {each.parent.name for each in parent.glob("*/__init__.py")}
    near = nearest(last, [*sorted(here), *(() if above else READY)])
    fix = f"Run this from the folder that holds {address.place.partition('.')[0]}, or give a file: tools.py"
    if near:
        fix = f"Did you mean {'.'.join([*above, near])}{address.spec.removeprefix(missing)}?"
    where = f"looked in {address.cwd} and in what is installed for {sys.executable}"
    return address.mistyped(f"there is no module '{missing}'", where, fix=fix)


def _no_file_either(address: Address) -> TargetError:
    """The name of a file that is not there, and would be no Python file; a module could be called so, and is not."""
    near = nearest(Path(address.place).stem + ".py", sorted(each.name for each in address.cwd.glob("*.py")))
    fix = f"Did you mean {near}?" if near else "Name a Python file: tools.py"
    what = f"there is no file {address.place}, and no module of that name"
    return address.mistyped(what, f"looked in {address.cwd}", fix=fix)


def _assignment(module: ModuleType, name: str, address: Address) -> str:
    """The line that binds a name, as far as a plain look at the source tells."""
    file = source_of(module)
    first = name.partition(".")[0]
    for number, line in enumerate(linecache.getlines(file) if file else [], start=1):
        if line.startswith((f"{first} =", f"{first}:", f"class {first}", f"{first}=")):
            return f"{_file_of(module, address)}:{number}  {line.strip()}"
    return _file_of(module, address)


def _is_ours(decorator: ast.expr) -> bool:
    """`@tool`, `@tool(…)`, `@toolkit.tool`, and the same with resource and prompt."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("tool", "resource", "prompt")


def _file_of(module: ModuleType, address: Address) -> str:
    file = source_of(module)
    return address.typed(file) if file else f"module {module.__name__}"
