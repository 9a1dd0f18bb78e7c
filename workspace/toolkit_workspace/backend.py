"""The ways in which a workspace can get its files."""

from __future__ import annotations

from typing import Literal, get_args

from toolkit.errors import WorkspaceError

Backend = Literal["auto", "copy", "overlay"]


def checked_backend(backend: str) -> Backend:
    """One of the ways.

    Raises:
        WorkspaceError: there is no such way.
    """
    for known in get_args(Backend):
        if backend == known:
            return known  # type: ignore[no-any-return]
    raise WorkspaceError(f"there is no backend {backend!r}", fix="Write 'auto', 'copy' or 'overlay'.")
