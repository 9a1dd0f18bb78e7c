"""Make a layer: the command runs in a copy of its own, what it made is taken out, and the copy is thrown away.

All of it happens in a folder with another name, which becomes the layer in one step when it is complete. A kill at
any moment leaves that folder behind without a holder, and whoever makes the next layer removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.files import write_json
from toolkit._base.handles import remove_folder
from toolkit._base.locks import Lock, hold
from toolkit._base.words import duration_text, size_text
from toolkit.errors import WorkspaceError
from toolkit.runs.job.output import Output
from toolkit.runs.job.setup import Setup, SetupFailedError
from toolkit.runs.layers.harvest import MOST_PLACES, Harvest, Known, gather, listed, look, open_to_readers
from toolkit.runs.layers.inputs import digest_beneath
from toolkit.runs.layers.key import LayerKey
from toolkit.runs.layers.layer import FACTS, OUTPUT, Layer
from toolkit.runs.layers.seal import seal
from toolkit.runs.layers.store import Layers, most_bytes
from toolkit.sandbox import CACHE, Jail, JailLimits, Layout, Refusal, Toolchain
from toolkit.sandbox.commands import CommandEnd, JailCommand, shell
from toolkit_workspace import WorkspaceSection, without_places

_WORK, _COPY_CACHE = "work", "cache"
_ENVIRONMENT = {
    "TOOLKIT_CACHE": CACHE,
    # Where a later command finds what was installed: what these leave in the home is gone with the jail.
    "CARGO_HOME": f"{CACHE}/cargo",
    "GOMODCACHE": f"{CACHE}/go-mod",
    "UV_PYTHON_INSTALL_DIR": f"{CACHE}/python",
    "UV_LINK_MODE": "copy",
    "POETRY_VIRTUALENVS_IN_PROJECT": "true",
    "PIPENV_VENV_IN_PROJECT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
}


class InputsChangedError(Exception):
    """A file that the key is of was changed on the host before it was copied."""


@dataclass(frozen=True, slots=True)
class Making:
    """All that is needed to make one layer."""

    setup: Setup
    key: LayerKey
    section: WorkspaceSection
    """What the run works in; it is not touched."""
    tools: Toolchain
    """What of the owner's the command may use: no environment of a mount's own."""
    installed: Sequence[str]
    """Places of the workspace where the host has installations, which stay away."""
    readable: tuple[Path, ...]
    limits: JailLimits
    layers: Layers

    async def make(self, output: Output, on_refused: Callable[[Refusal], None]) -> tuple[Layer, Harvest]:
        """Run the command and keep what it made; the layer is held.

        Raises:
            SetupFailedError: the command failed, hung, or what it made cannot be kept.
            InputsChangedError: the key is not that of the files that were copied.
            ToolkitError: the copy cannot be made, or the jail not be proven.
        """
        try:
            await asyncio.to_thread(self.layers.sweep)
            folder, lock = await asyncio.to_thread(self.layers.new, self.key.name)
        except OSError as error:
            raise self._not_kept(error) from error
        try:
            return await self._make_in(folder.resolve(), lock, output, on_refused)
        except BaseException:
            await asyncio.to_thread(_remove, folder)
            lock.release()
            raise

    async def _make_in(
        self, folder: Path, lock: Lock, output: Output, on_refused: Callable[[Refusal], None]
    ) -> tuple[Layer, Harvest]:
        work = folder / _WORK
        copy, before = await _unhurried(asyncio.to_thread(self._prepare, work))
        try:
            end = await JailCommand(
                shell(self.setup.command),
                self._jail(work, copy),
                domains=self.setup.domains,
                seconds=self.setup.deadline,
                on_output=output.take,
                on_refused=on_refused,
            ).run()
            last = output.close()
            self._judge(end, last)
            harvest = await _unhurried(asyncio.to_thread(self._take_out, folder, copy, before, last))
        except OSError as error:
            raise self._not_kept(error) from error
        finally:
            with contextlib.suppress(WorkspaceError):
                await _unhurried(asyncio.to_thread(copy.cleanup))
        try:
            return await _unhurried(asyncio.to_thread(self._keep, folder, harvest, end, output, lock)), harvest
        except OSError as error:
            raise self._not_kept(error) from error

    def _prepare(self, work: Path) -> tuple[WorkspaceSection, Known]:
        """A copy for the command alone, and what is in it."""
        (work / _COPY_CACHE).mkdir(mode=0o755, parents=True)
        section = self.section
        copy = WorkspaceSection(
            [without_places(mount, self.installed) for mount in section.mounts],
            section.allowed_host_roots,
            at=section.at,
            keep_bases=False,
        )
        copy.prepare(parent=work, keep=True)
        for place, digest in self.key.inputs:
            if digest_beneath(copy.temp_dir, place) not in (None, digest):  # a rule of the mount may leave it behind
                raise InputsChangedError
        copy.show_inside()
        return copy, listed(copy.temp_dir)

    def _jail(self, work: Path, copy: WorkspaceSection) -> Jail:
        around, places = copy.temp_dir.name, copy.places
        lent = [(Path(host), inside) for host, inside in copy.shown.all]
        known = {inside for _, inside in lent}
        lent += [(one.host, one.inside) for one in self.tools.lent if one.inside not in known]
        parts = tuple((str(Path(around, part.landing)), part.inside) for part in places.parts)
        layout = Layout(places=parts, start=places.start, lent=tuple(lent), path=self.tools.path)
        return Jail(
            workspace=work,
            places=(*layout.places, (_COPY_CACHE, CACHE)),
            start=layout.start,
            lent=layout.lent,
            readable=self.readable,
            environment={**_ENVIRONMENT, "PATH": ":".join(layout.search_path), **self.setup.env},
            limits=self.limits,
            sole=True,
        )

    def _judge(self, end: CommandEnd, last: Sequence[str]) -> None:
        if end.exceeded is not None:
            raise SetupFailedError(f"the setup was ended: {end.exceeded}", last)
        if end.is_late:
            given = duration_text(self.setup.deadline * 1000)
            raise SetupFailedError(f"the setup did not end within its deadline of {given}", last)
        if end.exit_code != 0:
            raise SetupFailedError(f"the setup ended with exit code {end.exit_code}", last)

    def _take_out(self, folder: Path, copy: WorkspaceSection, before: Known, last: Sequence[str]) -> Harvest:
        """Take out of the copy what was made."""
        harvest = look(copy.temp_dir, before, copy.ignored)
        if len(harvest.kept) > MOST_PLACES:
            what = f"the setup made folders in {len(harvest.kept):,} places; a layer has {MOST_PLACES} at most"
            raise SetupFailedError(what, last)
        (folder / "tree").mkdir(mode=0o755)
        gather(copy.temp_dir, harvest.kept, folder / "tree")
        (folder / _WORK / _COPY_CACHE).rename(folder / "cache")
        return harvest

    def _keep(self, folder: Path, harvest: Harvest, end: CommandEnd, output: Output, lock: Lock) -> Layer:
        """Seal what was taken out, and give it its name."""
        remove_folder(folder / _WORK)
        for part in ("tree", "cache"):
            open_to_readers(folder / part)
        sealed = seal(folder)
        facts: dict[str, Any] = {
            "format": 1,
            "command": self.setup.command,
            "domains": list(self.setup.domains),
            "variables": sorted(self.setup.env),
            "inputs": [list(pair) for pair in self.key.inputs],
            "mounts": [str(Path(mount.host_path).absolute()) for mount in self.section.mounts],
            "machine": self.key.machine,
            "places": list(harvest.kept),
            "left": list(harvest.left[:100]),
            "made": time.time(),
            "ms": end.ms,
            "bytes": sealed.size,
            "files": sealed.files,
            "content": sealed.content,
            "stamps": sealed.stamps,
        }
        shutil.copyfile(output.path, folder / OUTPUT)
        write_json(folder / FACTS, facts, indent=1, durable=True)
        self.layers.place(folder, self.key.name)
        hold(lock.handle, shared=True)
        layer = Layer.read(self.layers.folder / self.key.name).held(lock)
        layer.touch()
        self.layers.shrink(most_bytes(), besides=[layer.key])
        return layer

    def _not_kept(self, error: OSError) -> SetupFailedError:
        free = ""
        if self.layers.folder.exists():
            free = f" ({size_text(shutil.disk_usage(self.layers.folder).free)} free)"
        where = f"{self.layers.folder}{free}"
        return SetupFailedError(f"what the setup made cannot be kept: {error.strerror or error}", [where])


async def _unhurried(work: Any) -> Any:
    """What a thread gives; when nobody wants it any more it is still waited for, as it cannot be stopped."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise


def _remove(folder: Path) -> None:
    try:
        remove_folder(folder)
    except OSError:  # it is swept later: it has no holder any more
        return
