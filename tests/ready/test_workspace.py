"""The ready-made view of a workspace: what is mounted, what changed, and the way back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ready._client import names_in, refused, said
from toolkit import Toolbox
from toolkit.errors import TargetError
from toolkit_servers.ready.workspace import workspace
from toolkit_servers.target import load_target
from toolkit_workspace import HostMount, WorkspaceSection


@pytest.fixture
def host(tmp_path: Path) -> Path:
    project = tmp_path / "host" / "project"
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / "main.py").write_text("print(1)\n")
    (project / "src" / "deep" / "util.py").write_text("x = 1\n")
    (project / "logo.bin").write_bytes(b"\0\1\2")
    return project


@pytest.fixture
def section(host: Path, tmp_path: Path) -> Iterator[WorkspaceSection]:
    (tmp_path / "spaces").mkdir()
    with WorkspaceSection([HostMount(host)], [host.parent], parent=tmp_path / "spaces") as prepared:
        yield prepared


@pytest.fixture
def work(section: WorkspaceSection) -> Path:
    return section.temp_dir / "project"


@pytest.fixture
def box(section: WorkspaceSection) -> Toolbox:
    return workspace(section)


async def test_what_is_mounted_is_what_the_prompt_says(box: Toolbox, section: WorkspaceSection) -> None:
    assert await said(box, "show_mounts") == section.render()


async def test_an_untouched_workspace_has_no_changes(box: Toolbox) -> None:
    assert await said(box, "list_changes") == "Nothing was changed."
    assert await said(box, "show_diff") == "Nothing was changed."
    assert "nothing to restore" in await refused(box, "restore", path="project/src/main.py")


async def test_changes_are_listed_and_shown_as_a_diff(box: Toolbox, work: Path) -> None:
    (work / "src" / "main.py").write_text("print(2)\n")
    (work / "new.txt").write_text("new\n")
    (work / "logo.bin").write_bytes(b"\0\1\2\3")
    listed = await said(box, "list_changes")
    assert all(name in listed for name in ("main.py", "new.txt", "logo.bin"))
    shown = await said(box, "show_diff")
    assert "-print(1)\n+print(2)" in shown
    assert "+new" in shown
    assert "[modified: project/logo.bin is binary, 4 B]" in shown
    assert "new" not in await said(box, "show_diff", path="project/src")
    assert "list_changes" in await refused(box, "show_diff", path="project/src/deep")


async def test_a_changed_and_a_deleted_file_are_restored_and_the_host_is_not_touched(
    box: Toolbox, work: Path, host: Path
) -> None:
    (work / "src" / "main.py").write_text("print(2)\n")
    (work / "src" / "main.py").chmod(0o755)
    (work / "logo.bin").unlink()
    before = {path: path.stat().st_mtime_ns for path in [host / "src" / "main.py", host / "logo.bin"]}
    assert await said(box, "restore", path="project/src/main.py") == "Restored project/src/main.py."
    assert await said(box, "restore", path=str(work / "logo.bin")) == "Restored project/logo.bin."
    assert (work / "src" / "main.py").read_text() == "print(1)\n"
    assert (work / "logo.bin").read_bytes() == b"\0\1\2"
    assert await said(box, "list_changes") == "Nothing was changed."
    assert before == {path: path.stat().st_mtime_ns for path in before}


async def test_a_file_comes_back_with_the_folders_it_was_in(box: Toolbox, work: Path) -> None:
    shutil.rmtree(work / "src")
    await said(box, "restore", path="project/src/deep/util.py")
    assert (work / "src" / "deep" / "util.py").read_text() == "x = 1\n"
    assert not (work / "src" / "main.py").exists()


async def test_a_folder_is_restored_and_what_was_added_stays(box: Toolbox, work: Path) -> None:
    (work / "src" / "main.py").unlink()
    (work / "src" / "deep" / "util.py").write_text("x = 2\n")
    (work / "src" / "mine.py").write_text("mine\n")
    await said(box, "restore", path="project/src")
    assert (work / "src" / "main.py").exists()
    assert (work / "src" / "deep" / "util.py").read_text() == "x = 1\n"
    assert (work / "src" / "mine.py").read_text() == "mine\n"


async def test_what_was_added_or_renamed_is_explained(box: Toolbox, work: Path) -> None:
    (work / "mine.py").write_text("mine\n")
    (work / "src" / "main.py").rename(work / "src" / "renamed.py")
    assert "was not there" in await refused(box, "restore", path="project/mine.py")
    assert "was project/src/main.py at first" in await refused(box, "restore", path="project/src/renamed.py")
    await said(box, "restore", path="project/src/main.py")
    assert names_in(work / "src") == ["deep", "main.py", "renamed.py"]


async def test_a_file_that_became_a_folder_or_a_link_is_not_written_through(
    box: Toolbox, work: Path, tmp_path: Path
) -> None:
    (work / "logo.bin").unlink()
    (work / "logo.bin").mkdir()
    (work / "logo.bin" / "mine").touch()
    assert "is a folder now" in await refused(box, "restore", path="project/logo.bin")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "util.py").write_text("precious\n")
    shutil.rmtree(work / "src" / "deep")
    (work / "src" / "deep").symlink_to(tmp_path / "outside")
    await said(box, "restore", path="project/src/deep/util.py")
    assert not (work / "src" / "deep").is_symlink()
    assert names_in(tmp_path / "outside") == ["util.py"]
    assert (tmp_path / "outside" / "util.py").read_text() == "precious\n"


@pytest.mark.parametrize("path", ["..", "../x", "/etc/passwd", "project/../../x"])
async def test_a_path_outside_the_workspace_is_refused(box: Toolbox, path: str) -> None:
    for tool in ("show_diff", "restore"):
        assert "outside" in await refused(box, tool, path=path)


async def test_a_long_diff_is_cut_between_files_and_says_so(section: WorkspaceSection, work: Path) -> None:
    for number in range(20):
        (work / f"{number:02}.txt").write_text("a line of text\n" * 20)
    text = await said(workspace(section, max_chars=2_000), "show_diff")
    assert len(text) < 2_200
    assert text.splitlines()[-1].endswith("files not shown: too long; ask for one path at a time]")
    (work / "00.txt").write_text("a line of text\n" * 1_000)
    text = await said(workspace(section, max_chars=2_000), "show_diff", path="project/00.txt")
    assert "+a line of text" in text
    assert text.endswith("more characters of project/00.txt are not shown]")


async def test_a_workspace_that_is_gone_is_an_error_the_model_can_read(box: Toolbox, section: WorkspaceSection) -> None:
    section.cleanup()
    assert "not prepared" in await refused(box, "list_changes")


async def test_a_kept_workspace_is_served_by_its_folder(host: Path, tmp_path: Path) -> None:
    with WorkspaceSection([HostMount(host)], [host.parent], parent=tmp_path, keep=True) as kept:
        folder = kept.temp_dir
    (folder / "project" / "logo.bin").unlink()
    box = load_target(f"workspace:{os.fspath(folder)}", cwd=tmp_path).toolbox
    assert "logo.bin" in await said(box, "list_changes")


def test_a_folder_that_is_no_workspace_is_refused(tmp_path: Path) -> None:
    for spec in ("workspace", f"workspace:{tmp_path}"):
        with pytest.raises(TargetError) as caught:
            load_target(spec, cwd=tmp_path)
        assert caught.value.target == "workspace"
