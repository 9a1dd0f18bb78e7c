"""Help texts with an example: laid out as written, not wrapped."""

from __future__ import annotations

import click

TARGET_HELP = """TARGET is a file (tools.py), a file and a name (tools.py:box), or a module
(my_app.tools, my_app.tools:box). Without a name it stands for the one Toolbox
in there, else for every decorated function."""


class CommandWithExample(click.Command):
    """A command whose help ends with an example, shown line by line."""

    def __init__(self, *args: object, example: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        formatter.write("\nExample:\n")
        for line in self.example.strip().splitlines():
            formatter.write(f"  {line}\n")
