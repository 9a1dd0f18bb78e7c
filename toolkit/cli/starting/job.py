"""The options of `toolkit run` about the launcher's own part: verifying, protecting, trying again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.terminal.command import Duration, with_options

if TYPE_CHECKING:
    from toolkit.runs import ProjectFile

job_options = with_options(
    click.option("--verify", metavar="COMMAND", help="Run this when the agent is done; exit code 0 is success."),
    click.option(
        "--attempts",
        type=click.IntRange(min=1),
        metavar="N",
        help="Verify up to N times, and let the agent mend what fails.  [default: 1]",
    ),
    click.option("--verify-deadline", type=Duration(), metavar="TIME", help="End it after that.  [default: 10m]"),
    click.option("--protect", multiple=True, metavar="PATH", help="A file or folder that the agent cannot change."),
    click.option(
        "--retry",
        type=click.IntRange(min=1),
        metavar="N",
        help="Try again up to N times when the model API or the agent's process fails.",
    ),
    title="Verification",
)
"""Each is a part of `RunSpec`."""


def job_of(given: dict[str, Any], project: ProjectFile | None = None) -> dict[str, Any]:
    """The options as a run takes them; those about what the project file says are parts of it.

    Raises:
        click.UsageError: options about a verification, and no command for it.
        OptionError: one is not what it may be.
    """
    from toolkit.runs import Retry, Verify

    parts = {"command": given["verify"], "attempts": given["attempts"], "deadline": given["verify_deadline"]}
    verify: Any = {name: value for name, value in parts.items() if value is not None}
    if verify and (project is None or project.said("verify") is None):
        if given["verify"] is None:
            option = "--attempts" if given["attempts"] is not None else "--verify-deadline"
            raise click.UsageError(f"{option} is about a verification: write --verify COMMAND as well")
        verify = Verify(verify.pop("command"), **verify)
    retry: Any = None if given["retry"] is None else {"times": given["retry"]}
    if retry and (project is None or project.said("retry") is None):
        retry = Retry(**retry)
    return {"verify": verify or None, "protect": given["protect"] or None, "retry": retry}
