"""`toolkit approvals`: answer a run's questions from another terminal, and look after remembered answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_text
from toolkit.cli.terminal.command import NAMED, RUN, Group, json_option

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

_CHOICES = {
    "allow": "ALLOW_ONCE",
    "session": "ALLOW_SESSION",
    "project": "ALLOW_PROJECT",
    "always": "ALLOW_ALWAYS",
    "deny": "DENY",
}


@click.group(cls=Group)
def approvals() -> None:
    """Answer a run's questions, and see what is remembered."""


@approvals.command(example="$ toolkit approvals watch last")
@RUN
@json_option("One line of JSON for each.")
def watch(run: StoredRun, wants_json: bool) -> None:
    """Show a run's questions and answers as they happen."""
    from toolkit.cli.terminal.questions import question_lines
    from toolkit.runs.asking import RunClient
    from toolkit.runs.outcome import as_line

    with RunClient(run.folder) as client:
        for said in client.watch():
            if wants_json:
                click.echo(as_line(said))
                continue
            if "answered" in said:
                click.echo(f"{said['answered']['id']}  {said['answered']['decision']} ({said['answered']['by']})")
                continue
            asked = said["asked"]
            for line in question_lines(asked):
                click.echo(line)
            if "ALLOW_SESSION" in asked["suggestions"]:
                click.echo(safe_text(f"    session, project and always remember {asked['remembers']}"))


@approvals.command(
    example="$ toolkit approvals answer last ask-1 allow\n$ toolkit approvals answer last ask-2 deny -m 'Not that.'\n"
    "$ toolkit approvals answer last ask-3 allow --set branch=main --set push=no",
)
@RUN
@click.argument("question")
@click.argument("choice", type=click.Choice(list(_CHOICES)))
@click.option("-m", "--message", default="", help="What the model reads when you refuse.")
@click.option("--stop", is_flag=True, help="Refuse, and end the run.")
@click.option(
    "--set",
    "fields",
    type=NAMED,
    multiple=True,
    metavar="NAME=VALUE",
    help="Fill in a field of the form that a tool asks with; those left out have their defaults.",
)
def answer(
    run: StoredRun, question: str, choice: str, message: str, stop: bool, fields: tuple[tuple[str, str], ...]
) -> None:
    """Answer a question of a run.

    RUN is the run's id, the beginning of one, or 'last'; QUESTION is its id, as 'watch' shows it, with the fields of
    its form where it has one.
    """
    from toolkit.runs import Decision
    from toolkit.runs.asking import RunClient

    if stop and choice != "deny":
        raise click.UsageError("--stop goes with deny")
    if fields and choice != "allow":
        raise click.UsageError("--set goes with allow")
    kind: Any = _CHOICES[choice]
    with RunClient(run.folder) as client:
        client.answer(question, Decision(kind, message, stop), fields=dict(fields))


@approvals.command("list", example="$ toolkit approvals list")
@json_option("As JSON.")
def list_(wants_json: bool) -> None:
    """List what was allowed for a project or for always."""
    from toolkit.runs.asking import Remembered

    remembered = Remembered("")
    rows = remembered.listed()
    if remembered.warning:
        click.echo(remembered.warning, err=True)
    if wants_json:
        click.echo(json.dumps([{"scope": scope, "project": place, "subject": what} for scope, place, what in rows]))
        return
    for scope, place, what in rows:
        click.echo(safe_text(f"{scope:<8} {what:<40} {place}".rstrip()).replace("\n", "\\n"))
    if not rows:
        click.echo("nothing is remembered", err=True)


@approvals.command(example="$ toolkit approvals forget 'Bash(git status)'")
@click.argument("subject")
def forget(subject: str) -> None:
    """Forget what was allowed for a project or for always."""
    from toolkit.errors import RunError
    from toolkit.runs.asking import Remembered

    if not Remembered("").forget(subject):
        raise RunError(f"'{subject}' is not remembered", fix="See what is: toolkit approvals list").as_mistyped()
    click.echo(f"forgotten: {subject}", err=True)
