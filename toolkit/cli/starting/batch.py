"""`toolkit batch`: many tasks from a file, each done once, also after a kill."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import cost_text, count_text, safe_line
from toolkit.cli.terminal.command import Group, json_option
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs.batches import Batch, Task

RUN_EXAMPLE = """
$ toolkit batch tasks.jsonl --mount . --parallel 8 --max-usd 40 --verify "pytest -q"
$ toolkit batch run tasks.jsonl --resume
"""
SHOW_EXAMPLE = """
$ toolkit batch show tasks
"""


class _Batches(Group):
    """A group whose first command needs no name: `toolkit batch TASKS` is `toolkit batch run TASKS`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = bool(args) and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if known else ["run", *args])


@click.group(cls=_Batches, epilog="'toolkit batch TASKS' is short for 'toolkit batch run TASKS'.")
def batch() -> None:
    """Do many tasks from a file, each once, also after a kill."""


@batch.command(
    "run", example=RUN_EXAMPLE, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True}
)
@click.argument("tasks", type=click.Path(dir_okay=False))
@click.option("--name", help="The name of the batch; that of the file if not given.")
@click.option("--parallel", type=click.IntRange(1, 100), default=4, show_default=True, help="Runs at once.")
@click.option("--max-usd", type=float, help="Cost limit in dollars, for the whole batch.")
@click.option("--max-tokens", type=int, help="Limit on all tokens, for the whole batch.")
@click.option("--resume", is_flag=True, help="Go on with a batch that was begun: only what is not finished.")
@json_option("Print how every task stands as JSON.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF RUN]...")
def run_batch(
    tasks: str,
    name: str | None,
    parallel: int,
    max_usd: float | None,
    max_tokens: int | None,
    resume: bool,
    wants_json: bool,
    options: tuple[str, ...],
) -> None:
    """Do every task in TASKS, several at once, under one limit.

    TASKS has one JSON value a line: a prompt, or an object with a prompt and an id, a model or a system text.
    All options of 'toolkit run' hold for every task. What a task came to is written down before the next begins:
    after a kill, --resume does only what is not finished, and goes on where a run was cut off.
    Exit code: 0 all are done and ok, 1 some failed, 3 the limit left some undone.
    """
    stdout = take_stdout()
    import asyncio

    from toolkit.runs.batches import read_tasks, work_off

    read = read_tasks(tasks)
    make = _maker(options)
    make(read[0]).check_key()  # what cannot be is said before there is a batch
    chosen = _chosen(read, tasks, name, resume=resume)

    def on_result(task: Task, result: Any) -> None:
        cost = cost_text(result.cost, result.known_cost)
        click.echo(f"{result.code:<10} {task.id:<16} {cost:>10}  {safe_line(task.prompt, 60)}", err=True)

    work = work_off(chosen, make, parallel=parallel, usd=max_usd, tokens=max_tokens, on_result=on_result)
    asyncio.run(work)
    write_result(stdout, _told(chosen, wants_json=wants_json))
    states = [standing.state for standing in chosen.standings().values()]
    sys.exit(3 if any(state in ("waiting", "lost") for state in states) else any(state != "ok" for state in states))


def _chosen(read: list[Task], tasks: str, name: str | None, *, resume: bool) -> Batch:
    from toolkit.errors import RunError
    from toolkit.runs.batches import Batch, find_batch

    name = name or Path(tasks).stem
    if not resume:
        return Batch.begin(name, read)
    found = find_batch(name)
    if [task.id for task in read] != list(found.standings()):
        raise RunError(
            f"the tasks in {tasks} are not those of the batch '{name}'",
            where=[str(found.folder / "tasks.jsonl")],
            fix="Give the same file, or begin another batch with --name",
        )
    return found


def _maker(options: tuple[str, ...]) -> Any:
    """What makes the spec of a task: the options of `toolkit run`, read as it reads them."""
    from toolkit.cli.starting.running import run, spec_of

    context = run.make_context("toolkit batch", ["(task)", *options], resilient_parsing=False)
    taken = [word for word, value in (("--resume", "resume"), ("--plan", "wants_plan")) if context.params.get(value)]
    if taken:
        raise click.UsageError(f"{taken[0]} is about one run: it does not go with a batch")

    def make(task: Task) -> Any:
        import dataclasses

        spec = spec_of({**context.params, "prompt": task.prompt})
        return dataclasses.replace(spec, **task.options())

    return make


def _told(chosen: Batch, *, wants_json: bool) -> str:
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


@batch.command(example=SHOW_EXAMPLE)
@click.argument("name")
@json_option("Print it as JSON.")
def show(name: str, wants_json: bool) -> None:
    """Show how every task of the batch NAME stands."""
    stdout = take_stdout()
    from toolkit.runs.batches import find_batch

    found = find_batch(name)
    if not wants_json:
        for standing in found.standings().values():
            known, is_whole = standing.cost
            cost = cost_text(known if is_whole else None, known) if standing.runs else ""
            run = standing.runs[-1] if standing.runs else ""
            write_result(stdout, f"{standing.state:<10} {cost:>10}  {run:<32} {safe_line(standing.task.prompt, 60)}")
        if found.is_worked_on:
            click.echo("it is being worked on", err=True)
    write_result(stdout, _told(found, wants_json=wants_json))


@batch.command("list", example="$ toolkit batch list")
def list_command() -> None:
    """List the batches there are."""
    stdout = take_stdout()
    from toolkit.runs.batches import list_batches

    found = list_batches()
    for one in found:
        write_result(stdout, _told(one, wants_json=False))
    if not found:
        click.echo("There are no batches. To begin one: toolkit batch TASKS", err=True)
