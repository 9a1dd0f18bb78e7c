"""`toolkit batch show` and `list`: how the tasks of a batch stand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from toolkit._base.words import cost_text, count_text, safe_line
from toolkit.cli.terminal.command import CommandWithExample, json_option, mistyped_if_refused
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs.batches import Batch

SHOW_EXAMPLE = """
$ toolkit batch show tasks
"""


@click.command(cls=CommandWithExample, example=SHOW_EXAMPLE)
@click.argument("name")
@json_option("Print it as JSON.")
def show(name: str, wants_json: bool) -> None:
    """Show how every task of the batch NAME stands."""
    stdout = take_stdout()
    from toolkit.runs.batches import find_batch

    with mistyped_if_refused():
        found = find_batch(name)
    if not wants_json:
        for standing in found.standings().values():
            known, is_whole = standing.cost
            cost = cost_text(known if is_whole else None, known) if standing.runs else ""
            run = standing.runs[-1] if standing.runs else ""
            write_result(stdout, f"{standing.state:<10} {cost:>10}  {run:<32} {safe_line(standing.task.prompt, 60)}")
            if cause := standing.ends.get(run, {}).get("cause"):
                write_result(stdout, f"  {safe_line(str(cause), 200)}")
        if found.is_worked_on:
            click.echo("it is being worked on", err=True)
    write_result(stdout, told(found, wants_json=wants_json))


@click.command("list", cls=CommandWithExample, example="$ toolkit batch list")
def list_command() -> None:
    """List the batches there are."""
    stdout = take_stdout()
    from toolkit.runs.batches import list_batches

    found = list_batches()
    for one in found:
        write_result(stdout, told(one, wants_json=False))
    if not found:
        click.echo("There are no batches. To begin one: toolkit batch TASKS", err=True)


def told(chosen: Batch, *, wants_json: bool) -> str:
    """How a batch stands: as JSON for a program, or in one line."""
    standings = chosen.standings()
    if wants_json:
        rows = [
            {
                "task": standing.task.id,
                "prompt": standing.task.prompt,
                "state": standing.state,
                "runs": standing.runs,
                "cost": standing.cost[0] if standing.cost[1] else None,
                "known_cost": standing.cost[0],
                "tokens": standing.tokens,
            }
            for standing in standings.values()
        ]
        return as_json({"batch": chosen.name, "tasks": rows})
    states = Counter(standing.state for standing in standings.values())
    known = sum(standing.cost[0] for standing in standings.values())
    is_whole = all(standing.cost[1] for standing in standings.values())
    words = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return (
        f"{chosen.name}: {count_text(len(standings), 'task')}: {words}; {cost_text(known if is_whole else None, known)}"
    )
