"""What can be wrong with a TARGET, in words: what, where (file:line), and what to do.

Paths are shown as the user would type them, relative to the working directory.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import FunctionType, ModuleType

from toolkit.errors import TargetError, ToolDefinitionError, ToolkitError
from toolkit.tools import Toolbox
from toolkit_servers.ready import READY
from toolkit_servers.target._imports import is_user_file


def unreadable(spec: str) -> TargetError:
    """TARGET has neither form."""
    return TargetError(
        f"'{spec}' is not a TARGET",
        target=spec,
        fix="Write a file (tools.py), a file and a name (tools.py:box) or a module (my_app.tools:box)",
    )


def require_file(file: Path, spec: str, cwd: Path) -> None:
    """Raise unless `file` can be read as a Python file."""
    if file.is_file():
        return
    shown = show(file, cwd)
    if file.is_dir():
        here = sorted(each.name for each in file.glob("*.py"))
        fix = f"Name a file in it: {show(file / here[0], cwd)}" if here else "Name a Python file: tools.py"
        raise TargetError(f"{shown} is a folder", target=spec, fix=fix)
    folder = file.parent
    if not folder.is_dir():
        raise TargetError(
            f"there is no file {shown}",
            target=spec,
            where=[f"the folder {show(folder, cwd)} does not exist"],
            fix="Check the path; it is read from the current directory",
        )
    python_files = sorted(each.name for each in folder.glob("*.py"))
    raise TargetError(
        f"there is no file {shown}",
        target=spec,
        where=[f"looked in {folder}"],
        fix=_suggest(file.name, python_files, lambda name: show(folder / name, cwd)) or "Check the path and the name",
    )


def import_failed(error: BaseException, spec: str, module: str | None, folder: Path, cwd: Path) -> BaseException:
    """The error to raise for one that came out of importing the target."""
    if isinstance(error, ToolkitError):
        return error
    if isinstance(error, SyntaxError):
        return _syntax_error(error, spec, cwd)
    if isinstance(error, ModuleNotFoundError) and error.name and module and f"{module}.".startswith(f"{error.name}."):
        return _no_module(error.name, spec, module, cwd)
    place = user_lines(error, folder, cwd)[-1:]
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.partition(".")[0]
        # A slip in a neighbour's name must not end in installing somebody's package of that name.
        itself = Path(_place_of(spec)).stem
        neighbours = [each.stem for each in (*folder.glob("*.py"), *folder.glob("*/")) if each.stem != itself]
        install = f"Install it where toolkit runs: {sys.executable} -m pip install {missing}"
        return TargetError(
            f"{_place_of(spec)} imports '{error.name}', which is not installed",
            target=spec,
            where=place,
            fix=_suggest(missing, neighbours, str) or install,
        )
    if isinstance(error, SystemExit):
        return TargetError(
            f"{_place_of(spec)} ended the program while it was imported: sys.exit({error.code!r})",
            target=spec,
            where=place,
            fix='Move that call under: if __name__ == "__main__":',
        )
    return TargetError(
        f"{_place_of(spec)} could not be imported: {_one_line(error)}",
        target=spec,
        where=place,
        fix="Correct that line, or move it into the tool that needs it",
    )


def no_tools(module: ModuleType, spec: str, cwd: Path) -> TargetError:
    """A module without a Toolbox or a tool."""
    functions = [
        value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    neighbour = cwd / f"{spec}.py"
    if neighbour.is_file() and _source_of(module) != str(neighbour):
        return TargetError(
            f"no tools in the module '{spec}'",
            target=spec,
            where=[f"{_source_of(module) or 'a built-in module'}  was imported: that name is taken"],
            fix=f"To load the file in this folder, write: {neighbour.name}",
        )
    return TargetError(
        f"no tools in {_place_of(spec)}",
        target=spec,
        where=[source_line(function, cwd) for function in functions[:3]] or [_file_of(module, cwd)],
        fix=f"Put @tool above {'it' if len(functions) == 1 else 'a function'} (from toolkit import tool)",
    )


def several_toolboxes(spec: str, names: Iterable[str]) -> TargetError:
    """A module in which nobody can tell which Toolbox is meant."""
    choices = [f"{_place_of(spec)}:{name}" for name in names]
    return TargetError(
        f"{len(choices)} toolboxes in {_place_of(spec)}, and no name to choose by",
        target=spec,
        where=choices,
        fix=f"Say which one: {choices[0]}",
    )


def no_such_name(module: ModuleType, spec: str, name: str, usable: list[str], cwd: Path) -> TargetError:
    """A name the module does not have."""
    place = _place_of(spec)
    has = f"  has: {', '.join(usable[:8])}" if usable else "  has no tools"
    fix = _suggest(name, usable, lambda known: f"{place}:{known}")
    if not fix:
        fix = (
            f"Name one of these: {place}:{usable[0]}"
            if usable
            else "Put @tool above a function (from toolkit import tool)"
        )
    return TargetError(f"{place} has no '{name}'", target=spec, where=[_file_of(module, cwd) + has], fix=fix)


def no_such_tool(spec: str, name: str, toolbox: Toolbox) -> TargetError:
    """A tool the target does not offer."""
    return TargetError(
        f"{spec} has no tool '{name}'",
        target=spec,
        where=[tool.source_line for tool in toolbox.tools.values()][:8],
        fix=_suggest(name, list(toolbox.tools), str) or f"See its tools with: toolkit inspect {spec}",
    )


def refuse_missing_names(module: ModuleType, spec: str, cwd: Path) -> None:
    """Raise when `__all__` lists what the module does not have."""
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    if missing:
        raise TargetError(
            f"{_place_of(spec)} lists '{missing[0]}' in __all__, but has no such name",
            target=spec,
            where=[_assignment(module, "__all__", cwd)],
            fix=_suggest(missing[0], list(vars(module)), str) or "Remove it from the list",
        )


def refuse_hidden_tools(module: ModuleType, cwd: Path) -> None:
    """Raise when a decorated function at the top of the module is replaced by another one of its name."""
    file = _source_of(module)
    if file is None or not file.endswith(".py"):
        return
    seen: dict[str, int] = {}
    for node in ast.parse("".join(linecache.getlines(file))).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not any(map(_is_tool, node.decorator_list)):
            continue
        if node.name in seen:
            lines = [
                f"{show(Path(file), cwd)}:{at}  {linecache.getline(file, at).strip()}"
                for at in (seen[node.name], node.lineno)
            ]
            raise ToolDefinitionError(
                f"two tools are called '{node.name}': the second replaces the first",
                tool=node.name,
                where=lines,
                fix="Give one of the functions another name",
            )
        seen[node.name] = node.lineno


def not_a_tool(value: object, module: ModuleType, spec: str, name: str, cwd: Path) -> TargetError:
    """A name that stands for something else."""
    if isinstance(value, FunctionType):
        return TargetError(
            f"'{name}' is a function, but not a tool",
            target=spec,
            where=[source_line(value, cwd)],
            fix="Put @tool above it (from toolkit import tool)",
        )
    kind = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
    return TargetError(
        f"'{name}' is {kind}, not a Toolbox or a tool",
        target=spec,
        where=[_assignment(module, name, cwd)],
        fix=f"Name a Toolbox, a decorated function or a list of them, or leave ':{name}' off to take every tool",
    )


def show(file: Path, cwd: Path) -> str:
    """A path as the user would type it."""
    return str(file.relative_to(cwd)) if file.is_relative_to(cwd) else str(file)


def source_line(function: FunctionType, cwd: Path) -> str:
    """`file:line  def name(…)` of a function."""
    code = function.__code__
    return f"{show(Path(code.co_filename), cwd)}:{code.co_firstlineno}  def {function.__name__}{_signature(function)}"


def user_lines(error: BaseException, folder: Path, cwd: Path) -> list[str]:
    """`file:line  source` of the user's lines an exception came through, the last one at the end."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if is_user_file(each.filename, folder)]
    return [f"{show(Path(each.filename), cwd)}:{each.lineno}  {each.line or ''}".rstrip() for each in frames[-5:]]


def _syntax_error(error: SyntaxError, spec: str, cwd: Path) -> TargetError:
    place = show(Path(error.filename), cwd) if error.filename else _place_of(spec)
    text = (error.text or "").strip()
    return TargetError(
        f"{place} is not valid Python: {error.msg}",
        target=spec,
        where=[f"{place}:{error.lineno}  {text}".rstrip()] if error.lineno else [],
        fix="Correct that line",
    )


def _no_module(missing: str, spec: str, module: str, cwd: Path) -> TargetError:
    parent = cwd.joinpath(*missing.split(".")[:-1])
    here = sorted(
        {each.stem for each in parent.glob("*.py")} | {each.parent.name for each in parent.glob("*/__init__.py")}
    )
    prefix = missing.rpartition(".")[0]
    rest = spec.removeprefix(missing)
    here += [] if "." in missing else READY
    fix = _suggest(missing.rpartition(".")[2], here, lambda name: ".".join(filter(None, [prefix, name])) + rest)
    return TargetError(
        f"there is no module '{missing}'",
        target=spec,
        where=[f"looked in {cwd} and in what is installed for {sys.executable}"],
        fix=fix or f"Run this from the folder that holds {module.partition('.')[0]}, or give a file: tools.py",
    )


def _assignment(module: ModuleType, name: str, cwd: Path) -> str:
    """The line that binds a name, as far as a plain look at the source tells."""
    file = _source_of(module)
    lines = linecache.getlines(file) if file else []
    first = name.partition(".")[0]
    for number, line in enumerate(lines, start=1):
        if line.startswith((f"{first} =", f"{first}:", f"class {first}", f"{first}=")):
            return f"{_file_of(module, cwd)}:{number}  {line.strip()}"
    return _file_of(module, cwd)


def _is_tool(decorator: ast.expr) -> bool:
    """`@tool`, `@tool(…)` or `@toolkit.tool`."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == "tool"


def _file_of(module: ModuleType, cwd: Path) -> str:
    file = _source_of(module)
    return show(Path(file), cwd) if file else f"module {module.__name__}"


def _source_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)  # a built-in module or a folder without __init__.py has none


def _place_of(spec: str) -> str:
    """TARGET without its name."""
    place, _, name = spec.rpartition(":")
    return place if place and name.replace(".", "_").isidentifier() else spec


def _signature(function: FunctionType) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"


def _one_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


def _suggest(wrong: str, known: list[str], spell: Callable[[str], str]) -> str:
    close = get_close_matches(wrong, known, n=1, cutoff=0.6)
    return f"Did you mean {spell(close[0])}?" if close else ""
