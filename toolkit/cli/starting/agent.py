"""The options of `toolkit run` about the agent: its tools and servers, its model, and how that is reached."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_name
from toolkit.cli.terminal.command import HEADER, NAMED, with_options

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit.workspace import WorkspaceSection

EFFORTS = ("low", "medium", "high", "xhigh", "max")

tool_options = with_options(
    click.option("--tools", "targets", multiple=True, metavar="TARGET", help="Tools of your own, as for 'serve'."),
    click.option("--ready", multiple=True, metavar="NAME", help="A ready-made server: planning, files, notes …"),
    click.option(
        "--native",
        multiple=True,
        metavar="TOOL",
        help="Offer only these tools of the CLI; the file tools and Bash if not given.",
    ),
    click.option(
        "--server",
        "servers",
        type=NAMED,
        multiple=True,
        metavar="NAME=COMMAND|URL",
        help="An MCP server: a command that starts inside the jail, or a URL on this machine.",
    ),
    click.option(
        "--allow-server",
        "allowed_servers",
        multiple=True,
        metavar="NAME",
        help="Let the CLI reach this --server on this machine's loopback.",
    ),
    click.option(
        "--optional-server",
        "optional_servers",
        multiple=True,
        metavar="NAME",
        help="Go on without this --server if it does not start.",
    ),
    click.option(
        "--agents",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Subagents, as a JSON object of names, each with a description and a prompt.",
    ),
    click.option("--plugin", "plugins", multiple=True, metavar="DIR", help="A plugin of the CLI: agents, skills …"),
    title="Tools and servers",
)
model_options = with_options(
    click.option("--model", help="The model; the CLI's default if not given."),
    click.option("--fallback-model", help="The model to go on with when there is no room for the first."),
    click.option("--effort", type=click.Choice(EFFORTS), help="How thorough the model is."),
    click.option("--thinking", metavar="TOKENS|off", help="Most tokens for thinking, adaptive, or off."),
    click.option("--beta", "betas", multiple=True, metavar="NAME", help="A beta of the model API."),
    click.option("--api-url", metavar="URL", help="The model API.  [default: ANTHROPIC_BASE_URL]"),
    click.option(
        "--api-key-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Read the key from a file that only you can read.  [default: ANTHROPIC_API_KEY]",
    ),
    click.option(
        "--api-header",
        "headers",
        type=HEADER,
        multiple=True,
        metavar="NAME=VALUE",
        help="Sent with each model request.",
    ),
    title="Model",
)
"""Each is a part of `RunSpec`."""


def tools_of(given: dict[str, Any], workspace: WorkspaceSection | None) -> dict[str, Any]:
    """Tools and servers as a run takes them; for a plan, tools are named and not loaded.

    Raises:
        ToolkitError: one cannot be loaded.
    """
    targets = given["targets"] if given["wants_plan"] else [_load(one) for one in given["targets"]]
    return {
        "tools": [*targets, *(_ready(name, workspace) for name in given["ready"])],
        "native": given["native"] or None,
        "servers": _servers(given),
        "allow_servers": given["allowed_servers"],
        "agents": None if given["agents"] is None else read_object("--agents", given["agents"], "subagents"),
        "plugins": given["plugins"],
    }


def _load(target: str) -> Toolbox:
    from toolkit_servers.target import load_target

    return load_target(target).toolbox


def model_of(given: dict[str, Any]) -> dict[str, Any]:
    """The model, and how it is reached, as a run takes it."""
    thinking = given["thinking"]
    return {
        "model": given["model"],
        "fallback_model": given["fallback_model"],
        "effort": given["effort"],
        "thinking": int(thinking) if thinking is not None and thinking.isdecimal() else thinking,
        "betas": given["betas"],
        "api_url": given["api_url"],
        "api_key_file": given["api_key_file"],
        "api_headers": dict(given["headers"]),
    }


def _ready(spec: str, workspace: WorkspaceSection | None) -> Toolbox:
    """A ready-made server; files and workspace without a path are about the workspace of this run."""
    from toolkit_servers.ready import load_ready, load_ready_spec

    if spec == "workspace" and workspace is not None:
        return load_ready(spec, section=workspace)
    return load_ready_spec(spec, Path.cwd())


def _servers(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The MCP servers, by their names."""
    found: dict[str, dict[str, Any]] = {}
    for name, written in given["servers"]:
        if name in found:
            raise click.UsageError(f"two servers are called {safe_name(name)}: give one another name")
        if written.lower().startswith(("http://", "https://")):
            found[name] = {"type": "http", "url": written}
            continue
        try:
            words = shlex.split(written)
        except ValueError as error:
            raise click.UsageError(f"--server {safe_name(name)}: its command cannot be read: {error}") from None
        if not words:
            raise click.UsageError(f"--server {safe_name(name)}: there is no command; write NAME=COMMAND")
        found[name] = {"type": "stdio", "command": words[0], "args": words[1:]}
    for name in given["optional_servers"]:
        if name not in found:
            raise click.UsageError(f"--optional-server {safe_name(name)}: no --server has this name")
        found[name]["optional"] = True
    return found


def read_object(option: str, path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file that an option names.

    Raises:
        click.UsageError: there is none in it; it is said with the option.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.UsageError(f"{option} {path}: it is no JSON: {error}") from None
    except RecursionError:
        raise click.UsageError(f"{option} {path}: it is nested too deep") from None
    except OSError as error:
        raise click.UsageError(f"{option} {path}: it cannot be read: {error.strerror}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{option} {path}: {what} is written as one JSON object: {{…}}")
    return found
