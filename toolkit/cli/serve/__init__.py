"""`toolkit serve`: the tools of one or more targets, over stdio or HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import toolkit_servers.target as targets  # which loads what is used of it
from toolkit._base.words import count_text
from toolkit.cli.quick.over_stdio import serve_over_stdio
from toolkit.cli.serve.options import http_options
from toolkit.cli.terminal.command import command, mistyped_if_refused
from toolkit.cli.terminal.results import say_warnings, take_stdout, write_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.tools import Toolbox
    from toolkit_servers import Reload

SERVE_EXAMPLE = """
$ claude mcp add notes -- toolkit serve /path/to/tools.py
$ toolkit serve --http --port 8080 --reload tools.py
$ toolkit serve tools.py notes files:read_only=true
$ toolkit serve --http --host 0.0.0.0 --token-file tokens tools.py
"""


@command(example=SERVE_EXAMPLE)
@click.argument("specs", metavar="[TARGET]...", nargs=-1)
@click.option("--config", "config_file", type=click.Path(), metavar="FILE", help="Read targets and options from FILE.")
@click.option("--http", is_flag=True, help="Serve over streamable HTTP instead of stdio.")
@http_options
@click.option("--reload", is_flag=True, help="Follow changes of the files, without dropping connections.")
@click.option("--check", is_flag=True, help="Load, report problems, and stop.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Run in this folder.")
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    specs: tuple[str, ...],
    config_file: str | None,
    http: bool,
    reload: bool,
    check: bool,
    cwd: str | None,
    **given: Any,
) -> None:
    """Serve the tools in TARGET over stdio or HTTP.

    TARGET is a file (tools.py), a file and a name (tools.py:box), or a module
    (my_app.tools:box). Of several targets, tools of one name get their target's
    name in front. Over stdio, anything your code prints goes to stderr.

    Off loopback, HTTP needs a login: --token-file, the variable
    TOOLKIT_SERVE_TOKEN, or --auth.

    \b
    Ready-made targets, where no module of yours has the name:
      files[:FOLDER][,read_only=true]  read, search and change the files of a folder
      notes[:DATABASE]                 keep notes, and find them again later
      planning                         plan work in steps and keep track of it
      workspace:FOLDER                 see and undo what was changed in a kept workspace
    """
    if cwd is not None and config_file is None:
        os.chdir(cwd)
    typed = {name: given[name] for name in given if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    name = None
    if config_file is not None:
        from toolkit.cli.serve.config import read_config

        if specs:
            raise click.UsageError("name a TARGET or give --config, not both")
        with mistyped_if_refused():
            config = read_config(config_file)
        specs, http, name = config.targets, http or config.http, config.name
        typed = {**config.options, **{key: _absolute(value) for key, value in typed.items()}}
        os.chdir(cwd or Path(config_file).parent)
    if typed and not http:  # they mean nothing over stdio
        option = next(each for each in ctx.command.params if each.name in typed)
        raise click.UsageError(f"{option.opts[0]} goes with --http")
    if not specs:
        raise click.UsageError("name a TARGET, for example: toolkit serve tools.py")
    if check:
        _check(specs, name, typed)
    elif http:
        _serve_http(specs, name, reload, typed)
    else:
        serve_over_stdio(specs, name=name, reload=reload)


def _absolute(value: Any) -> Any:
    return value.absolute() if isinstance(value, Path) else value


def _check(specs: Sequence[str], name: str | None, typed: dict[str, Any]) -> None:
    stdout = take_stdout()
    if typed:
        _settings(typed)
    box = targets.load_targets(specs, name=name).toolbox
    found = say_warnings(box)
    write_result(stdout, f"{box.name}: {_counted(box)}, {found or 'no problems'}")


def _settings(typed: dict[str, Any]) -> dict[str, Any]:
    from toolkit.cli.serve.options import http_settings

    with mistyped_if_refused():
        return http_settings(typed)


def _counted(box: Toolbox) -> str:
    """What a box holds: its tools, and the resources and prompts if it has any."""
    kinds = {"tool": len(box), "resource": len(box.resources), "prompt": len(box.prompts)}
    return ", ".join(count_text(count, kind) for kind, count in kinds.items() if count or kind == "tool")


def _serve_http(specs: Sequence[str], name: str | None, reload: bool, typed: dict[str, Any]) -> None:
    from toolkit_servers import serve_http

    settings = _settings(typed)  # before any code of the user's runs: it takes the token out of the environment
    target = targets.load_targets(specs, name=name)
    title = target.toolbox.name
    serve_http(
        _tools(target, reload), on_ready=lambda url: click.echo(f"Serving {title} at {url}", err=True), **settings
    )


def _tools(target: targets.Target, reload: bool) -> Toolbox | Reload:
    if not reload:
        return target.toolbox
    from toolkit_servers import Reload

    return Reload(target)
