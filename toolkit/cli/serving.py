"""`toolkit call`, `inspect` and `install`: the tools of a target, for a look or for a client."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import toolkit_servers.target as targets  # which loads what is used of it
from toolkit.cli.terminal.command import command, json_option
from toolkit.cli.terminal.results import as_json, say_warnings, take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.tools import Toolbox
    from toolkit_servers.clients import RemoteServer, Server

CALL_EXAMPLE = """
$ toolkit call tools.py find_todos folder=src limit=5
$ toolkit call tools.py tag_note id=7 tags=home tags=urgent
$ toolkit call tools.py add_note 'note:={"title": "Milk", "done": false}'
"""


@command(example=CALL_EXAMPLE)
@click.argument("target")
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@json_option("Print the MCP result as JSON.")
def call(target: str, tool: str, arguments: tuple[str, ...], wants_json: bool) -> None:
    """Call one tool and print what the model would read.

    KEY=VALUE takes the type the tool asks for; repeat a key to give a list.
    KEY:=JSON gives any value as JSON. Ends with 1 when the tool reports an error,
    and with 2 when it was not called because an argument is wrong.
    A prompt is called by its name in the same way, and a resource by its URI.
    """
    stdout = take_stdout()
    from toolkit.errors import MistypedArguments

    loaded = targets.load_target(target)
    try:
        outcome = targets.call_once(loaded, tool, arguments, say=lambda line: click.echo(line, err=True))
    except MistypedArguments as error:
        raise click.UsageError(str(error)) from None
    if wants_json:
        write_result(stdout, as_json(outcome.reply.wire()))
    elif not outcome.reply.is_error:
        write_result(stdout, outcome.text)
    if outcome.reply.is_error:
        click.echo(outcome.problem, err=True)
        sys.exit(1 if outcome.was_called else 2)


INSPECT_EXAMPLE = """
$ toolkit inspect tools.py
TOOL        ARGUMENTS                            HINTS
find_todos  folder: string, limit: integer = 20  read-only
            List TODO comments, oldest first.
"""

_HINTS = {
    "readOnlyHint": ("read-only", ""),
    "destructiveHint": ("destructive", "not destructive"),
    "idempotentHint": ("idempotent", ""),
    "openWorldHint": ("open world", "closed world"),
}


@command(example=INSPECT_EXAMPLE)
@click.argument("target")
@json_option("Print the tools/list entries as JSON.")
def inspect(target: str, wants_json: bool) -> None:
    """Show the tools in TARGET as a client sees them.

    TARGET is a file (tools.py), a file and a name (tools.py:box), or a module
    (my_app.tools:box).
    """
    stdout = take_stdout()
    box = targets.load_target(target).toolbox
    listing = box.listing()
    width = shutil.get_terminal_size((100, 24)).columns
    more = _more(box)
    if wants_json:
        write_result(stdout, as_json({"tools": listing, **more}))
    else:
        parts = [_table(listing, width)] if listing else []
        write_result(stdout, "\n\n".join([*parts, *(_offers(key, entries) for key, entries in more.items())]))
    say_warnings(box)


def _more(box: Toolbox) -> dict[str, list[dict[str, Any]]]:
    """The lists beside the tools, by the key the protocol has for them; only those that are not empty."""
    lists = {
        "resources": box.resource_listing(),
        "resourceTemplates": box.resource_listing(templates=True),
        "prompts": box.prompt_listing(),
    }
    return {key: entries for key, entries in lists.items() if entries}


def _offers(key: str, entries: list[dict[str, Any]]) -> str:
    """Resources or prompts, one line each with what it is."""
    heads = {
        "resources": ("RESOURCE", "TYPE"),
        "resourceTemplates": ("RESOURCE", "TYPE"),
        "prompts": ("PROMPT", "ARGUMENTS"),
    }
    rows = [(_address(entry), _second(entry), _summary(entry)) for entry in entries]
    wide = max(len(heads[key][0]), *(len(address) for address, _, _ in rows))
    lines = [f"{heads[key][0]:<{wide}}  {heads[key][1]}"]
    for address, second, summary in rows:
        lines.append(f"{address:<{wide}}  {second}".rstrip())
        lines += [f"{'':<{wide}}  {summary}"] if summary else []
    return "\n".join(lines)


def _address(entry: dict[str, Any]) -> str:
    return str(entry.get("uri") or entry.get("uriTemplate") or entry["name"])


def _second(entry: dict[str, Any]) -> str:
    if "uri" in entry or "uriTemplate" in entry:
        return str(entry.get("mimeType", "told when it is read"))
    given = entry.get("arguments", ())
    return ", ".join(each["name"] if each["required"] else f"{each['name']}?" for each in given) or "none"


def _summary(entry: dict[str, Any]) -> str:
    return str(entry.get("description") or "").strip().partition("\n")[0]


def _table(listing: list[dict[str, Any]], width: int) -> str:
    rows = [
        (entry["name"], targets.describe_arguments(entry["inputSchema"]) or ["none"], _hints(entry))
        for entry in listing
    ]
    names = max(4, *(len(name) for name, _, _ in rows))
    hints = max(5, *(len(hint) for _, _, hint in rows))
    longest = max(9, *(len(", ".join(described)) for _, described, _ in rows))
    arguments = max(min(longest, width - names - hints - 4), 30)
    lines = [f"{'TOOL':<{names}}  {'ARGUMENTS':<{arguments}}  HINTS"]
    for (name, described, hint), entry in zip(rows, listing, strict=True):
        first, *rest = _wrapped(described, arguments)
        lines.append(f"{name:<{names}}  {first:<{arguments}}  {hint}".rstrip())
        lines += [f"{'':<{names}}  {line}" for line in rest]
        summary = (entry.get("description") or "").strip().partition("\n")[0]
        if summary:
            lines.append(f"{'':<{names}}  {summary}")
    return "\n".join(lines)


def _wrapped(described: list[str], width: int) -> list[str]:
    """The arguments in lines that end between two of them."""
    whole = ", ".join(part.replace(" ", "\xa0") for part in described)
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _hints(entry: dict[str, Any]) -> str:
    given = entry.get("annotations") or {}
    words = [yes if given[key] else no for key, (yes, no) in _HINTS.items() if isinstance(given.get(key), bool)]
    return ", ".join(word for word in words if word)


CLIENT_NAMES = ("claude-code", "claude-desktop", "cursor", "vscode")

INSTALL_EXAMPLE = """
$ toolkit install tools.py --client cursor --write
$ toolkit install tools.py --client cursor --write --file ~/.cursor/mcp.json
$ toolkit install --http https://tools.example/mcp --token-env TEAM_TOKEN --name team
"""


@command(example=INSTALL_EXAMPLE)
@click.argument("target", required=False)
@click.option("--http", "url", metavar="URL", help="Add the server at URL instead of a TARGET.")
@click.option("--token-env", metavar="NAME", help="The variable with its bearer token, with --http.")
@click.option(
    "--client",
    "client_name",
    type=click.Choice(CLIENT_NAMES),
    default="claude-code",
    show_default=True,
    help="The program to configure.",
)
@click.option("--name", help="The server's name there.  [default: the Toolbox's name]")
@click.option("--write", is_flag=True, help="Merge it into the configuration file; the old file stays as FILE.bak.")
@click.option("--file", "chosen_file", type=click.Path(path_type=Path), help="Use this configuration file instead.")
def install(
    target: str | None,
    url: str | None,
    token_env: str | None,
    client_name: str,
    name: str | None,
    write: bool,
    chosen_file: Path | None,
) -> None:
    """Add TARGET to an MCP client's configuration.

    Without --write the entry is only printed. It goes into .mcp.json,
    .cursor/mcp.json or .vscode/mcp.json of the current folder, or into the one
    file that Claude Desktop has.
    """
    stdout = take_stdout()
    from toolkit_servers.clients import CLIENTS, write_server

    client = CLIENTS[client_name]
    server = _server(target, url, token_env, name)
    file = chosen_file or client.file(Path.cwd(), os.environ)
    if not write:
        write_result(stdout, server.snippet(client))
        click.echo(f"\nPut this into {file}, or let --write do it.", err=True)
        if client_name == "claude-code":
            click.echo(f"For yourself only, in this folder: {server.shell_command()}", err=True)
        return
    written = write_server(server, client, file)
    write_result(stdout, str(written.file))
    if not written.changed:
        click.echo(f"'{server.name}' is already in there; nothing to do.", err=True)
        return
    kept = f" The old file is {written.backup}." if written.backup else ""
    click.echo(f"{client.title} has the server '{server.name}' now.{kept} {client.after}", err=True)


def _server(target: str | None, url: str | None, token_env: str | None, name: str | None) -> Server | RemoteServer:
    from toolkit_servers.clients import RemoteServer, Server

    if (target is None) == (url is None):
        raise click.UsageError("name a TARGET, or a server by --http URL")
    if url is not None:
        return RemoteServer.of(url, name, token_env)
    if token_env is not None:
        raise click.UsageError("--token-env goes with --http")
    assert target is not None
    return Server.of(targets.load_target(target), name)
