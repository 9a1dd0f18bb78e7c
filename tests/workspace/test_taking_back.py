"""What is taken back is as it was, also what no file's bytes say; what is replaced gets no rights from its folder."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from tests.workspace.copies import make_tree, prepare
from toolkit.workspace import WorkspaceSection

OWN, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
NOBODY = 0xFFFFFFFF


def rules(*, another: int) -> bytes:
    """Access rules that let one more user in."""
    entries = [(1, 7, NOBODY), (2, 7, another), (4, 5, NOBODY), (16, 7, NOBODY), (32, 0, NOBODY)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    host = make_tree(
        tmp_path / "host", {"shared/inner/file": b"1\n", "edited": b"1\n", "gone": b"1\n", "script": b"1\n"}
    )
    try:
        os.setxattr(host / "shared", "user.note", b"mine")
        os.setxattr(host / "shared", DEFAULT, rules(another=1234))
    except OSError:
        pytest.skip("no attributes or access rules on this file system")
    for path, mode in {"shared": 0o2770, "edited": 0o2750, "gone": 0o4755, "script": 0o2744}.items():
        (host / path).chmod(mode)
    return host


@pytest.fixture
def ws(host: Path) -> WorkspaceSection:
    return prepare(host)


def facts_of(top: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in top.rglob("*"):
        st = path.stat()
        attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        found[str(path.relative_to(top))] = (st.st_mode, st.st_uid, st.st_gid, attributes)
    return found


def test_modes_and_attributes_are_taken_back(ws: WorkspaceSection, host: Path) -> None:
    before = facts_of(host)
    shutil.rmtree(ws.temp_dir / "src/shared")
    (ws.temp_dir / "src/gone").unlink()
    (ws.temp_dir / "src/edited").write_bytes(b"2\n")
    (ws.temp_dir / "src/script").chmod(0o644)
    ws.apply()
    assert not (host / "shared").exists()
    assert [path.name for path in host.iterdir() if path.stat().st_mode & 0o6000] == []
    assert ws.undo_apply()
    assert facts_of(host) == before


def test_a_replaced_file_lets_nobody_in_whom_only_its_folder_names(ws: WorkspaceSection, host: Path) -> None:
    os.setxattr(host / "shared/inner", DEFAULT, rules(another=1234))
    (ws.temp_dir / "src/shared/inner/file").write_bytes(b"2\n")
    (ws.temp_dir / "src/shared/inner/new").write_bytes(b"new\n")
    ws.apply()
    assert os.listxattr(host / "shared/inner/file") == []
    assert os.listxattr(host / "shared/inner/new") == [OWN]
