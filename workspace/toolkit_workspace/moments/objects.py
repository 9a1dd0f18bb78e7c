"""Keep contents by their digest: the same bytes are stored once, however often they are kept."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from toolkit_workspace.record.content import Content, ContentGone


class Objects:
    """A folder of contents, each in a file named by its SHA-256."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, content: Content) -> str:
        """Store the bytes unless they are here already, and return their name."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        temporary = self.folder / f"new-{secrets.token_hex(8)}"
        digest = hashlib.sha256()
        try:
            with temporary.open("xb") as out:
                for piece in content.chunks():
                    digest.update(piece)
                    out.write(piece)
            name = digest.hexdigest()
            if (self.folder / name).exists():
                temporary.unlink()
            else:
                temporary.replace(self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return name

    def content(self, name: str, size: int) -> Content:
        """The bytes stored under a name."""

        def opened() -> int:
            try:
                return os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                raise ContentGone("a stored content is gone", where=[f"{name}: {error.strerror}"]) from error

        return Content(opened, size)
