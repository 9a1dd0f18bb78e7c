"""The parts our commands are made of: help that ends with an example, and values as people type them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import click
from click.shell_completion import CompletionItem

from toolkit._base.files import state_home
from toolkit._base.words import read_duration, read_size
from toolkit.errors import ToolkitError, WorkspaceSecurityError

if TYPE_CHECKING:
    from toolkit.runs import StoredRun
    from toolkit.workspace import WorkspaceSection

Option = Callable[[Callable[..., None]], Callable[..., None]]
_TITLES: WeakKeyDictionary[click.Parameter, str] = WeakKeyDictionary()
"""What an option stands under in the help; those that are not here stand under "Options"."""


class CommandWithExample(click.Command):
    """A command whose help ends with an example, shown line by line."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        # A command keeps the help option it was asked for first, so it has to be the same without its group, too.
        given = kwargs.get("context_settings") or {}
        kwargs["context_settings"] = {"help_option_names": ["-h", "--help"], **given}
        super().__init__(*args, **kwargs)
        self.example = example.strip()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below their titles, in the order in which these are first used."""
        below: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                below.setdefault(_TITLES.get(param, "Options"), []).append(record)
        if len(below["Options"]) == 1 < len(below):  # only --help
            below["Other"] = below.pop("Options")
        for title, records in below.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        with formatter.section("Example"):
            formatter.write("".join(f"  {line}\n" for line in self.example.splitlines()))


class Group(click.Group):
    """A group all of whose commands have an example."""

    command_class = CommandWithExample


def command(*, example: str) -> Callable[[Callable[..., None]], CommandWithExample]:
    """Make a function a command of the top level."""
    return click.command(cls=CommandWithExample, example=example)


def with_options(*options: Option, title: str = "") -> Option:
    """Several options as one decorator, in the order they are named; `title` is what they stand under in the help."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
            if title:
                _TITLES[function.__click_params__[-1]] = title  # type: ignore[attr-defined]
        return function

    return decorate


def json_option(what: str = "Print JSON.") -> Option:
    """The option `--json`, which a function takes as `wants_json`."""
    return click.option("--json", "wants_json", is_flag=True, help=what)


apply_options = with_options(
    click.option(
        "--mount", "mounts", multiple=True, help="Only this mount, by its place in the workspace. Repeatable."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing."),
    click.option("--conflict-markers", is_flag=True, help="Write both versions where texts do not merge."),
    click.option("--resume", is_flag=True, help="Finish an apply that was interrupted."),
    click.option("--undo", is_flag=True, help="Take back an interrupted apply, or the last finished one."),
    json_option("Print what was done as JSON."),
)
"""The options of every command that takes changes back to the host."""


def check_apply_options(resume: bool, undo: bool, *, chosen: bool) -> None:
    """Refuse options that do not go together; `chosen` says whether anything else was given."""
    if resume and undo:
        raise click.UsageError("--resume and --undo exclude each other")
    if (resume or undo) and chosen:
        raise click.UsageError("--resume and --undo take no other options: what was chosen then is finished or undone")


class Duration(click.ParamType[float]):
    """A length of time in seconds: 90, 90s, 10m, 1h30m, 30d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = read_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no length of time: write 90s, 10m or 1h30m", param, ctx)
        return seconds


class Bytes(click.ParamType[int]):
    """A number of bytes: 5000000, 5_000_000, 5MB, 1.5GB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = read_size(str(value))
        if size is None:
            self.fail(f"{value!r} is no number of bytes: write 5000000 or 5MB", param, ctx)
        return size


class _Mount(click.ParamType[tuple[str, str | None]]):
    """A host path and where it lands: src, src:lib. A path that is there is taken whole, colons and all."""

    name = "mount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str | None]:
        # An unset variable leaves an empty text, and to Python that is the current folder.
        if not value:
            self.fail("the path is empty: write '.' for the current folder", param, ctx)
        host, colon, where = value.rpartition(":")
        if not colon or Path(value).exists():
            return value, None
        if not host:
            self.fail(f"{value!r} has no path before the colon: write '.' for the current folder", param, ctx)
        if not where:
            fix = "write where it lands, or leave the colon away"
            self.fail(f"{value!r} has nothing after the colon: {fix}", param, ctx)
        return host, where


MOUNT = _Mount()


class _Header(click.ParamType[tuple[str, str]]):
    """A header for the model API: x-team=blue."""

    name = "header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        header, equals, text = value.partition("=")
        if not equals:
            self.fail("a header is written NAME=VALUE", param, ctx)  # the value may be a secret, and is not shown
        return header, text


HEADER = _Header()


class _Named(click.ParamType[tuple[str, str]]):
    """A name and what belongs to it: CI=1."""

    name = "named"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"write {param.metavar if param else 'NAME=VALUE'}", param, ctx)  # it may be a secret: not shown
        return name, text


NAMED = _Named()


def check_roots(section: WorkspaceSection, option: str) -> WorkspaceSection:
    """The section, once every mount is proven to lie in a root; `option` is what allows one here."""
    try:
        with mistyped_if_refused():
            section.check()
    except WorkspaceSecurityError as error:
        if error.rule == "allowed-roots":
            path = Path(error.path).absolute()
            # Nobody is told to allow the folder around a mistyped path, which may be the whole machine.
            if not os.path.lexists(path):
                fix = "There is no such file or folder: check the path"
            elif path.is_dir():
                fix = f"Allow it: {option} {path}"
            else:
                fix = f"Allow the folder it lies in: {option} {path.parent}"
        else:
            fix = f"Allow the folder it leads to with {option}, or mount another path."
        raise click.UsageError("\n  ".join([error.what, *error.where, fix])) from None
    return section


@contextmanager
def mistyped_if_refused() -> Iterator[None]:
    """Let what is refused in here be a usage error: somebody named a thing that there is not."""
    try:
        yield
    except ToolkitError as error:
        error.as_mistyped()
        raise


class _StoredRun(click.ParamType["StoredRun"]):
    """A stored run: by its id, the beginning of one, or 'last'."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StoredRun:
        from toolkit.runs import load_run

        with mistyped_if_refused():
            return load_run(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The ids that begin so, and 'last'; only names are looked at, so that it is quick."""
        folder = state_home() / "runs"
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
        shown = [name for name in ("last", *names) if name.startswith(incomplete) and not name.startswith(".")]
        return [CompletionItem(name) for name in shown]


RUN = click.argument("run", metavar="RUN", type=_StoredRun())
"""The argument RUN, which a function takes as a `StoredRun`."""
