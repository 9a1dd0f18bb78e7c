"""What a run would be given, said beforehand: nothing is copied, started or sent, and no key is needed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.runs.agents import shown_folders
from toolkit.runs.boxes import check_unloaded
from toolkit.runs.layers.wanted import SetupPlan, plan_setup
from toolkit.runs.spec import InPlace, RunSpec, make_spec
from toolkit.runs.storage.backing import why_whole
from toolkit.runs.storage.place import GIT_HISTORY, lent_rows, plan_place
from toolkit.sandbox import BaseURL, JailLimits, Layout, find_api, usable_readable
from toolkit_workspace import WorkspaceSection

if TYPE_CHECKING:
    from toolkit.runs.job.retry import Retry
    from toolkit.runs.job.verify import Verify
    from toolkit_workspace import Plan


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run would be given."""

    works_in: str
    """`copy`, `in place` or `empty`."""
    layout: Layout
    """Where things would appear inside, and what of the host would be lent."""
    copied: Plan | None
    """What would be copied; None where nothing is."""
    lent: tuple[dict[str, str], ...]
    """What would be shown from the host: `host`, `inside` and `what` it is."""
    readable: tuple[str, ...]
    """Further host paths that would be shown read-only."""
    environment: dict[str, str]
    """Variables that belong to what is lent."""
    variables: tuple[str, ...]
    """The names of the caller's variables; their values may be secrets."""
    path: tuple[str, ...]
    """Where commands would look for programs."""
    profile: str
    domains: tuple[str, ...]
    api_host: str
    """The host of the model API, which the gate reaches for it."""
    limits: dict[str, float]
    """The limits that were given, and the jail's own."""
    mode: str
    tools: tuple[str, ...]
    """The boxes of tools, or the TARGETs they would be loaded from."""
    servers: tuple[str, ...]
    setup: SetupPlan | None = None
    """What its setup would do; None where it has none."""
    verify: Verify | None = None
    """How the launcher would find out whether the work is done; None where it would not."""
    protect: tuple[str, ...] = ()
    """What the agent could not change."""
    retry: Retry | None = None
    """What would be tried again; None where nothing is."""
    branch: str | None = None
    """The branch that would be made at the end."""
    backend: tuple[str, str] | None = None
    """How the files would get into the workspace, 'copy' or 'overlay', and why; None where nothing is copied."""

    @property
    def start(self) -> str:
        """The agent's working directory, as it knows it."""
        return self.layout.start or self.layout.places[0][1]

    @property
    def has_git(self) -> bool:
        """Whether git would work in a mount, over the host's history."""
        return any(row["what"] == GIT_HISTORY for row in self.lent)

    def warnings(self) -> list[str]:
        """What the owner would be told before anything is sent."""
        if self.copied is None:
            return []
        from toolkit_workspace import left_unread_text, secrets_text

        secrets = secrets_text(self.copied.secrets) if self.copied.secrets else None
        unread = left_unread_text([(mount.mount_path, one) for mount in self.copied.mounts for one in mount.left_out])
        return [one for one in (secrets, unread) if one]

    def place_of(self, landing: str) -> str:
        """Where the agent would find a mount."""
        for part, inside in self.layout.places:
            if part == landing:
                return inside
        top = next((inside for part, inside in self.layout.places if part == "."), self.start)
        return str(Path(top, landing))

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain data."""
        copied: dict[str, Any] = (
            {"files": 0, "bytes": 0, "mounts": []} if self.copied is None else self.copied.to_json()
        )
        for mount in copied["mounts"]:
            mount["inside"] = self.place_of(mount["mount_path"])
        names = ("works_in", "start", "has_git", "environment", "profile", "api_host", "limits", "mode")
        lists = ("lent", "readable", "variables", "path", "domains", "tools", "servers")
        return {
            **{name: getattr(self, name) for name in names},
            **{name: list(getattr(self, name)) for name in lists},
            "setup": None if self.setup is None else self.setup.to_json(),
            **self._job(),
            "copied": copied,
            "backend": None if self.backend is None else {"used": self.backend[0], "why": self.backend[1]},
            "warnings": self.warnings(),
        }

    def _job(self) -> dict[str, Any]:
        """The launcher's own part."""
        verify: dict[str, Any] | None = None
        if self.verify is not None:
            verify = {"name": self.verify.name, "attempts": self.verify.attempts, "deadline": self.verify.deadline}
        retry = None if self.retry is None else {"times": self.retry.times, "on": list(self.retry.on)}
        return {"verify": verify, "protect": list(self.protect), "retry": retry, "branch": self.branch}


def plan_run(spec: RunSpec) -> RunPlan:
    """What a run would be given, by looking only.

    Raises:
        ToolkitError: the run cannot be as asked.
    """
    spec = make_spec(spec, {})
    check_unloaded(spec)
    setup = plan_setup(spec)
    layer = None if setup is None else setup.layer
    layout, toolchain, copied = plan_place(spec, layer)
    given = spec.workspace
    if spec.branch is not None and isinstance(given, WorkspaceSection):
        given.check_branch(spec.branch)
    machine = dataclasses.asdict(JailLimits(**spec.limits.of_the_machine()))
    path = spec.env["PATH"].split(":") if "PATH" in spec.env else layout.search_path
    return RunPlan(
        works_in="empty" if given is None else "in place" if isinstance(given, InPlace) else "copy",
        layout=layout,
        copied=copied,
        lent=tuple(lent_rows(layout, toolchain, layer)),
        readable=tuple(str(usable_readable(one)) for one in (*spec.readable, *shown_folders(spec))),
        environment=dict(layout.environment),
        variables=tuple(spec.env),
        path=tuple(path),
        profile=spec.jail_profile,
        domains=tuple(spec.domains),
        api_host=BaseURL.parse(find_api(**spec.reach()).url).host,
        limits={**{name: value for name, value in machine.items() if value is not None}, **spec.limits.given()},
        mode=spec.mode,
        tools=tuple(str(one) if isinstance(one, str | Path) else one.name for one in spec.tools),
        servers=tuple(spec.servers),
        setup=setup,
        verify=spec.verify,
        protect=tuple(str(path) for path in spec.protect),
        retry=spec.retry,
        branch=spec.branch,
        backend=_backend(spec, copied),
    )


def _backend(spec: RunSpec, copied: Plan | None) -> tuple[str, str] | None:
    if copied is None or not isinstance(spec.workspace, WorkspaceSection):
        return None
    return spec.workspace.plan_backend(copied, no_overlay=why_whole(spec), home=spec.home)
