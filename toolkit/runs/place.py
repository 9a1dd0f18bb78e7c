"""Where a run works: a prepared copy, a folder of the caller's, or an empty one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import RunError
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.run_folder import RunFolder
from toolkit.sandbox import LITTER, remove_litter
from toolkit.tools import Toolbox
from toolkit_servers.target import load_target

if TYPE_CHECKING:
    from toolkit_workspace import Changes, WorkspaceSection


@dataclass(frozen=True, slots=True)
class Place:
    """The folder a run works in, and the section it belongs to, if it is a copy."""

    folder: Path
    section: WorkspaceSection | None = None
    claimed: bool = False
    """Whether the run took hold of the section, and lets go of it at its end."""

    def changes(self) -> Changes | None:
        """What the agent changed; None where there is nothing to compare with."""
        if self.section is None:
            return None
        found = self.section.changes()
        litter = [change.path for change in found if change.kind == "added" and change.path.endswith(LITTER)]
        if not litter:
            return found
        remove_litter(self.folder, litter)
        return self.section.changes()

    def release(self) -> None:
        """Let other processes have the copy; the section goes on working in this one."""
        if self.section is not None and self.claimed:
            self.section.release()


def find_place(spec: RunSpec, stored: RunFolder) -> Place:
    """The place for a run; a section that is not prepared yet is prepared inside the run's folder and kept there."""
    given = spec.workspace
    if given is None:
        stored.workspace.mkdir(mode=0o700)
        return Place(stored.workspace)
    if isinstance(given, str | Path):
        folder = Path(given)
        if not folder.is_dir():
            raise RunError(f"the workspace '{folder}' is not a folder", fix="Name one that exists, or a section")
        return Place(folder.resolve())
    claimed = not given.is_held
    if claimed:
        given.prepare(parent=stored.folder, keep=True)
    return Place(given.temp_dir, given, claimed)


def load_boxes(spec: RunSpec) -> list[Toolbox]:
    """The toolboxes of a run: TARGETs are loaded, disabled tools left out.

    Raises:
        TargetError, ToolDefinitionError: a target that gives no tools.
        RunError: two of them have the same name.
    """
    boxes = [box if isinstance(box, Toolbox) else load_target(box).toolbox for box in spec.tools]
    names = [box.name for box in boxes]
    for name in names:
        if names.count(name) > 1:
            raise RunError(f"two servers are called '{name}'", fix="Give one Toolbox another name")
    policy = spec.rules()
    offered = [[tool for tool in box.tools if not policy.disabled(f"mcp__{box.name}__{tool}")] for box in boxes]
    return [box.only(*names) for box, names in zip(boxes, offered, strict=True) if names]


def project_of(spec: RunSpec) -> str:
    """What decisions for a project are kept under: the first host folder of its workspace, or the current one."""
    given = spec.workspace
    if isinstance(given, str | Path):
        return str(Path(given).resolve())
    if given is None or not given.mounts:
        return str(Path.cwd())
    return str(Path(given.mounts[0].host_path).resolve())
