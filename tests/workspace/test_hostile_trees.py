"""Whatever a tree holds, the copy is right, the report is true, and nothing outside is touched."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.workspace.hostile import ODDITIES, Oddity, Place, Witness, a_place, can_hide, run_as
from toolkit._base.handles import PATH_HANDLE, READ_FILE, open_beneath
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = pytest.mark.usefixtures("crew")


def _check_arrived(top: int, path: bytes, expected: object) -> None:
    handle = open_beneath(top, path.rpartition(b"/")[0] or b".", PATH_HANDLE)
    name = path.rpartition(b"/")[2]
    try:
        st = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if expected == "sparse":
            assert st.st_size == 50_000_003
            assert st.st_blocks * 512 < 1_000_000
        elif isinstance(expected, str):
            assert os.fsdecode(os.readlink(name, dir_fd=handle)) == expected
        elif isinstance(expected, int):
            assert stat.S_IMODE(st.st_mode) == expected
        else:
            with os.fdopen(os.open(name, READ_FILE, dir_fd=handle), "rb") as file:
                assert file.read() == expected
    finally:
        os.close(handle)


def _outcome(place: Place, oddity: Oddity) -> None:
    place.make()
    oddity.make(place)
    witness = Witness(place.outside)
    options: dict[str, Any] = oddity.options
    with WorkspaceSection([HostMount(place.project, **options)], [place.project], parent=place.parent) as section:
        top = os.open(section.temp_dir / "project", PATH_HANDLE)
        assert (section.temp_dir / "project" / "plain.txt").read_bytes() == b"plain"
        for path, expected in oddity.arrives.items():
            _check_arrived(top, path, expected)
        for path in oddity.stays:
            with pytest.raises(FileNotFoundError):
                os.stat(path, dir_fd=top, follow_symlinks=False)
        remarks = {(one.path, one.why) for _, one in section.left_out}
        assert set(oddity.remarks) <= remarks
        assert all(line.isprintable() for line in section.render().split("\n"))
        assert {entry.lstat().st_uid for entry in (section.temp_dir / "project").iterdir()} == {os.geteuid()}
        os.close(top)
    assert list(place.parent.iterdir()) == []
    if "hard link to the outside" not in oddity.name:  # there the file inside is the file outside
        assert witness.seen() == []
    witness.close()


def _rows() -> Iterator[Any]:
    """Every oddity as we are and as a plain user, where that user can have it."""
    for oddity in ODDITIES:
        for plain in (False, True) if os.geteuid() == 0 else (True,):
            if oddity.only in ("", "plain" if plain else "root"):
                yield pytest.param(oddity, plain, id=f"{oddity.name}-{'as a plain user' if plain else 'as root'}")


@pytest.mark.parametrize(("oddity", "plain"), list(_rows()))
def test_an_oddity_is_copied_or_left_behind_as_promised(oddity: Oddity, plain: bool) -> None:
    with a_place(plain=plain) as place:
        run_as(plain, lambda: _outcome(place, oddity), alone_in=place.top)


@pytest.mark.skipif(not can_hide(), reason="this process may not have mounts of its own")
def test_whoever_else_looks_into_the_temp_folder_is_no_witness(crew: str) -> None:
    with a_place(plain=False) as place:
        looking = f"while :; do find '{place.top}' -type f -exec cat {{}} + >/dev/null 2>&1; done"
        with subprocess.Popen(["sh", "-c", looking], start_new_session=True) as other:
            try:
                for oddity in ODDITIES[:3]:
                    run_as(False, partial(_outcome, place, oddity), alone_in=place.top)
            finally:
                os.killpg(other.pid, signal.SIGKILL)
