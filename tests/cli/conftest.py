"""What loading a user's code leaves behind in the interpreter is taken back after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def clean_imports() -> Iterator[None]:
    modules, path, finders = dict(sys.modules), list(sys.path), list(sys.meta_path)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]
    sys.modules.update(modules)
