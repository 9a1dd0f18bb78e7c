"""`ProjectFile`: what a team wrote down once for its runs, obeyed only as its user has accepted it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from toolkit._base.words import safe_line, safe_name
from toolkit.runs.kinds import path as checked_path
from toolkit.runs.projects.combining import combined
from toolkit.runs.projects.errors import NotAcceptedError, ProjectFileError
from toolkit.runs.projects.finding import find_file
from toolkit.runs.projects.places import lend_to, with_wishes
from toolkit.runs.projects.reading.checking import checked, judged, outside
from toolkit.runs.projects.reading.forms import Spot
from toolkit.runs.projects.reading.keys import OF_A_RUN, OF_ALL_MOUNTS
from toolkit.runs.projects.reading.source import Source, read_source, shown_path
from toolkit.runs.projects.trust import accept_text, accepted_text

if TYPE_CHECKING:
    from toolkit_workspace import HostMount, WorkspaceSection

Trust = Literal["accepted", "changed", "new"]


class ProjectFile:
    """A `toolkit.toml`, or the table `[tool.toolkit]` of a pyproject.toml, read once and checked.

    Its text is somebody's word that others obey, so `options` gives nothing before this
    user has accepted it on this machine: with `accept`, or on the command line.
    """

    def __init__(self, source: Source, *, home: Path | str | None = None) -> None:
        if not isinstance(source, Source):
            what = f"a ProjectFile is read from a file, not made of {type(source).__name__}(…)"
            file = Path(source) if isinstance(source, str | Path) else Path()
            raise ProjectFileError(what, file=file, fix="Write ProjectFile.read(path), or ProjectFile.find(folder)")
        self._source = source
        self._home = home
        self._said = checked(source)
        self._accepted = accepted_text(source.path, home)

    @classmethod
    def read(cls, file: Path | str, *, home: Path | str | None = None) -> Self:
        """The project file at a path; `home` is the state folder, as for `RunSpec`.

        Raises:
            ProjectFileError: it cannot be read, or a key of it is not what it may be; `line` is where.
        """
        return cls(read_source(checked_path("file", file)), home=home)

    @classmethod
    def find(cls, folder: Path | str = ".", *, home: Path | str | None = None) -> Self | None:
        """The project file that holds for a folder: its own, or the nearest above it in its repository.

        Raises:
            ProjectFileError: there are two in one folder, or the one there is cannot be used.
        """
        found = find_file(checked_path("folder", folder))
        return None if found is None else cls.read(found, home=home)

    @property
    def path(self) -> Path:
        """Where it is, absolute."""
        return self._source.path

    @property
    def text(self) -> str:
        """What it says: all of a toolkit.toml, and of a pyproject.toml the table."""
        return self._source.stated

    @property
    def trust(self) -> Trust:
        """Whether this very text was accepted, another one was, or none."""
        if self._accepted is None:
            return "new"
        return "accepted" if self._accepted == self.text else "changed"

    def difference(self) -> str:
        """What has changed since it was last accepted, as a diff; empty where nothing was or has."""
        if self._accepted is None:
            return ""
        names = ("as it was accepted", "as it is now")
        lines = difflib.unified_diff(self._accepted.split("\n"), self.text.split("\n"), *names, lineterm="")
        return "\n".join(lines)

    def accept(self) -> None:
        """Take this text as one that may be obeyed on this machine, until it changes.

        Raises:
            ProjectFileError: that cannot be kept.
        """
        try:
            accept_text(self.path, self.text, self._home)
        except OSError as error:
            what = f"that the project file was accepted cannot be kept: {error.strerror}"
            raise ProjectFileError(what, file=self.path, fix="Set TOOLKIT_HOME to a folder of yours") from None
        self._accepted = self.text

    def remarks(self) -> list[str]:
        """What to look at before it is accepted: what leaves the project's folder, the jail, or this machine."""
        return list(self._remarks())

    def mounts(self) -> list[HostMount]:
        """What comes along, each with what the file says for all mounts and what of it is lent.

        Raises:
            ProjectFileError: a folder to lend is in no mount.
        """
        mounts, lost = lend_to(self._said["mounts"], self._said.get("lend", ()), self.path.parent)
        if lost and mounts:
            number = self._said["lend"].index(lost[0])
            raise Spot(self._source, ("lend", number)).wrong("no mount has such a folder")
        return self.dressed(mounts)

    def dressed(self, mounts: Sequence[HostMount]) -> list[HostMount]:
        """Mounts, each with what the file says for all mounts and what of it is lent, as far as it has that."""
        wishes = {name: self._said.get(name) for name in OF_ALL_MOUNTS if name != "lend"}
        lending, _ = lend_to(mounts, self._said.get("lend", ()), self.path.parent)
        return [with_wishes(mount, wishes, win=False) for mount in lending]

    def said(self, name: str, default: Any = None) -> Any:
        """The value of one key as it was checked; `default` where it is not there."""
        return self._said.get(name, default)

    def roots(self) -> list[Path]:
        """Where mounts of the file may come from: as it says, else its own folder."""
        return [Path(root) for root in self._said.get("allowed_host_roots", (self.path.parent,))]

    def options(self, **given: Any) -> dict[str, Any]:
        """The options of a run, for `RunSpec` and `run`: the file's, with those that are given here.

        What is given wins; lists and tables are added up, those of the file first (of `policy`: last).

        Raises:
            NotAcceptedError: this text was not accepted on this machine.
            ProjectFileError: a variable of `env_from` is not set, or a folder to lend is in no mount.
        """
        self._check_accepted()
        said = {name: self._said[name] for name in OF_A_RUN if name in self._said}
        said["env"] = {**self._taken(), **said.get("env", {})}
        if given.get("workspace") is None and given.get("resume") is None:  # a conversation goes on where it was
            given["workspace"] = self._section()
        options = combined(said, given)
        if ready := self._said.get("ready"):
            options["tools"] = (*options.get("tools", ()), *self._ready(ready, options.get("workspace")))
        return options

    def _section(self) -> WorkspaceSection | None:
        from toolkit_workspace import WorkspaceSection

        mounts = self.mounts()
        if not mounts:
            return None
        judged(Spot(self._source, ("mounts",)), WorkspaceSection, mounts)
        section = judged(
            Spot(self._source, ("at",)), WorkspaceSection, mounts, allowed_host_roots=self.roots(), at=self.said("at")
        )
        assert isinstance(section, WorkspaceSection)
        return section

    def _taken(self) -> dict[str, str]:
        """The variables that are taken from here by name."""
        for number, name in enumerate(self._said.get("env_from", ())):
            if name not in os.environ:
                raise Spot(self._source, ("env_from", number)).wrong(
                    f"no variable {safe_name(name)} is set here", f"Set it: export {safe_name(name)}=…"
                )
        return {name: os.environ[name] for name in self._said.get("env_from", ())}

    def _ready(self, names: Sequence[str], workspace: Any) -> list[Any]:
        from toolkit_servers.ready import load_ready, load_ready_spec
        from toolkit_workspace import WorkspaceSection

        return [
            load_ready(name, section=workspace)
            if name == "workspace" and isinstance(workspace, WorkspaceSection)
            else load_ready_spec(name, self.path.parent)
            for name in names
        ]

    def _check_accepted(self) -> None:
        if self.trust == "accepted":
            return
        what = "has changed since it was accepted" if self.trust == "changed" else "was not accepted on this machine"
        raise NotAcceptedError(
            f"the project file {what}, so it is not obeyed",
            file=self.path,
            where=[shown_path(self.path)],
            fix="Read it, then accept it: ProjectFile.read(…).accept(), or toolkit run --trust",
        )

    def _remarks(self) -> Iterator[str]:
        folder = self.path.parent
        named = [("mounts", str(mount.host_path)) for mount in self._said["mounts"]]
        for key in ("allowed_host_roots", "readable", "folders", "plugins"):
            named += [(key, str(path)) for path in self._said.get(key, ())]
        for key, path in named:
            if outside(folder, path):
                yield f"{key}: {safe_name(path)} is outside of its folder"
        for key in ("tools", "ready"):
            for target in self._said.get(key, ()):
                yield f"{key}: {safe_name(target)} runs on this machine, outside of the jail"
        if (setup := self._said.get("setup")) is not None:
            reaches = f", which reaches {', '.join(setup.domains)}" if setup.domains else ""
            yield f"setup: the jail runs {safe_line(setup.command, 200)}{reaches}"
        for domain in self._said.get("domains", ()):
            yield f"domains: the agent's commands can send what they have to {safe_name(domain)}"
        for name in self._said.get("env_from", ()):
            yield f"env_from: the agent gets your variable {safe_name(name)}"
