"""Keep a real run as a file and play it again without a CLI."""

from toolkit.testing.cassette.cassette import record, replay

__all__ = ["record", "replay"]
