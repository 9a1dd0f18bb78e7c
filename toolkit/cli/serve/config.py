"""`servers.toml`: the targets and options of a server in a file, read by a closed model.

A key that is not known, a value of the wrong type or out of range is refused with its line. Paths are read
from the folder of the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click

from toolkit._base.words import did_you_mean
from toolkit.cli.serve.options import LIMIT_TYPES
from toolkit.errors import ToolkitError


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What a configuration file says."""

    targets: tuple[str, ...]
    name: str | None = None
    http: bool = False
    """Whether it has a table [http]."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options of HTTP, by the names of the command line's parameters."""


def read_config(file: str | Path) -> ServerConfig:
    """What the file asks for.

    Raises:
        ToolkitError: it cannot be read, or says something that is not known.
    """
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise ToolkitError(
            f"the configuration cannot be read: {reason}", where=[str(path)], fix="Check --config"
        ) from None
    except tomllib.TOMLDecodeError as problem:
        line = re.search(r"line (\d+)", str(problem))
        where = f"{path}:{line[1]}" if line else str(path)
        raise ToolkitError(
            f"the configuration is not TOML: {problem}", where=[where], fix="Correct that line"
        ) from None
    return _Reader(path, text).config(data)


class _Reader:
    """Checks tables against what is known, and finds the line of a mistake."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._lines = text.splitlines()

    def config(self, data: Mapping[str, Any]) -> ServerConfig:
        top = self._table(data, "", _TOP)
        if not top.get("targets"):
            self._wrong("", "targets", "no target is named", 'Write: targets = ["tools.py"]')
        http, limits = data.get("http"), data.get("limits", {})
        if limits and http is None:
            self._wrong("limits", "", "limits are for HTTP", "Add a table: [http]")
        options = {**self._table(http or {}, "http", _HTTP), **self._table(limits, "limits", LIMIT_TYPES)}
        for name in ("token_file", "tls_cert", "tls_key"):
            if name in options:
                options[name] = (self._file.parent / options[name]).absolute()
        if "allow_hosts" in options:
            options["allowed_hosts"] = tuple(options.pop("allow_hosts"))
        return ServerConfig(tuple(top["targets"]), top.get("name"), http is not None, options)

    def _table(self, table: Any, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._wrong("", name, f"'{name}' is not a table", f"Write [{name}] on a line of its own")
        read = {}
        for key, value in table.items():
            if key not in known:
                inside = f" in [{name}]" if name else ""
                self._wrong(
                    name, key, f"'{key}' is not known{inside}{did_you_mean(key, known)}", "Correct or remove it"
                )
            if known[key] is not dict:
                read[key] = self._value(name, key, value, known[key])
        return read

    def _value(self, table: str, key: str, value: Any, kind: Any) -> Any:
        if isinstance(kind, click.ParamType):
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                self._wrong(table, key, f"'{key}' is {value!r}", "Write a number")
            try:
                return kind.convert(value, None, None)
            except click.BadParameter as problem:
                self._wrong(table, key, f"'{key}': {problem.message}", "Correct the value")
        if isinstance(kind, tuple):
            if value not in kind:
                self._wrong(table, key, f"'{key}' is {value!r}", f"Write one of: {', '.join(map(repr, kind))}")
        elif kind is list:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                self._wrong(table, key, f"'{key}' is not a list of texts", f'Write: {key} = ["…"]')
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self._wrong(table, key, f"'{key}' is {value!r}", f"Write {_SAID[kind]}")
        return value

    def _wrong(self, table: str, key: str, what: str, fix: str) -> NoReturn:
        raise ToolkitError(what, where=[self._place(table, key)], fix=fix)

    def _place(self, table: str, key: str) -> str:
        """`file:line  text` of a key, as far as a plain look at the lines tells."""
        inside = ""
        for number, line in enumerate(self._lines, start=1):
            opened = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
            inside = opened[1].strip("\"'") if opened else inside
            name = re.match(r"\s*[\"']?([^\"'=\s]+)[\"']?\s*=", line)
            is_it = name is not None and name[1] == key and inside == table
            if is_it or (opened and inside == (key if not table else table if not key else None)):
                return f"{self._file}:{number}  {line.strip()}"
        return str(self._file)


_SAID = {str: "a text", int: "a whole number", bool: "true or false"}
_TOP: dict[str, Any] = {"name": str, "targets": list, "http": dict, "limits": dict}
_HTTP: dict[str, Any] = {
    "host": str,
    "port": click.IntRange(0, 65535),
    "allow_hosts": list,
    "token_file": str,
    "auth": str,
    "issuer": str,
    "no_auth": bool,
    "public_url": str,
    "tls_cert": str,
    "tls_key": str,
    "log_format": ("off", "text", "json"),
}
