"""Which text of a project file its user has accepted, kept per file in the state folder.

Somebody else's words may stand in such a file: those of whoever wrote the project, or
of an agent whose changes were taken back. So the text is asked about before it is obeyed
the first time, and again when it is another one. What cannot be read back, or is not what
was written, counts as not accepted.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from pathlib import Path

from toolkit._base.files import state_home, write_json
from toolkit._base.handles import READ_FILE

_MOST_BYTES = 4 * 1024 * 1024


def accepted_text(file: Path, home: Path | str | None = None) -> str | None:
    """The text that was last accepted for this file; None where none was, or what is kept is not sound."""
    try:
        handle = os.open(_place(file, home), READ_FILE)
    except OSError:
        return None
    try:
        st = os.fstat(handle)
        if not stat.S_ISREG(st.st_mode) or st.st_uid != os.geteuid() or st.st_mode & 0o022 or st.st_size > _MOST_BYTES:
            return None
        with os.fdopen(os.dup(handle), "rb") as opened:
            kept = json.loads(opened.read(_MOST_BYTES))
        text, fingerprint, path = kept["text"], kept["sha256"], kept["file"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    finally:
        os.close(handle)
    is_sound = isinstance(text, str) and path == str(file) and fingerprint == _fingerprint(file, text)
    return text if is_sound else None


def accept_text(file: Path, text: str, home: Path | str | None = None) -> None:
    """Keep a text as the one that was accepted for this file.

    Raises:
        OSError: it cannot be kept.
    """
    place = _place(file, home)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = {"file": str(file), "sha256": _fingerprint(file, text), "accepted": time.time(), "text": text}
    write_json(place, kept, durable=True)


def _place(file: Path, home: Path | str | None) -> Path:
    name = hashlib.sha256(os.fsencode(file)).hexdigest()[:32]
    return state_home(home) / "projects" / f"{name}.json"


def _fingerprint(file: Path, text: str) -> str:
    """What ties a text to its file."""
    return hashlib.sha256(os.fsencode(file) + b"\0" + text.encode("utf-8", "surrogatepass")).hexdigest()
