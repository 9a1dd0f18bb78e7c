"""`toolkit init`: a first project file for the project at hand."""

from __future__ import annotations

import click

from toolkit._base.words import safe_text
from toolkit.cli.terminal.command import command, json_option
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

EXAMPLE = """
$ toolkit init
$ toolkit init --dry-run
"""


@command(example=EXAMPLE)
@click.option("--force", is_flag=True, help="Replace the toolkit.toml that is there.")
@click.option("--dry-run", is_flag=True, help="Show it and write nothing.")
@json_option("Print what was found and written as JSON.")
def init(force: bool, dry_run: bool, wants_json: bool) -> None:
    """Write a toolkit.toml for the project in this folder.

    Looks at its language, tests, packages and secrets, and executes nothing of it. The file counts as accepted; change
    it as you like, and the next run asks about the change.
    """
    stdout = take_stdout()
    from toolkit.runs import suggest, write_suggestion

    suggestion = suggest()
    if not dry_run:
        write_suggestion(suggestion, force=force)
    text = suggestion.text()
    if wants_json:
        facts = {"file": str(suggestion.folder / "toolkit.toml"), "written": not dry_run, "text": text}
        write_result(stdout, as_json({**facts, "found": suggestion.found(), "test": suggestion.test}))
        return
    for line in suggestion.found():
        click.echo(f"found  {safe_text(line)}", err=True)
    click.echo("would write toolkit.toml:" if dry_run else "wrote toolkit.toml:", err=True)
    write_result(stdout, safe_text(text))
    click.echo("\nNext:", err=True)
    for words, what in _steps(suggestion.installs, is_written=not dry_run):
        click.echo(f"  {words:<45} {what}".rstrip(), err=True)


def _steps(installs: tuple[str, ...], *, is_written: bool) -> list[tuple[str, str]]:
    """What to type next, and what for."""
    from toolkit.sandbox import find_api

    steps = [(install, "the packages are not there yet") for install in installs]
    if not is_written:
        return [*steps, ("toolkit init", "write it")]
    steps += [("toolkit doctor --mount .", "which programs the agent will have")]
    steps += [("toolkit run --plan", "what it would be given; needs no key")]
    if find_api().lacks_key:
        steps += [("export ANTHROPIC_API_KEY=…", "a run needs a key for the model API")]
    return [*steps, ('toolkit run "Run the tests, and mend what fails."', "")]
