"""`toolkit runs`: what the stored runs were asked, what they came to, and what they cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

import click

from toolkit._base.words import duration_text, safe_line, safe_text
from toolkit.cli import Entry, LazyGroup
from toolkit.cli._help import CommandWithExample
from toolkit.cli._results import as_json, take_stdout, write_result
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.runs import RunResult, StoredRun, ToolUse

LIST_EXAMPLE = """
$ toolkit runs list
RUN               STATE     BEGAN                  TOOK      TOKENS       COST  PROMPT
run-6c1f0e9a2b47  ok        2026-03-02 02:10   3 m 20 s     151,204    $0.8312  Make the failing test pass.
run-91d27be04c55  deadline  2026-03-02 02:04    1 m 0 s      40,210    $0.1904  List what is unclear.
"""

SHOW_EXAMPLE = """
$ toolkit runs show last
$ toolkit runs show run-6c1f --json
"""


class _RunsGroup(LazyGroup):
    table: ClassVar[dict[str, Entry]] = {
        "apply": Entry("toolkit.cli.runs_review:apply", "Take the changes of RUN back to the host."),
        "diff": Entry("toolkit.cli.runs_review:diff", "Print what RUN changed, as a patch."),
        "events": Entry("toolkit.cli.runs_review:events", "Print what happened in RUN."),
        "list": Entry("toolkit.cli.runs:list_command", "List the stored runs, the latest first."),
        "remove": Entry("toolkit.cli.runs_review:remove", "Remove runs with their workspaces; never one that runs."),
        "show": Entry("toolkit.cli.runs:show", "Show what RUN was asked and what it came to."),
    }


@click.group(
    cls=_RunsGroup,
    invoke_without_command=True,
    epilog="RUN is an id, the beginning of one, or 'last'. Run 'toolkit runs COMMAND --help' for an example.",
)
@click.option("--json", "wants_json", is_flag=True, help="Print the list as JSON.")
@click.pass_context
def runs(context: click.Context, wants_json: bool) -> None:
    """Look at stored runs, and take their changes back.

    Without a command: list them. They are stored below TOOLKIT_HOME.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command, limit=20, wants_json=wants_json)


@click.command("list", cls=CommandWithExample, example=LIST_EXAMPLE)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many.")
@click.option("--json", "wants_json", is_flag=True, help="Print them as JSON.")
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


@click.command(cls=CommandWithExample, example=SHOW_EXAMPLE)
@click.argument("run", metavar="RUN")
@click.option("--json", "wants_json", is_flag=True, help="Print all of it as JSON.")
def show(run: str, wants_json: bool) -> None:
    """Show what RUN was asked and what it came to.

    Of a run that goes on, or whose launcher was killed: what its events tell so far.
    """
    stdout = take_stdout()
    from toolkit.runs import load_run

    stored = load_run(run)
    state, facts = stored.state, stored.facts
    result = stored.so_far() if state == "running" else stored.result()
    if wants_json:
        data = {**result.to_data(), "changes": stored.changed_files()}
        whole = {"run": stored.id, "state": state, "folder": str(stored.folder), "facts": facts}
        write_result(stdout, as_json({**whole, "result": None if state == "running" else data}))
        return
    write_result(stdout, "\n".join(_story(stored, state, facts, result)))


def _row(run: StoredRun) -> dict[str, Any] | None:
    """One run as the list shows it; None for one that is gone or cannot be read."""
    try:
        state, facts = run.state, run.facts
        result = run.so_far() if state == "running" else run.result()
    except ToolkitError as error:
        if run.folder.exists():
            _complain(error)
        return None
    ended = run.ended
    ms = result.ms or round(((ended or time.time()) - facts["began"]) * 1000)
    return {
        "run": run.id,
        "state": state,
        "code": None if state == "running" else result.code,
        "began": facts["began"],
        "ended": ended,
        "ms": ms,
        "tokens": result.total.total,
        "cost": result.cost,
        "prompt": facts.get("prompt"),
        "folder": str(run.folder),
    }


def _table(rows: list[dict[str, Any]]) -> str:

    ids = max(len(row["run"]) for row in rows)
    states = max(8, *(len(row["code"] or row["state"]) for row in rows))
    lines = [f"{'RUN':<{ids}}  {'STATE':<{states}}  {'BEGAN':<16}  {'TOOK':>9}  {'TOKENS':>10}  {'COST':>9}  PROMPT"]
    for row in rows:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["began"]))
        used = f"{duration_text(row['ms']):>9}  {row['tokens']:>10,}  {'$' + format(row['cost'], '.4f'):>9}"
        prompt = safe_line(row["prompt"] or "", 60)
        lines.append(
            f"{row['run']:<{ids}}  {row['code'] or row['state']:<{states}}  {began}  {used}  {prompt}".rstrip()
        )
    return "\n".join(lines)


def _story(stored: StoredRun, state: str, facts: dict[str, Any], result: RunResult[Any]) -> list[str]:
    from toolkit.cli._run_display import totals

    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["began"]))
    how = "running" if state == "running" else f"{result.code}: {result.message}"
    lines = [f"{stored.id}  began {began}", how, totals(result)]
    lines += [f"model      {safe_line(result.model, 80)}"] if result.model else []
    lines += [f"session    {result.session}"] if result.session else []
    lines += [f"workspace  {facts['workspace']}"] if "workspace" in facts else []
    limits = ", ".join(f"{name} {value:g}" for name, value in (facts.get("limits") or {}).items())
    lines += [f"limits     {limits}"] if limits else []
    lines += ["", "Asked:", *_indented(facts.get("prompt") or "")]
    if result.text:
        lines += ["", "Said:", *_indented(safe_text(result.text))]
    if result.tools:
        lines += ["", "Tools:", *(_tool_line(use) for use in result.tools)]
        lines += [f"  refused {safe_text(one.name)}: {safe_text(one.reason)}" for one in result.denied]
    return [*lines, *_changed(stored, state)]


def _tool_line(use: ToolUse) -> str:

    return f"  {'ok' if use.ok else 'failed':<8}{safe_line(use.name, 40):<40} {duration_text(use.ms):>9}"


def _changed(stored: StoredRun, state: str) -> list[str]:
    """The changed files, and the commands that go on from there."""
    if state == "running":
        return ["", f"Follow: toolkit runs events {stored.id} --follow"]
    try:
        changes = stored.changes()
    except ToolkitError as error:
        known = stored.changed_files()
        return ["", f"{len(known)} files were changed; {error.what}"] if known else []
    if not changes:
        return []
    return ["", changes.summary(), "", f"Look: toolkit runs diff {stored.id}", f"Take: toolkit runs apply {stored.id}"]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in safe_text(text).splitlines()]


def _complain(error: ToolkitError) -> None:
    click.echo(f"warning: {error}", err=True)
