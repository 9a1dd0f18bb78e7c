"""The section for a workspace whose mounts were packed on another machine and unpacked here.

To the agent everything is where it was on that machine, and is described in the same words. What was lent there is
shown where this machine has it at the same path, or refused by its name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.mount import HostMount
from toolkit_workspace.places import Places
from toolkit_workspace.section import WorkspaceSection
from toolkit_workspace.selecting import MountSummary, Secret
from toolkit_workspace.travelling.selected import mount_name


class ArrivedSection(WorkspaceSection):
    """A section over unpacked mounts; `facts` are those that were written down where they were packed.

    With `makes_lent` a setup is to make what was lent there: then only what is here is shown.

    Raises:
        WorkspaceError: a folder that was lent there is not here, or a mount cannot be as the facts say.
        KeyError, TypeError, ValueError: the facts are none.
    """

    def __init__(
        self,
        folder: Path,
        facts: Mapping[str, Any],
        *,
        parent: str | os.PathLike[str] | None = None,
        makes_lent: bool = False,
    ) -> None:
        mounts = [_unpacked(folder, number, one) for number, one in enumerate(facts["mounts"])]
        super().__init__(mounts, [folder], parent=parent, at=facts["at"])
        self._given = Places.from_json(facts["seen"])
        self._told = tuple(MountSummary.from_json(one["summary"]) for one in facts["mounts"])
        self._told_secrets = tuple(Secret(*one) for one in facts["secrets"])
        self._found: dict[str, Path] = {}
        self._projects: list[Path] = []
        for mount, one in zip(self.mounts, facts["mounts"], strict=True):
            found = _found(one, makes_lent=makes_lent)
            self._found |= found
            self._projects.append(Path(one["host_path"] if found else mount.host_path).resolve())
        self.show_over({})

    @property
    def projects(self) -> tuple[Path, ...]:
        """Where its owner's tools are looked for: where the mounts were, if something is lent from there."""
        return tuple(self._projects)

    def show_over(self, folders: Mapping[str, Path]) -> None:
        """Show these, and what was lent where the mounts were packed."""
        super().show_over({**self._found, **folders})

    def prepare(
        self,
        *,
        parent: str | os.PathLike[str] | None = None,
        keep: bool | None = None,
        no_overlay: str = "",
        home: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Copy the mounts; what is said of them is what was said where they were packed."""
        is_fresh = not self.is_prepared
        super().prepare(parent=parent, keep=keep, no_overlay=no_overlay, home=home)
        if is_fresh:
            self._summaries, self._secrets = self._told, self._told_secrets
            self._write_facts()
        return self


def _unpacked(folder: Path, number: int, facts: Mapping[str, Any]) -> HostMount:
    top = folder / os.fsdecode(mount_name(number))
    if facts["summary"]["is_file"]:
        top = top / str(facts["name"])
    return HostMount(top, facts["landing"], git=facts["git"])


def _found(mount: Mapping[str, Any], *, makes_lent: bool) -> dict[str, Path]:
    """The folders that were lent, by their place in the workspace, where this machine has them at the same path."""
    at = "" if mount["landing"] == "." else f"{mount['landing']}/"
    wanted = {f"{at}{name}": Path(mount["host_path"]) / name for name in mount["lend"]}
    found = {place: host.resolve() for place, host in wanted.items() if host.is_dir()}
    missing = [safe_name(str(host)) for place, host in wanted.items() if place not in found]
    if missing and not makes_lent:
        raise WorkspaceError(
            "folders that are lent to the agent are not on this machine",
            where=missing,
            fix="Make them there by a setup (--setup), have them there at the same paths, or lend nothing",
        )
    return found
