"""The setup phase of a run: its layer is found and held, or made now, and used only as it was sealed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.errors import RunError, ToolkitError
from toolkit.runs.job.making import InputsChangedError, Making
from toolkit.runs.job.output import Output
from toolkit.runs.job.setup import Setup, SetupFailedError
from toolkit.runs.layers.harvest import Harvest
from toolkit.runs.layers.key import LayerKey
from toolkit.runs.layers.layer import Layer
from toolkit.runs.layers.store import Layers
from toolkit.runs.layers.wanted import projects_of, readable_of, section_of, tools_of, wanted_key
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.run_folder import SETUP_LOG, RunFolder
from toolkit.runs.storage.stored_run import StoredRun
from toolkit.runs.storage.stored_runs import run_of_session
from toolkit.sandbox import JailLimits, Refusal, find_toolchain
from toolkit_workspace import WorkspaceSection

Tell = Callable[..., None]
"""Takes a stream, a kind and data: an event of the run."""
_TRIES = 3
_WAITS = "another run makes the same layer just now: this one waits for it"
_MOST_NAMED = 10


class SettingUp:
    """One run's setup, between `begin` and `release`.

    Args:
        stored: Where the run keeps what the command prints.
        tell: Called for each event.
        warn: Called for each thing that the owner should know.
    """

    def __init__(self, spec: RunSpec, stored: RunFolder, tell: Tell, warn: Callable[[str], None]) -> None:
        self._spec = spec
        self._stored = stored
        self._tell = tell
        self._warn = warn
        self._layers = Layers(spec.home)
        self._key: LayerKey | None = None
        self._layer: Layer | None = None
        self._looking: asyncio.Future[bool] | None = None
        """Whether the layer is as it was sealed, while the rest of the run is made ready."""

    async def begin(self) -> Layer | None:
        """The layer for the run, held; None where the run has no setup.

        Raises:
            SetupFailedError: it cannot be made.
            ToolkitError: it cannot be as asked.
        """
        earlier = await asyncio.to_thread(_gone_on_with, self._spec)
        if earlier is not None:
            await self._take_up(earlier)
        elif self._spec.setup is not None:
            await self._find_or_make(self._spec.setup)
        return self._layer

    async def confirm(self) -> None:
        """Go on only with a layer that is what its setup made; one that is not is made again.

        Raises:
            SetupFailedError: it cannot be, or has other folders then.
        """
        if self._looking is None or self._layer is None or await self._looking:
            return
        damaged, setup = self._layer, self._spec.setup
        if setup is None or self._key is None:
            raise SetupFailedError(f"the layer {damaged.short} is no longer what its setup made: it is not used")
        self._warn(f"the layer {damaged.short} is no longer what its setup made: it is made again")
        damaged.release()
        made = await self._make(setup, self._key, instead_of=damaged)
        if made.places != damaged.places:
            raise SetupFailedError("the layer was made again and has other folders: start the run again")

    def release(self) -> None:
        """Let others remove the layer."""
        if self._layer is not None:
            self._layer.release()

    async def _take_up(self, earlier: StoredRun) -> None:
        """The layer that the conversation has worked with: what it was given stays as it was."""
        setup, facts = self._spec.setup, earlier.facts.get("setup") or {}
        if setup is not None and setup.command != facts.get("command"):
            was = f"had the setup {facts['command']!r}" if facts else "had no setup"
            raise RunError(
                f"this goes on in the workspace of run {earlier.id}, which {was}",
                fix="Leave --setup (setup=…) out, or start from the host's files: --mount …, workspace=…",
            )
        if not facts.get("key"):
            return
        layer = await asyncio.to_thread(self._layers.hold, facts["key"])
        if layer is None:
            raise RunError(
                f"the layer that run {earlier.id} worked with was removed: {facts['key'][:12]}",
                where=[f"it was made by: {facts.get('command')}"],
                fix="Start from the host's files, with the setup: --mount … --setup …",
            )
        self._use(layer)

    async def _find_or_make(self, setup: Setup) -> None:
        key = self._key = await asyncio.to_thread(wanted_key, self._spec, setup)
        layer = await asyncio.to_thread(self._layers.hold, key.name)
        if layer is None:
            if self._spec.branch is not None:  # what cannot be delivered is said before minutes of installing
                await asyncio.to_thread(section_of(self._spec).check_branch, self._spec.branch)
            await self._make(setup, key)
        else:
            self._use(layer)

    def _use(self, layer: Layer) -> None:
        """Work with a layer that is there, and look meanwhile whether it is what it was."""
        self._layer = layer
        layer.touch()
        self._looking = asyncio.ensure_future(asyncio.to_thread(layer.is_as_sealed))
        self._ended(layer, made=False, ms=0)

    async def _make(self, setup: Setup, key: LayerKey, *, instead_of: Layer | None = None) -> Layer:
        """Make the layer, or wait for whoever makes it just now."""
        for _ in range(_TRIES):
            self._key = key
            async with self._layers.making(key.name, lambda: self._warn(_WAITS)):
                layer = await asyncio.to_thread(self._layers.hold, key.name)
                if layer is not None and (instead_of is None or layer.facts["made"] != instead_of.facts["made"]):
                    self._use(layer)
                    return layer
                if layer is not None:
                    layer.release()
                try:
                    return await self._make_now(setup, key)
                except InputsChangedError:
                    key = await asyncio.to_thread(wanted_key, self._spec, setup)
        raise SetupFailedError("the files that the setup depends on are being changed: start the run again")

    async def _make_now(self, setup: Setup, key: LayerKey) -> Layer:
        began = time.monotonic()
        inputs = [place for place, _ in key.inputs]
        self._tell(
            "setup", "started", command=setup.command, key=key.name, domains=list(setup.domains), inputs=inputs,
            deadline=setup.deadline,
        )  # fmt: skip
        if not inputs:
            self._warn("no lock file was found: the setup runs again only when its command changes (--setup-keyed-by)")
        output = Output(
            self._stored.folder / SETUP_LOG, lambda text: self._tell("setup", "output", text=text), setup.env.values()
        )
        try:
            layer, harvest = await _making(self._spec, setup, key, self._layers).make(output, self._refused)
        except BaseException as error:
            output.close()
            if not isinstance(error, InputsChangedError):
                ms = round((time.monotonic() - began) * 1000)
                why = error.what if isinstance(error, ToolkitError) else type(error).__name__
                self._tell("setup", "ended", ok=False, command=setup.command, key=key.name, made=False, ms=ms, why=why)
            raise
        self._layer, self._looking = layer, None
        self._ended(layer, made=True, ms=round((time.monotonic() - began) * 1000))
        self._tell_left(layer, harvest)
        return layer

    def _ended(self, layer: Layer, *, made: bool, ms: int) -> None:
        facts: dict[str, Any] = {"command": layer.command, "key": layer.key, "made": made, "ms": ms}
        facts |= {"places": list(layer.places), "bytes": layer.size, "files": layer.files}
        self._tell("setup", "ended", ok=True, **facts)

    def _tell_left(self, layer: Layer, harvest: Harvest) -> None:
        """What of the setup's work the agent does not get."""
        if not layer.places and not any(layer.cache.iterdir()):
            self._warn(
                "the setup made nothing that is kept: that is new folders of a mount which an ignore rule names, "
                "installations, and what it puts into $TOOLKIT_CACHE"
            )
        if harvest.left:
            more = f" and {len(harvest.left) - _MOST_NAMED:,} more" if len(harvest.left) > _MOST_NAMED else ""
            named = ", ".join(harvest.left[:_MOST_NAMED])
            self._warn(f"not kept of what the setup did in the mounts: {named}{more}")

    def _refused(self, refusal: Refusal) -> None:
        fix = refusal.fix.replace("--allow-domain", "--setup-domain").partition(", in Python")[0]
        self._tell("gate", "refused", what=refusal.request, rule=refusal.code, why=refusal.message, fix=fix, times=1)


def _gone_on_with(spec: RunSpec) -> StoredRun | None:
    """The run in whose workspace this one goes on; None where it starts from the host's files."""
    earlier = None if spec.resume is None else run_of_session(spec.resume, spec.home)
    if earlier is None or spec.workspace is None:
        return earlier
    section = spec.workspace
    is_same = isinstance(section, WorkspaceSection) and section.is_prepared and not section.is_held
    return earlier if is_same and earlier.facts["workspace"] == str(section.temp_dir) else None  # type: ignore[union-attr]


def _making(spec: RunSpec, setup: Setup, key: LayerKey, layers: Layers) -> Making:
    section = section_of(spec)
    whole = find_toolchain(projects_of(section))
    installed = []
    for mount in section.mounts:
        top = "" if mount.landing == "." else f"{mount.landing}/"
        installed += [f"{top}{folder}" for folder in whole.inside(Path(mount.host_path).resolve())]
    limits = JailLimits(**spec.limits.of_the_machine())
    return Making(setup, key, section, tools_of(spec), installed, readable_of(spec), limits, layers)
