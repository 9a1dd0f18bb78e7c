"""Help that ends with an example, laid out as it is written."""

from __future__ import annotations

from typing import Any

import click


class CommandWithExample(click.Command):
    """A command whose help ends with an example, shown line by line."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example.strip()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        with formatter.section("Example"):
            formatter.write("".join(f"  {line}\n" for line in self.example.splitlines()))
