"""`toolkit runs`: what the stored runs were asked, what they came to, and what becomes of their changes."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import cost_text, count_text, duration_text, safe_line, safe_text, size_text
from toolkit.cli.runs.clean import clean
from toolkit.cli.runs.deliver import branch, patch
from toolkit.cli.runs.export import export
from toolkit.cli.runs.rewinding import rewind
from toolkit.cli.runs.stop import stop
from toolkit.cli.terminal.command import (
    RUN,
    Duration,
    Group,
    apply_options,
    check_apply_options,
    json_option,
    mistyped_if_refused,
)
from toolkit.cli.terminal.results import (
    as_json,
    print_applied,
    print_changes,
    print_gone_on,
    take_stdout,
    telling_at_ctrl_c,
    write_result,
)
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.runs import RunResult, StoredRun

LIST_EXAMPLE = """
$ toolkit runs list
RUN               STATE     BEGAN                  TOOK      TOKENS       COST      SIZE  PROMPT
run-6c1f0e9a2b47  ok        2026-03-02 02:10   3 m 20 s     151,204    $0.8312   2.1 MiB  Make the failing test pass.
run-91d27be04c55  deadline  2026-03-02 02:04    1 m 0 s      40,210    $0.1904   512 KiB  List what is unclear.
"""

SHOW_EXAMPLE = """
$ toolkit runs show last
$ toolkit runs show run-6c1f --json
"""


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog="RUN is an id, the beginning of one, or 'last'. Run 'toolkit runs COMMAND --help' for an example.",
)
@json_option("Print the list as JSON.")
@click.pass_context
def runs(context: click.Context, wants_json: bool) -> None:
    """Look at stored runs, and take their changes back.

    Without a command: list them. They are stored below TOOLKIT_HOME.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command, limit=20, wants_json=wants_json)


runs.add_command(rewind)


@runs.command("list", example=LIST_EXAMPLE)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many.")
@json_option("Print them as JSON.")
def list_command(limit: int, wants_json: bool) -> None:
    """List the stored runs, the latest first.

    STATE is how a run ended, 'running', or 'crashed' where its launcher was killed.
    """
    stdout = take_stdout()
    from toolkit.runs import list_runs

    found = list_runs(on_damaged=_complain)
    rows = [row for row in (_row(run) for run in found[:limit]) if row is not None]
    if wants_json:
        write_result(stdout, as_json(rows))
        return
    if not rows:
        click.echo("There are no stored runs. To begin one: toolkit run PROMPT", err=True)
        return
    write_result(stdout, _table(rows))
    if len(found) > limit:
        click.echo(f"… and {len(found) - limit} older ones: --limit {len(found)}", err=True)


@runs.command(example=SHOW_EXAMPLE)
@RUN
@json_option("Print all of it as JSON.")
def show(run: StoredRun, wants_json: bool) -> None:
    """Show what RUN was asked and what it came to.

    Of a run that goes on, or whose launcher was killed: what its events tell so far.
    """
    stdout = take_stdout()
    state, facts = run.state, run.facts
    result = run.so_far() if state == "running" else run.result()
    if wants_json:
        data = {**result.to_data(), "changes": run.changed_files()}
        place = {"folder": str(run.folder), "unfinished_apply": run.unfinished_apply is not None}
        whole = {"run": run.id, "state": state, **place, "facts": facts, "warnings": run.warnings}
        write_result(stdout, as_json({**whole, "result": None if state == "running" else data}))
        return
    write_result(stdout, "\n".join(_story(run, state, facts, result)))


def _row(run: StoredRun) -> dict[str, Any] | None:
    """One run as the list shows it; None for one that is gone or cannot be read."""
    from toolkit.runs.storage import size_of

    try:
        state, facts = run.state, run.facts
        result = run.so_far() if state == "running" else run.result()
    except ToolkitError as error:
        if run.folder.exists():
            _complain(error)
        return None
    ended, unfinished = run.ended, run.unfinished_apply
    if unfinished is not None:
        _complain(unfinished)
    return {
        "run": run.id,
        "state": state,
        "code": None if state == "running" else result.code,
        "unfinished_apply": unfinished is not None,
        "began": facts["began"],
        "ended": ended,
        "ms": result.ms or round(((ended or time.time()) - facts["began"]) * 1000),
        "tokens": result.total.total,
        "cost": result.cost,
        "known_cost": result.known_cost,
        "bytes": size_of(run),
        "prompt": facts.get("prompt"),
        "folder": str(run.folder),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    ids = max(len(row["run"]) for row in rows)
    ends = [(row["code"] or row["state"]) + (", half applied" if row["unfinished_apply"] else "") for row in rows]
    states = max(8, *map(len, ends))
    costs = [cost_text(row["cost"], row["known_cost"]) for row in rows]
    wide = max(9, *map(len, costs))
    used = f"{'TOOK':>9}  {'TOKENS':>10}  {'COST':>{wide}}  {'SIZE':>8}"
    head = f"{'RUN':<{ids}}  {'STATE':<{states}}  {'BEGAN':<16}  {used}  PROMPT"
    lines = [head]
    for row, end, cost in zip(rows, ends, costs, strict=True):
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["began"]))
        used = f"{duration_text(row['ms']):>9}  {row['tokens']:>10,}  {cost:>{wide}}  {size_text(row['bytes']):>8}"
        prompt = safe_line(row["prompt"] or "", 60)
        lines.append(f"{row['run']:<{ids}}  {end:<{states}}  {began}  {used}  {prompt}".rstrip())
    return "\n".join(lines)


def _story(run: StoredRun, state: str, facts: dict[str, Any], result: RunResult[Any]) -> list[str]:
    from toolkit.cli.terminal.display import (
        attempts_lines,
        backend_lines,
        branch_lines,
        ending,
        failed_servers,
        gate_refusals,
        lent_lines,
        totals,
        waiting_lines,
    )
    from toolkit.runs.outcome import detail_lines

    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["began"]))
    how = ["running"] if state == "running" else ending(result)
    lines = [f"{run.id}  began {began}", *how, totals(result)]
    lines += [f"model      {safe_line(result.model, 80)}"] if result.model else []
    lines += [f"session    {result.session}"] if result.session else []
    lines += [f"workspace  {facts['workspace']}"] if "workspace" in facts else []
    lines += [f"inside     {safe_line(facts['inside'], 200)}"] if facts.get("inside") else []
    lines += _setup(run, facts, result)
    lines += [*backend_lines(facts), *lent_lines(facts)]
    lines += [f"branch     {line}" for line in branch_lines(result.delivery)] if result.delivery else []
    limits = ", ".join(f"{name} {value:.15g}" for name, value in (facts.get("limits") or {}).items())
    lines += [f"limits     {limits}"] if limits else []
    lines += [f"verify     {safe_line(facts['verify'], 200)}"] if facts.get("verify") else []
    lines += [f"protected  {safe_line(', '.join(facts['protect']), 200)}"] if facts.get("protect") else []
    lines += attempts_lines(result)
    points = run.checkpoints
    if len(points) > 1:
        lines += [f"rewind     {len(points)} checkpoints: toolkit runs rewind {run.id}"]
    lines += ["", "Asked:", *_indented(facts.get("prompt") or "")]
    if result.text:
        lines += ["", "Said:", *_indented(safe_text(result.text))]
    if result.tools:
        lines += ["", "Tools:"]
        marks = {one.id: "waits" for one in result.pending} | {one.id: "refused" for one in result.denied}
        for use in result.tools:
            mark = "ok" if use.ok else marks.get(use.id, "stopped" if use.interrupted else "failed")
            lines.append(f"  {mark:<8}{safe_line(use.name, 40):<40} {duration_text(use.ms):>9}")
        lines += [f"  refused {safe_text(one.name)}: {safe_text(one.reason)}" for one in result.denied]
    lines += ["", *waiting] if (waiting := waiting_lines(result)) else []
    for number, attempt in enumerate(result.attempts, 1):
        if attempt.output:
            lines += ["", f"Verification {number}:", *_indented(attempt.output)]
    lines += (
        ["", *(safe_text(f"warning: {what}").replace("\n", " ") for what in told)] if (told := run.warnings) else []
    )
    lines += ["", *lacking] if (lacking := [*gate_refusals(result), *failed_servers(result)]) else []
    if state != "running" and not result.ok and result.debug:
        lines += ["", "Details:", *(f"  {line}" for line in detail_lines(result.debug))]
    return [*lines, *_changed(run, state)]


def _setup(run: StoredRun, facts: dict[str, Any], result: RunResult[Any]) -> list[str]:
    """What its setup was and came to, and where that printed to."""
    from toolkit.cli.terminal.display import setup_line

    if not facts.get("setup"):
        return []
    lines = [safe_text(f"setup      {facts['setup']['command']}").replace("\n", " ")]
    lines += [setup_line(asdict(result.setup))] if result.setup is not None else []
    return [*lines, f"           printed to {run.setup_log}"] if run.setup_log.exists() else lines


def _changed(run: StoredRun, state: str) -> list[str]:
    """The changed files, and the commands that go on from there."""
    from toolkit.cli.terminal.display import next_steps

    if state == "running":
        return ["", f"Follow: toolkit runs events {run.id} --follow"]
    unfinished = run.unfinished_apply
    first = [] if unfinished is None else ["", *str(unfinished).splitlines()]
    try:
        changes = run.changes()
    except ToolkitError as error:
        known = [one for one in run.changed_files() or [] if not one.get("quiet")]
        return [*(["", f"{count_text(len(known), 'change')}; {error.what}"] if known else []), *first]
    return ["", changes.summary(), *(first or next_steps(run, changes))] if changes else first


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in safe_text(text).splitlines()]


def _complain(error: ToolkitError) -> None:
    click.echo(f"warning: {error}", err=True)


EVENTS_EXAMPLE = """
$ toolkit runs events last
$ toolkit runs events run-6c1f --follow --json | jq .kind
"""

DIFF_EXAMPLE = """
$ toolkit runs diff last
$ toolkit runs diff run-6c1f > change.patch
"""

APPLY_EXAMPLE = """
$ toolkit runs apply last --dry-run
$ toolkit runs apply run-6c1f src/app.py src/docs
"""

REMOVE_EXAMPLE = """
$ toolkit runs remove run-6c1f
$ toolkit runs remove --older-than 30d
"""


@runs.command(example=EVENTS_EXAMPLE)
@RUN
@click.option("--follow", is_flag=True, help="Wait for more until the run has ended.")
@json_option("Print each event as a line of JSON.")
def events(run: StoredRun, follow: bool, wants_json: bool) -> None:
    """Print what happened in RUN.

    A line for each tool call and warning, or with --json every event as it was stored.
    """
    stdout = take_stdout()
    from toolkit.cli.terminal.display import Display

    def say(line: str) -> None:
        if not write_result(stdout, line):
            sys.exit()  # nobody reads any more

    display = Display(terminal=False, say=say)
    for event in run.follow() if follow else run.events():
        if wants_json:
            say(event.to_json())
        else:
            display.show(event)
    if run.state == "crashed":
        click.echo("Its launcher was killed: that is all there is.", err=True)


@runs.command(example=DIFF_EXAMPLE)
@RUN
@click.option("--stat", is_flag=True, help="Print a table of the changed files instead.")
@json_option("Print the changed files as JSON.")
def diff(run: StoredRun, stat: bool, wants_json: bool) -> None:
    """Print what RUN changed, as a patch.

    'git apply' takes it, binary files and modes included. What was applied already is not in it.
    """
    stdout = take_stdout()
    changes = run.changes()
    if (unfinished := run.unfinished_apply) is not None:
        click.echo(f"{unfinished}\n", err=True)
    print_changes(stdout, changes, "json" if wants_json else "table" if stat else "patch")


@runs.command(example=APPLY_EXAMPLE)
@RUN
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@apply_options
def apply(
    run: StoredRun,
    paths: tuple[str, ...],
    mounts: tuple[str, ...],
    resume: bool,
    undo: bool,
    wants_json: bool,
    **how: bool,
) -> None:
    """Take the changes of RUN back to the host.

    All of them, or only the PATHs named, which are files or folders as 'toolkit runs diff --stat'
    shows them. All or nothing: if the host changed in a way that does not merge, nothing is written.
    """
    check_apply_options(resume, undo, chosen=bool(paths or mounts or any(how.values())))
    stdout = take_stdout()
    with telling_at_ctrl_c(lambda: run.unfinished_apply):
        if resume or undo:
            print_gone_on(stdout, run, undo=undo, wants_json=wants_json)
            return
        applied = run.apply(paths=paths or None, mounts=mounts or None, **how)
    print_applied(stdout, applied, wants_json=wants_json)


@runs.command(example=REMOVE_EXAMPLE)
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option("--older-than", type=Duration(), metavar="TIME", help="All that ended longer ago: 12h, 30d.")
@json_option("Print the ids of the removed ones as JSON.")
def remove(names: tuple[str, ...], older_than: float | None, wants_json: bool) -> None:
    """Remove runs with their workspaces; never one that runs.

    What was not applied is gone then, and a conversation goes with the last run
    that belongs to it.
    """
    if bool(names) == (older_than is not None):
        raise click.UsageError("name the runs to remove, or give --older-than")
    stdout = take_stdout()
    from toolkit.runs import remove_older_than
    from toolkit.runs.storage import find_run, latest_first

    if older_than is not None:
        removed = remove_older_than(older_than)
    else:
        with mistyped_if_refused():
            chosen = {run.id: run for run in map(find_run, names)}
        for run in latest_first(chosen.values()):
            run.remove()
        removed = list(chosen)
    if wants_json:
        write_result(stdout, as_json({"removed": removed}))
        return
    for name in removed:
        write_result(stdout, f"removed {name}")
    if not removed:
        click.echo("nothing to remove", err=True)


runs.add_command(clean)
runs.add_command(branch)
runs.add_command(patch)
runs.add_command(export)
runs.add_command(stop)
