"""The layer that a run wants: what its setup would see, the key that follows, and whether it is there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.runs.agents import shown_folders
from toolkit.runs.layers.key import LayerKey, key_of
from toolkit.runs.layers.layer import Layer
from toolkit.runs.layers.store import Layers
from toolkit.runs.spec import RunSpec
from toolkit.sandbox import Layout, Toolchain, find_toolchain, usable_readable
from toolkit_workspace import WorkspaceSection

if TYPE_CHECKING:
    from toolkit.runs.job.setup import Setup


def section_of(spec: RunSpec) -> WorkspaceSection:
    """What a run with a setup works in."""
    assert isinstance(spec.workspace, WorkspaceSection), "a spec with a setup has a section"
    return spec.workspace


def projects_of(section: WorkspaceSection) -> list[Path]:
    """The host folders that are mounted."""
    return [path for path in section.projects if path.is_dir()]


def tools_of(spec: RunSpec) -> Toolchain:
    """What the command may use of the owner's: interpreters, and no environment that lies in a mount."""
    if not spec.toolchain:
        return Toolchain()
    return find_toolchain(projects_of(section_of(spec)), {"PATH": os.environ.get("PATH", "")}, bare=True)


def readable_of(spec: RunSpec) -> tuple[Path, ...]:
    """Further host paths that are shown to the agent, and to its setup."""
    return tuple(usable_readable(path) for path in (*spec.readable, *shown_folders(spec)))


def wanted_key(spec: RunSpec, setup: Setup) -> LayerKey:
    """The key of the layer that a run's setup would make; raises as `key_of` does."""
    return key_of(
        setup.command,
        section_of(spec),
        env=setup.env,
        keyed_by=[str(one) for one in setup.keyed_by],
        path=(*tools_of(spec).path, *Layout().search_path),
        readable=[str(one) for one in readable_of(spec)],
    )


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """A setup that a run would begin with."""

    command: str
    key: str
    inputs: tuple[str, ...]
    """The files it depends on, relative to the workspace."""
    domains: tuple[str, ...]
    deadline: float
    layer: Layer | None
    """What it made before; None where it would run."""

    @property
    def is_there(self) -> bool:
        """Whether its layer is there, so that nothing would run."""
        return self.layer is not None

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain data."""
        data: dict[str, Any] = {"command": self.command, "key": self.key, "inputs": list(self.inputs)}
        data |= {"domains": list(self.domains), "deadline": self.deadline, "is_there": self.is_there}
        return data | ({} if self.layer is None else {"places": list(self.layer.places), "bytes": self.layer.size})


def plan_setup(spec: RunSpec) -> SetupPlan | None:
    """What the setup of a run would do, by looking only; None where it has none.

    Raises:
        ToolkitError: it cannot be as asked.
    """
    setup = spec.setup
    if setup is None or spec.workspace is None:
        return None
    key = wanted_key(spec, setup)
    layer = Layers(spec.home).hold(key.name)
    if layer is not None:
        layer.release()
    inputs = tuple(place for place, _ in key.inputs)
    return SetupPlan(setup.command, key.name, inputs, tuple(setup.domains), setup.deadline, layer)
