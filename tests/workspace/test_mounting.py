"""Which host paths may be mounted and where they land; a refusal leaves nothing behind."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import toolkit._base.handles as handles
from toolkit.workspace import HostMount, WorkspaceError, WorkspaceSection, WorkspaceSecurityError


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """root/src/a.txt may be copied; secret/s.txt lies next to the root; work/ is where workspaces are made."""
    for folder in ("root/src", "secret", "work"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "root/src/a.txt").write_text("a", encoding="utf-8")
    (tmp_path / "secret/s.txt").write_text("s", encoding="utf-8")
    return tmp_path


@pytest.fixture(params=["openat2", "step by step"], autouse=True)
def resolver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every claim holds with and without the kernel's help."""
    if request.param == "step by step":
        monkeypatch.setattr(handles, "HAS_OPENAT2", False)
    else:
        assert handles.HAS_OPENAT2


def _refused(host: Path, mount: Path | str, roots: list[Path] | None = None) -> WorkspaceSecurityError:
    section = WorkspaceSection([HostMount(mount)], [host / "root"] if roots is None else roots, parent=host / "work")
    with pytest.raises(WorkspaceSecurityError) as caught:
        section.prepare()
    with pytest.raises(WorkspaceSecurityError):
        section.plan()
    assert list((host / "work").iterdir()) == []
    return caught.value


def test_the_defaults_of_a_mount() -> None:
    mount = HostMount("src")
    assert dataclasses.asdict(mount) == {
        "host_path": Path("src"),
        "mount_path": None,
        "include_glob": (),
        "exclude_glob": (),
        "max_bytes": None,
        "follow_symlinks": False,
        "gitignore": False,
        "lend": (),
        "git": "lend",
        "leave_out_secrets": False,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        mount.max_bytes = 3  # type: ignore[misc]


def test_no_root_allows_nothing(host: Path) -> None:
    error = _refused(host, host / "root/src", roots=[])
    assert (error.rule, error.roots) == ("allowed-roots", ())


def test_a_mount_outside_every_root_is_refused_by_name(host: Path) -> None:
    error = _refused(host, host / "secret")
    assert error.path == str(host / "secret")
    assert error.roots == (str(host / "root"),)
    assert error.rule == "allowed-roots"


def test_a_sibling_with_the_same_beginning_is_not_inside_the_root(host: Path) -> None:
    (host / "rooted").mkdir()
    assert _refused(host, host / "rooted").rule == "allowed-roots"


@pytest.mark.parametrize("path", ["root/src/../../secret", "root/../secret", "root/src/../../secret/s.txt"])
def test_dots_do_not_lead_out(host: Path, path: str) -> None:
    assert _refused(host, host / path).rule in ("link-out", "allowed-roots")


@pytest.mark.parametrize("target", ["../secret/s.txt", "{host}/secret/s.txt"])
def test_a_link_to_a_file_outside_is_refused(host: Path, target: str) -> None:
    (host / "root/out").symlink_to(target.format(host=host))
    assert _refused(host, host / "root/out").rule == "link-out"


@pytest.mark.parametrize("target", ["../secret", "{host}/secret", "/"])
def test_a_link_to_a_folder_outside_is_refused_also_in_the_middle(host: Path, target: str) -> None:
    (host / "root/out").symlink_to(target.format(host=host))
    assert _refused(host, host / "root/out").rule == "link-out"
    assert _refused(host, host / "root/out/s.txt").rule == "link-out"


def test_a_magic_link_is_not_followed(host: Path) -> None:
    (host / "root/magic").symlink_to("/proc/self/cwd")
    assert _refused(host, host / "root/magic").rule == "link-out"


def test_a_path_that_does_not_exist_outside_is_refused_like_one_that_does(host: Path) -> None:
    assert _refused(host, host / "secret/nothing").rule == _refused(host, host / "secret/s.txt").rule


def test_links_that_stay_inside_the_root_are_fine(host: Path) -> None:
    (host / "root/near").symlink_to("src")
    (host / "elsewhere").symlink_to("root")
    for mount in (host / "root/near", host / "elsewhere/src", host / "root/src/../src"):
        with WorkspaceSection([HostMount(mount, "it")], [host / "root"], parent=host / "work") as section:
            assert (section.temp_dir / "it/a.txt").read_text(encoding="utf-8") == "a"


def test_a_link_into_another_root_is_fine(host: Path) -> None:
    (host / "root/out").symlink_to(host / "secret")
    with WorkspaceSection([HostMount(host / "root/out")], [host / "root", host / "secret"]) as section:
        assert (section.temp_dir / "out/s.txt").is_file()


def test_relative_mounts_and_roots_are_meant_from_where_we_are(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host / "root/src")
    with WorkspaceSection([HostMount("."), HostMount("a.txt"), HostMount("../src", "up")], [".."]) as section:
        assert sorted(path.name for path in section.temp_dir.iterdir()) == ["a.txt", "src", "up"]


def test_a_mount_that_is_missing_or_special_is_an_error(host: Path) -> None:
    os.mkfifo(host / "root/fifo")
    for name in ("nothing", "fifo"):
        with pytest.raises(WorkspaceError):
            WorkspaceSection([HostMount(host / "root" / name)], [host / "root"], parent=host / "work").prepare()
    assert list((host / "work").iterdir()) == []


@pytest.mark.parametrize("path", ["/abs", "../up", "a/../../b", "a/..", "nul\0"])
def test_a_mount_path_that_leaves_the_workspace_is_refused(path: str) -> None:
    with pytest.raises(WorkspaceSecurityError) as caught:
        HostMount("src", mount_path=path)
    assert caught.value.rule == "mount-path"


@pytest.mark.parametrize(("first", "second"), [("x", "x"), ("x", "x/y"), ("x/y", "x"), (".", "x"), ("./x//", "x")])
def test_two_mounts_on_one_place_are_refused(host: Path, first: str, second: str) -> None:
    with pytest.raises(WorkspaceError):
        WorkspaceSection([HostMount(host / "root", first), HostMount(host / "root", second)], [host])


def test_neighbours_may_share_a_folder(host: Path) -> None:
    mounts = [HostMount(host / "root/src", "d/one"), HostMount(host / "root/src/a.txt", "d/two.txt")]
    with WorkspaceSection(mounts, [host / "root"]) as section:
        assert (section.temp_dir / "d/one/a.txt").is_file()
        assert (section.temp_dir / "d/two.txt").read_text(encoding="utf-8") == "a"


def test_a_mount_can_be_the_workspace_itself(host: Path) -> None:
    with WorkspaceSection([HostMount(host / "root", ".")], [host / "root"]) as section:
        assert (section.temp_dir / "src/a.txt").is_file()


@pytest.mark.parametrize("glob", ["[abc", "", "/", "a\\", "# note", "!"])
def test_a_pattern_that_can_never_match_is_a_mistake(glob: str) -> None:
    with pytest.raises(WorkspaceError):
        HostMount("src", exclude_glob=(glob,))


@pytest.mark.parametrize("size", [-1, 1.5, "5", True])
def test_a_budget_is_a_number_of_bytes(size: object) -> None:
    with pytest.raises(WorkspaceError):
        HostMount("src", max_bytes=size)  # type: ignore[arg-type]


def test_the_refusal_reads_well(host: Path) -> None:
    error = _refused(host, host / "secret")
    assert str(error) == (
        f"{host}/secret lies in no allowed host root\n"
        f"  allowed: {host}/root\n"
        "  Allow the folder it lies in: --allow-root DIR, allowed_host_roots=[…]; or mount another path."
    )
