"""The CLI played from a script, without a process."""

from toolkit.testing.fake_cli.cli import FakeCLI
from toolkit.testing.fake_cli.frames import Frame

__all__ = ["FakeCLI", "Frame"]
