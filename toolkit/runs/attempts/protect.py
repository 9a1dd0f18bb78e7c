"""Paths that the agent cannot change: found before it starts, read-only in its jail, with their bytes kept aside.

Whatever happens to them in the workspace (a tool of yours runs outside of the jail), a verification
has the kept bytes, and so has the workspace at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit._base.handles import READ_DIR, make_folders, remove_folder, remove_tree
from toolkit._base.words import count_text, safe_name
from toolkit.errors import RunError
from toolkit.runs.attempts.digest import digest_of
from toolkit.runs.kinds import OptionError
from toolkit.runs.spec import InPlace, RunSpec
from toolkit.runs.storage.going_on import is_free_of_links
from toolkit.runs.storage.place import Place

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Protected:
    """The protected paths of one place, and their bytes."""

    paths: tuple[str, ...] = ()
    """Relative to the folder of the place."""
    kept: Path | None = None
    """Where their bytes are kept: below this, by the same paths."""

    def put_back(self, folder: Path) -> None:
        """Make the protected paths in a folder what they were.

        Raises:
            OSError: one cannot be written, or a link stands in the way to it.
        """
        for path in self.paths:
            assert self.kept is not None
            above, _, name = path.rpartition("/")
            root = os.open(folder, READ_DIR)
            try:
                parent = make_folders(root, os.fsencode(above)) if above else os.dup(root)
                try:
                    remove_tree(parent, name)
                    _copy(self.kept / path, Path(f"/proc/self/fd/{parent}") / name)
                finally:
                    os.close(parent)
            finally:
                os.close(root)

    def forget(self) -> None:
        """The run is over, and nobody needs the kept bytes any more."""
        if self.kept is not None:
            with contextlib.suppress(OSError):
                remove_folder(self.kept)

    def changed(self, folder: Path) -> list[str]:
        """Those that are not any more what they were; what cannot be looked at is not."""
        found = []
        for path in self.paths:
            assert self.kept is not None
            try:
                is_same = is_free_of_links(folder, path) and digest_of(folder / path) == digest_of(self.kept / path)
            except OSError:
                is_same = False
            found += [] if is_same else [path]
        return found


def protect(spec: RunSpec, place: Place, home: Path) -> tuple[Place, Protected]:
    """The place with its protected paths, and their bytes, which are kept in `home`.

    Raises:
        OptionError: a path that cannot be protected there.
        RunError: the agent changed one in an earlier run, or they cannot be kept.
    """
    if not spec.protect:
        return place, Protected()
    paths = tuple(dict.fromkeys(path for name in spec.protect for path in _in_place(name, spec, place)))
    if place.goes_on and place.section is not None:
        changes = place.section.changes().below(*paths)
        if changes:
            raise RunError(
                "what is to be protected was changed by an earlier run in this workspace",
                where=[safe_name(change.path) for change in changes[:_MOST_NAMED]],
                fix="Start from the host's files: name the workspace again",
            )
    kept = home / "protected"
    try:
        for path in paths:
            (kept / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _copy(place.folder / path, kept / path)
    except OSError as error:
        raise RunError(f"the protected files cannot be kept: {error.strerror or error}", where=[str(kept)]) from error
    inside = tuple(one for path in paths if (one := place.to_agent(place.folder / path)) is not None)
    layout = replace(place.layout, protected=inside) if spec.transport is None else place.layout
    return replace(place, protected=paths, layout=layout), Protected(paths, kept)


def check_on_host(spec: RunSpec) -> None:
    """Look for the protected paths on the host, before anything is copied.

    Raises:
        OptionError: one is in no mount, or is none.
    """
    for name in spec.protect:
        _refuse_pattern(name, has_it=bool(_on_host(name, spec)))
        if spec.workspace is None and spec.resume is None:
            what = f"protect: '{name}' is not there: without a mount the agent begins with an empty folder"
            raise OptionError("protect", what, fix="Mount something, or leave it out")
        if spec.workspace is not None and not _on_host(name, spec):
            tops = ", ".join(str(top) for top in _tops(spec))
            what = f"protect: there is no '{safe_name(str(name))}' in what is mounted ({tops})"
            raise OptionError("protect", what, fix="What does not exist cannot be protected: make it, or leave it out")
        if any(found in _tops(spec) and found.is_dir() for found in _on_host(name, spec)):
            raise _all_there_is(name)


def _refuse_pattern(name: str | Path, *, has_it: bool) -> None:
    if not has_it and any(sign in str(name) for sign in "*?["):
        fix = "Name the folder: everything in it is protected, and nothing can be added to it"
        raise OptionError("protect", f"protect: '{name}' is a pattern, and only paths can be protected", fix=fix)


def _tops(spec: RunSpec) -> list[Path]:
    given = spec.workspace
    if isinstance(given, InPlace):
        return [Path(given.folder).resolve()]
    return [] if given is None else [Path(mount.host_path).resolve() for mount in given.mounts]


def _on_host(name: str | Path, spec: RunSpec) -> list[Path]:
    """The host paths that a name means: below a mount, or relative to the current folder and in one."""
    found = []
    for top in _tops(spec):
        base = top if top.is_dir() else top.parent
        for whole in (Path(os.path.normpath(base / name)), Path(os.path.normpath(Path.cwd() / name))):
            if whole.is_relative_to(top) and os.path.lexists(whole):
                found.append(whole)
    return list(dict.fromkeys(found))


def _in_place(name: str | Path, spec: RunSpec, place: Place) -> list[str]:
    """Where a name lies in the place, relative to its folder.

    Raises:
        OptionError: nowhere, or where it cannot be protected.
    """
    found: list[Path] = []
    if place.section is not None:
        tops = [(Path(mount.host_path).resolve(), place.folder / mount.landing) for mount in place.section.mounts]
        for top, landing in tops:
            base = top if top.is_dir() else top.parent
            for whole in (Path(os.path.normpath(base / name)), Path(os.path.normpath(Path.cwd() / name))):
                if whole.is_relative_to(top):
                    found.append(landing / whole.relative_to(top))
    else:
        found += [Path(os.path.normpath(place.folder / name)), Path(os.path.normpath(Path.cwd() / name))]
    lent = [path for path in found if _is_lent(path, place)]
    there = [path for path in dict.fromkeys(found) if path.is_relative_to(place.folder) and os.path.lexists(path)]
    there = [path for path in there if path not in lent]
    if not there and not lent:
        what = f"protect: there is no '{safe_name(str(name))}' in the workspace"
        raise OptionError("protect", what, fix="It may have been left behind by --exclude or --gitignore")
    relative = [str(path.relative_to(place.folder)) for path in there]
    for path in relative:
        _refuse_odd(name, place, path)
    return relative


def _is_lent(path: Path, place: Place) -> bool:
    """Whether it is shown from the host: then it is read-only already."""
    inside = place.to_agent(path)
    return inside is not None and any(Path(inside).is_relative_to(one) for _, one in place.layout.lent)


def _refuse_odd(name: str | Path, place: Place, path: str) -> None:
    tops = {os.path.normpath(part) for part, _ in place.parts}
    if path == "." or path in tops:
        raise _all_there_is(name)
    if not is_free_of_links(place.folder, path) or (place.folder / path).is_symlink():
        what = f"protect: '{safe_name(str(name))}' is a link, or a link leads to it"
        raise OptionError("protect", what, fix="Name the place itself that it leads to")
    kind = (place.folder / path).lstat().st_mode
    if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
        raise OptionError("protect", f"protect: '{safe_name(str(name))}' is neither a file nor a folder")


def _all_there_is(name: str | Path) -> OptionError:
    fix = 'Name something in it, or let the agent change nothing: mode="read-only"'
    return OptionError("protect", f"protect: '{safe_name(str(name))}' is all that the agent has to work in", fix=fix)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def told(paths: list[str], *, is_restored: bool) -> str:
    """What the owner reads of protected paths that were changed."""
    names = ", ".join(safe_name(path) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    so = "and set back to what they were" if is_restored else "and are as they are now: the run worked in place"
    return f"{count_text(len(paths), 'protected path')} changed outside of the jail, {so}: {names}{more}"
