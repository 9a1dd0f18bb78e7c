"""`toolkit batch`: many tasks from a file, each done once, also after a kill."""

from __future__ import annotations

import click

from toolkit.cli.batches.check import check_command
from toolkit.cli.batches.doing import run_batch
from toolkit.cli.batches.report import report
from toolkit.cli.batches.standings import list_command, show
from toolkit.cli.batches.top import retry, top
from toolkit.cli.terminal.command import Group


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


for one in (run_batch, show, list_command, top, report, retry, check_command):
    batch.add_command(one)
