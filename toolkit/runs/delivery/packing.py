"""Pack the commits of a workspace's git folder where nothing in it can do harm: in a jail.

An agent may have written anything there, settings that start programs included. So the
host's git never looks at it; what it gets is a pack, which it checks.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit._base.words import safe_text
from toolkit.errors import RunError
from toolkit.sandbox import ShellOptions, run_confined

if TYPE_CHECKING:
    from toolkit_workspace import WorkspaceSection
    from toolkit_workspace.git import Origin

_SECONDS = 300
_MOST_SAID = 2000


def packer(section: WorkspaceSection) -> Callable[[Origin, str, str | None, int], None]:
    """What packs the commits of a section's git folders, as `WorkspaceSection.deliver` takes it.

    Raises (the function):
        RunError: git in the jail failed.
        UnconfinedError: the jail was not proven to hold.
    """

    def pack(origin: Origin, tip: str, base: str | None, into: int) -> None:
        assert origin.git is not None
        options = ShellOptions(
            read_only=True,
            seconds=_SECONDS,
            lent=tuple((Path(host), inside) for one in section.shown.git for host, inside in one.lent),
        )
        where = str(section.temp_dir / origin.git)
        command = ["git", f"--git-dir={where}", "pack-objects", "--revs", "--thin", "--stdout", "-q"]
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
            asked.write("".join([f"{tip}\n", f"^{base}\n" if base else ""]).encode())
            asked.seek(0)
            ended = run_confined(
                command, section.temp_dir, options, stdin=asked.fileno(), stdout=into, stderr=said.fileno()
            )
            if ended.exit_code != 0:
                size = said.seek(0, os.SEEK_END)
                said.seek(max(0, size - _MOST_SAID))
                lines = safe_text(said.read().decode(errors="replace")).splitlines()
                raise RunError(
                    "the agent's commits cannot be packed in the jail",
                    where=lines[-3:] or [f"git ended with {ended.exit_code}"],
                    fix="Take the files as one commit instead: --squash",
                )

    return pack
