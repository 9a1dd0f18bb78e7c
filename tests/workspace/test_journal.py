"""What is written down about an apply before the host is touched: private, whole, and read back as it was."""

from __future__ import annotations

from pathlib import Path

from toolkit_workspace.applying.journal import Journal
from toolkit_workspace.applying.steps import HostVersion
from toolkit_workspace.record.keeping import ByteStore


def test_the_journal_is_for_its_user_alone(tmp_path: Path) -> None:
    Journal.begin(tmp_path / "journal", [], [])
    assert (tmp_path / "journal").stat().st_mode & 0o7777 == 0o700


def test_a_version_is_read_back_with_owner_and_attributes(tmp_path: Path) -> None:
    store = ByteStore(tmp_path / "bytes")
    for version in (
        HostVersion("d", 0o750, owner=(1001, 2002)),
        HostVersion("l", 0o777, target=b"to\xff", owner=(3, 4), attributes=(("user.a", b"\0\xff"),)),
        HostVersion("l", 0o777, target=b"x"),
    ):
        assert HostVersion.from_json(version.to_json(), store) == version


def test_folders_are_alike_whatever_their_mode_and_other_kinds_are_not() -> None:
    folder = HostVersion("d", 0o755)
    assert folder.is_like(HostVersion("d", 0o700))
    assert not folder.is_like(HostVersion("l", 0o755, target=b"x"))
    assert not folder.is_like(None)
    assert HostVersion("l", 0o777, target=b"x").is_like(HostVersion("l", 0o777, target=b"x"))
    assert not HostVersion("l", 0o777, target=b"x").is_like(HostVersion("l", 0o777, target=b"y"))
    file = HostVersion("f", 0o100644, sha256="a")
    assert file.is_like(HostVersion("f", 0o644, sha256="a"))
    assert not file.is_like(HostVersion("f", 0o600, sha256="a"))
    assert not file.is_like(HostVersion("f", 0o644, sha256="b"))
