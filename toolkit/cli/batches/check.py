"""`toolkit batch check`: which workers of a cluster may do runs, before the first."""

from __future__ import annotations

import sys

import click

from toolkit.cli.terminal.command import CommandWithExample, json_option
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

EXAMPLE = """
$ toolkit batch check --cluster tcp://scheduler:8786
"""


@click.command("check", cls=CommandWithExample, example=EXAMPLE)
@click.option("--cluster", required=True, metavar="ADDRESS", help="The scheduler of a Dask cluster.")
@click.option(
    "--key-from",
    type=click.Choice(["worker", "caller"]),
    default="worker",
    show_default=True,
    help="Who has the key for the model API.",
)
@json_option("Print it as JSON.")
def check_command(cluster: str, key_from: str, wants_json: bool) -> None:
    """Say of every worker whether it may do runs: toolkit, CLI, SDK, Python, jail, key and disk.

    A worker that is refused gets no task; the others do its part.
    Exit code: 0 all may, 1 some may not, or there is none.
    """
    stdout = take_stdout()
    import asyncio

    from toolkit.fleets.engine import look_at

    found = asyncio.run(look_at(cluster, needs_key=key_from == "worker"))
    if wants_json:
        rows = {worker: {"ok": one.ok, "refused": one.refused, "remarks": one.remarks} for worker, one in found.items()}
        write_result(stdout, as_json({"cluster": cluster, "workers": rows}))
    else:
        for worker, one in found.items():
            write_result(stdout, one.line(worker))
        if not found:
            click.echo("It has no workers. To start one: dask worker ADDRESS", err=True)
    sys.exit(0 if found and all(one.ok for one in found.values()) else 1)
