"""The real CLI in a private home, talking to a scripted model."""

from toolkit.testing.real_cli.cli import FAKE_KEY, RealCLI, find_cli

__all__ = ["FAKE_KEY", "RealCLI", "find_cli"]
