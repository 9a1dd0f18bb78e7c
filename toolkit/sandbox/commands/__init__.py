"""A command of the owner's in a jail, without the CLI: its output as it comes, and how it ended."""

from toolkit.sandbox.commands.command import CommandEnd as CommandEnd, JailCommand as JailCommand, shell as shell
