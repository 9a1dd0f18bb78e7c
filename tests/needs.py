"""What some tests need of the machine, and what becomes of them without it.

On a developer's machine they are skipped, with the reason. Where CI is set they
run and fail: a safety check that could not be made has not passed.
"""

from __future__ import annotations

import os

import pytest


def needs(available: object, reason: str) -> pytest.MarkDecorator:
    """Skip without it, but never in CI."""
    return pytest.mark.skipif(not available and not os.environ.get("CI"), reason=reason)
