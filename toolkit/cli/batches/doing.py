"""`toolkit batch run`: the tasks of a file, worked off."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.batches.standings import told
from toolkit.cli.terminal.command import CommandWithExample, Duration, json_option, mistyped_if_refused
from toolkit.cli.terminal.results import take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs.batches import Batch, Task

RUN_EXAMPLE = """
$ toolkit batch tasks.jsonl --mount . --parallel 8 --max-usd 40 --verify "pytest -q"
$ toolkit batch run tasks.jsonl --resume
"""

_USUAL = 4
"""Runs at once on this machine."""


@click.command(
    "run",
    cls=CommandWithExample,
    example=RUN_EXAMPLE,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("tasks", type=click.Path(dir_okay=False))
@click.option("--name", help="The name of the batch; that of the file if not given.")
@click.option(
    "--parallel",
    type=click.IntRange(1, 1000),
    help="Runs at once; 4 if not given, on a cluster as many as its workers have threads.",
)
@click.option("--max-usd", type=float, help="Cost limit in dollars, for the whole batch.")
@click.option("--max-tokens", type=int, help="Limit on all tokens, for the whole batch.")
@click.option(
    "--priority",
    "priorities",
    multiple=True,
    metavar="[ID=]N",
    help="Begin these tasks first: the id of a task or a pattern of ids, and a number; a number alone is for all.",
)
@click.option("--cluster", metavar="ADDRESS", help="Do the runs on a Dask cluster: the address of its scheduler.")
@click.option(
    "--lease",
    type=Duration(),
    help="After what time without a word a worker of the cluster counts as dead; 60s if not given.",
)
@click.option(
    "--store",
    metavar="URL",
    help="What the cluster's runs work on and come to goes through this, and the journal is there, too: a folder, "
    "s3://bucket/folder, …",
)
@click.option(
    "--key-from",
    type=click.Choice(["worker", "caller"]),
    help="Who has the key for the model API: the cluster's workers if not given, or this machine, which serves them.",
)
@click.option(
    "--with",
    "code",
    multiple=True,
    metavar="FILE",
    help="Send a Python file or package to the cluster's workers: tools that they do not have.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with a batch that was begun, here or, with --store, on another machine: only what is not finished.",
)
@json_option("Print how every task stands as JSON.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF RUN]...")
def run_batch(
    tasks: str,
    name: str | None,
    parallel: int | None,
    max_usd: float | None,
    max_tokens: int | None,
    priorities: tuple[str, ...],
    cluster: str | None,
    lease: float | None,
    store: str | None,
    key_from: str | None,
    code: tuple[str, ...],
    resume: bool,
    wants_json: bool,
    options: tuple[str, ...],
) -> None:
    """Do every task in TASKS, several at once, under one limit.

    TASKS has one JSON value a line: a prompt, or an object with a prompt and an id, a model, a system text or a
    priority. All runs share one rate: when the model API refuses, all slow down. They leave the processor to others.
    All options of 'toolkit run' hold for every task. What a task came to is written down before the next begins:
    after a kill, --resume does only what is not finished, and goes on where a run was cut off.
    Exit code: 0 all are done and ok, 1 some failed, 3 the limit left some undone.
    """
    stdout = take_stdout()
    from toolkit.cli.batches.collected import collected
    from toolkit.cli.batches.live.progress import Progress
    from toolkit.runs.batches import check_tasks, read_tasks, read_wishes

    there = {"parallel": parallel, "lease": lease, "store": store, "key_from": key_from, "with": code or None}
    for option in ("lease", "store", "key_from", "with"):
        if there[option] is not None and cluster is None:
            named = "--" + option.replace("_", "-")
            raise click.UsageError(f"{named} is about the workers of a cluster: name it with --cluster")
    for option, limit in (("--max-usd", max_usd), ("--max-tokens", max_tokens)):
        if limit is not None and not 0 < limit < math.inf:
            raise click.UsageError(f"{option}: a limit is a number above zero")
    with mistyped_if_refused():
        read = read_tasks(tasks)
        wishes = read_wishes(priorities, read)
    make = _maker(options)
    if cluster is None or key_from == "caller":
        make(read[0]).check_key()  # what cannot be is said before there is a batch
    with mistyped_if_refused():
        make(read[0]).check_tools()
        if not resume:
            check_tasks(read)
    if cluster is not None:
        _reach(cluster, store)
    with mistyped_if_refused():
        chosen = _chosen(read, tasks, name, store, resume=resume)
    limits = {"usd": max_usd, "tokens": max_tokens}
    at_once = parallel if cluster else parallel or _USUAL
    with collected(chosen, make(read[0]).telemetry), Progress(chosen, parallel=at_once) as progress:
        given = {"wishes": wishes, "on_result": progress.ended, **limits}
        if cluster is None:
            _work_here(chosen, make, parallel or _USUAL, given)
        else:
            _work_there(chosen, make, cluster, {**there, "on_word": progress.say}, given)
    write_result(stdout, told(chosen, wants_json=wants_json))
    states = [standing.state for standing in chosen.standings().values()]
    sys.exit(3 if any(state in ("waiting", "lost") for state in states) else any(state != "ok" for state in states))


def _work_here(chosen: Batch, make: Any, parallel: int, given: dict[str, Any]) -> None:
    """Do the tasks in this process."""
    import asyncio

    from toolkit.fleets.rate import Rate, paced
    from toolkit.runs.batches import keep_decision, priority_of, step_back, work_off

    rate = Rate(on_decision=lambda decision: keep_decision(chosen.folder, asdict(decision)))
    make = paced(make, rate, lambda task: priority_of(task, given["wishes"]))
    step_back()
    asyncio.run(work_off(chosen, make, parallel=parallel, **given))


def _reach(cluster: str, store: str | None) -> None:
    """What is not there is said before there is a batch."""
    import asyncio

    from toolkit.fleets.caller import reach

    asyncio.run(reach(cluster, store))


def _work_there(chosen: Batch, make: Any, cluster: str, wanted: dict[str, Any], given: dict[str, Any]) -> None:
    """Do the tasks on a cluster."""
    import asyncio

    from toolkit.fleets.caller import Fleet, work_off_on

    options = {"code" if name == "with" else name: value for name, value in wanted.items() if value is not None}
    fleet = Fleet(cluster, **options)
    asyncio.run(work_off_on(chosen, make, fleet, **given))


def _chosen(read: list[Task], tasks: str, name: str | None, store: str | None, *, resume: bool) -> Batch:
    from toolkit.errors import RunError
    from toolkit.runs.batches import Batch

    name = name or Path(tasks).stem
    if not resume:
        return Batch.begin(name, read)
    found = _found(name, read, store)
    if [task.id for task in read] != list(found.standings()):
        raise RunError(
            f"the tasks in {tasks} are not those of the batch '{name}'",
            where=[str(found.folder / "tasks.jsonl")],
            fix="Give the same file, or begin another batch with --name",
        )
    return found


def _found(name: str, read: list[Task], store: str | None) -> Batch:
    """The batch of a name: one of this machine, or one in the store that was begun on another."""
    from toolkit.errors import RunError
    from toolkit.runs.batches import find_batch

    try:
        return find_batch(name)
    except RunError:
        from toolkit.fleets.journals import take_over

        taken = None if store is None else take_over(store, name, read)
        if taken is None:
            raise
        return taken


def _maker(options: tuple[str, ...]) -> Any:
    """What makes the spec of a task: the options of `toolkit run`, read as it reads them."""
    from toolkit.cli.starting.running import run, spec_of, telemetry_of
    from toolkit.cli.terminal.project import project_of

    context = run.make_context("toolkit batch", ["(task)", *options], resilient_parsing=False)
    whole = (("--resume", "resume"), ("--plan", "wants_plan"), ("--prompt-file", "prompt_file"))
    taken = [word for word, value in whole if context.params.get(value)]
    if taken:
        raise click.UsageError(f"{taken[0]} is about one run: it does not go with a batch")

    project = project_of(context.params)  # read once, as it was accepted
    telemetry = telemetry_of(context.params)  # one for all runs: they share its connections
    if telemetry is not None:
        telemetry.become_default()

    def make(task: Task) -> Any:
        import dataclasses

        spec = spec_of({**context.params, "otel": False}, project, task.prompt)
        return dataclasses.replace(spec, telemetry=telemetry, **task.options())

    return make
