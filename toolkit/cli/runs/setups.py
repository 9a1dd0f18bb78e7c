"""`toolkit setups`: the layers that setups made, what is in them, and what becomes of them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import count_text, duration_text, safe_line, safe_name, safe_text, size_text
from toolkit.cli.terminal.command import Bytes, Duration, Group, json_option, mistyped_if_refused
from toolkit.cli.terminal.results import as_json, take_stdout, write_result
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.runs.layers import Layer

LIST_EXAMPLE = """
$ toolkit setups list
LAYER         SIZE    FILES  MADE              USED              COMMAND
1f0c5a7b92d4  61 MB   2,113  2026-03-02 02:10  2026-03-04 09:31  uv sync --frozen
"""

SHOW_EXAMPLE = """
$ toolkit setups show 1f0c
$ toolkit setups show 1f0c --verify
"""

CLEAN_EXAMPLE = """
$ toolkit setups clean 1f0c
$ toolkit setups clean --unused-for 30d
$ toolkit setups clean --max-size 5GB
"""


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog="LAYER is a key or the beginning of one. Run 'toolkit setups COMMAND --help' for an example.",
)
@json_option("Print the list as JSON.")
@click.pass_context
def setups(context: click.Context, wants_json: bool) -> None:
    """Look at what setups made, and remove it.

    Without a command: list the layers. They are stored below TOOLKIT_HOME.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command, wants_json=wants_json)


@setups.command("list", example=LIST_EXAMPLE)
@json_option("Print them as JSON.")
def list_command(wants_json: bool) -> None:
    """List the layers, the one that was used last first."""
    stdout = take_stdout()
    from toolkit.runs.layers import Layers

    found = Layers().all(on_damaged=_complain)
    if wants_json:
        write_result(stdout, as_json([layer.to_json() for layer in found]))
        return
    if not found:
        click.echo("There are no layers. To make one: toolkit run PROMPT --mount . --setup COMMAND", err=True)
        return
    write_result(stdout, _table(found))
    click.echo(f"{size_text(sum(layer.size for layer in found))} in all", err=True)


@setups.command(example=SHOW_EXAMPLE)
@click.argument("layer", metavar="LAYER")
@click.option("--verify", is_flag=True, help="Read all of it, and say what is not as the setup made it.")
@json_option("Print all of it as JSON.")
def show(layer: str, verify: bool, wants_json: bool) -> None:
    """Show what made LAYER, what it depends on and what it has.

    With --verify: exits 1 if a file is not as it was made.
    """
    stdout = take_stdout()
    from toolkit.runs.layers import Layers

    with mistyped_if_refused():
        found = Layers().find(layer)
    wrong = found.differing() if verify else []
    if wants_json:
        data = {**found.to_json(), **({"differing": wrong} if verify else {})}
        write_result(stdout, as_json(data))
    else:
        write_result(stdout, "\n".join([*_story(found), *(_verdict(wrong) if verify else [])]))
    sys.exit(bool(wrong))


@setups.command(example=CLEAN_EXAMPLE)
@click.argument("names", nargs=-1, metavar="[LAYER]...")
@click.option("--all", "wants_all", is_flag=True, help="All that no run uses.")
@click.option("--unused-for", type=Duration(), metavar="TIME", help="All that were used longer ago: 12h, 30d.")
@click.option("--max-size", type=Bytes(), metavar="SIZE", help="The longest unused, until the rest is no larger: 5GB.")
@json_option("Print the keys of the removed ones as JSON.")
def clean(
    names: tuple[str, ...], wants_all: bool, unused_for: float | None, max_size: int | None, wants_json: bool
) -> None:
    """Remove layers, and what killed setups left; never one that a run uses.

    The next run that needs one makes it again.
    """
    stdout = take_stdout()
    from toolkit.runs.layers import Layers

    ways = [bool(names), wants_all, unused_for is not None, max_size is not None]
    if sum(ways) != 1:
        raise click.UsageError("name the layers to remove, or give --all, --unused-for or --max-size")
    layers = Layers()
    if max_size is not None:
        removed, in_use = layers.shrink(max_size), []
    else:
        with mistyped_if_refused():
            chosen = [layers.find(name) for name in names] if names else layers.all(on_damaged=_complain)
        if unused_for is not None:
            chosen = [layer for layer in chosen if time.time() - layer.used >= unused_for]
        removed = [layer for layer in chosen if layers.remove(layer)]
        in_use = [layer for layer in chosen if layer not in removed]
    swept = layers.sweep()
    _tell_cleaned(stdout, removed, in_use, len(swept), wants_json=wants_json)
    sys.exit(bool(in_use and names))


def _tell_cleaned(stdout: Any, removed: list[Layer], in_use: list[Layer], swept: int, *, wants_json: bool) -> None:
    for layer in in_use:
        click.echo(f"in use by a run, and left: {layer.short}", err=True)
    if wants_json:
        data = {"removed": [layer.key for layer in removed], "in_use": [layer.key for layer in in_use], "swept": swept}
        write_result(stdout, as_json(data))
        return
    for layer in removed:
        write_result(stdout, f"removed {layer.short}  {size_text(layer.size)}  {safe_line(layer.command, 60)}")
    if swept:
        click.echo(f"removed what {count_text(swept, 'killed setup')} left", err=True)
    if not removed and not swept:
        click.echo("nothing to remove", err=True)


def _table(layers: list[Layer]) -> str:
    lines = [f"{'LAYER':<12}  {'SIZE':>7}  {'FILES':>8}  {'MADE':<16}  {'USED':<16}  COMMAND"]
    for layer in layers:
        made, used = (time.strftime("%Y-%m-%d %H:%M", time.localtime(t)) for t in (layer.facts["made"], layer.used))
        sizes = f"{size_text(layer.size):>7}  {layer.files:>8,}"
        lines.append(f"{layer.short:<12}  {sizes}  {made}  {used}  {safe_line(layer.command, 60)}")
    return "\n".join(lines)


def _story(layer: Layer) -> list[str]:
    facts = layer.facts
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["made"]))
    lines = [f"{layer.key}  made {made} in {duration_text(facts['ms'])}", f"command    {facts['command']}"]
    lines += [f"reached    {', '.join(facts['domains'])}"] if facts["domains"] else []
    lines += [f"variables  {', '.join(facts['variables'])}"] if facts["variables"] else []
    lines += [f"mount      {path}" for path in facts["mounts"]]
    lines += [f"depends on {safe_name(place)}  {digest[:12]}" for place, digest in facts["inputs"]]
    lines += [f"machine    {name}: {value}" for name, value in facts["machine"].items()]
    lines += [f"has        {safe_name(place)}" for place in layer.places]
    lines += ["has        $TOOLKIT_CACHE"] if any(layer.cache.iterdir()) else []
    lines += [f"not kept   {one}" for one in facts["left"]]
    lines += [f"size       {size_text(layer.size)} in {count_text(layer.files, 'file')}", f"folder     {layer.folder}"]
    lines += [f"output     {layer.output}"]
    return [safe_text(line).replace("\n", " ") for line in lines]


def _verdict(wrong: list[str]) -> list[str]:
    if not wrong:
        return ["verified   every byte is as the setup made it"]
    return [f"CHANGED    {safe_name(path)}" for path in wrong[:50]] + (
        [f"… {len(wrong):,} in all"] if wrong[50:] else []
    )


def _complain(error: ToolkitError) -> None:
    click.echo(f"warning: {error}", err=True)
