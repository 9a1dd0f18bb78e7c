"""The CLI played from a script, without a process."""

from toolkit.testing.fake_cli._frames import Frame
from toolkit.testing.fake_cli.cli import FakeCLI

__all__ = ["FakeCLI", "Frame"]
