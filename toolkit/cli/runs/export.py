"""`toolkit runs export`: a stored run in a form that other programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolkit.cli.terminal.command import RUN, command
from toolkit.cli.terminal.results import take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

EXAMPLE = """
$ toolkit runs export last --format markdown > run.md
$ toolkit runs export run-6c1f --format otlp > spans.json
"""


@command(example=EXAMPLE)
@RUN
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown", "otlp"]),
    default="jsonl",
    show_default=True,
    help="Events as lines of JSON, a page to read, or spans for a collector.",
)
@click.option("--contents", is_flag=True, help="With otlp: also prompts, answers, arguments and results.")
def export(run: StoredRun, form: str, contents: bool) -> None:
    """Write RUN to stdout in a form that other programs read.

    otlp is one ExportTraceServiceRequest in JSON, with the same ids that --otel sends.
    """
    if contents and form != "otlp":
        raise click.UsageError(f"--contents is for --format otlp; {form} has them always")
    stdout = take_stdout()
    if form == "otlp":
        from toolkit.telemetry import otlp_json

        write_result(stdout, otlp_json(run.id, run.events(), contents=contents))
    elif form == "markdown":
        from toolkit.report import as_markdown

        write_result(stdout, as_markdown(run))
    else:
        for event in run.events():
            write_result(stdout, event.to_json())
