"""A section and the command line: look at the changes, take back half of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.copies import git, make_tree, tree_of
from toolkit.cli.workspace import APPLY_EXAMPLE, DIFF_EXAMPLE
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit.workspace import HostMount, WorkspaceSection


def toolkit(*arguments: str | Path, code: int = 0) -> str:
    """Run the command line and return its output; stderr is added when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture
def host(tmp_path: Path) -> Path:
    lines = b"".join(b"line %d\n" % n for n in range(20))
    return make_tree(
        tmp_path / "host", {"app/main.py": lines, "app/old.py": b"old\n", "notes.txt": b"notes\n", "lib/x.py": b"x\n"}
    )


@pytest.fixture
def kept(tmp_path: Path, host: Path) -> Path:
    """A workspace the command line made, with an agent's work in it."""
    mounts = ["--mount", f"{host / 'app'}", "--mount", f"{host / 'notes.txt'}:docs/notes.txt"]
    made = toolkit("workspace", "prepare", *mounts, "--root", tmp_path, "--parent", tmp_path).strip()
    workspace = Path(made)
    (workspace / "app/main.py").write_bytes((workspace / "app/main.py").read_bytes() + b"more\n")
    (workspace / "app/old.py").unlink()
    (workspace / "docs/notes.txt").write_text("better notes\n")
    return workspace


def test_the_table_names_every_change(kept: Path) -> None:
    assert toolkit("workspace", "diff", kept).splitlines() == [
        "M  app/main.py     +1 −0",
        "D  app/old.py      +0 −1",
        "M  docs/notes.txt  +1 −1",
        "3 changes: 2 modified, 1 deleted",
    ]


def test_the_examples_in_the_help_show_real_output(tmp_path: Path) -> None:
    make_tree(tmp_path / "src", {"app.py": b"print()\n"})
    made = toolkit(
        "workspace", "prepare", "--mount", tmp_path / "src", "--root", tmp_path, "--parent", tmp_path
    ).strip()
    make_tree(Path(made), {"src/app.py": b"print()\nprint()\n", "src/run.sh": b"#!/bin/sh\n./app.py\n"})
    (Path(made) / "src/run.sh").chmod(0o755)
    for example in (DIFF_EXAMPLE, APPLY_EXAMPLE):
        command, _, output = example.strip().partition("\n")
        words = command.removeprefix("$ toolkit ").replace("/tmp/toolkit-workspace-0a1b2c3d4e5f", made).split()
        assert toolkit(*words).strip() == output


def test_the_changes_are_given_as_json_and_as_a_patch_git_takes(kept: Path, host: Path, tmp_path: Path) -> None:
    facts: list[dict[str, Any]] = json.loads(toolkit("workspace", "diff", kept, "--json", "--path", "app"))
    assert [(one["kind"], one["path"], one["mount"]) for one in facts] == [
        ("modified", "app/main.py", "app"),
        ("deleted", "app/old.py", "app"),
    ]
    patch = toolkit("workspace", "diff", kept, "--patch", "--path", "app")
    shutil.copytree(host / "app", tmp_path / "judge/app")
    git(tmp_path / "judge", "init", "-q")
    assert git(tmp_path / "judge", "apply", "-", data=patch.encode()).returncode == 0
    assert tree_of(tmp_path / "judge/app") == tree_of(kept / "app")


def test_half_of_it_is_applied_then_the_rest_then_all_is_taken_back(kept: Path, host: Path) -> None:
    before = tree_of(host)
    assert "would be replaced  app/main.py" in toolkit("workspace", "apply", kept, "--dry-run")
    assert tree_of(host) == before
    assert toolkit("workspace", "apply", kept, "--path", "docs") == "replaced  docs/notes.txt\n"
    half = tree_of(host)
    applied = json.loads(toolkit("workspace", "apply", kept, "--json"))
    assert [(one["path"], one["action"]) for one in applied["applied"]] == [
        ("app/main.py", "replaced"),
        ("app/old.py", "deleted"),
    ]
    assert toolkit("workspace", "diff", kept) == "No changes.\n"
    assert "taken back" in toolkit("workspace", "apply", kept, "--undo")
    assert tree_of(host) == half


@pytest.mark.parametrize(
    "path", ["main.py", "{host}/app/main.py", "{kept}/app/main.py", "host/app/main.py", "app/main.py"]
)
def test_a_path_may_be_named_as_in_the_workspace_its_mount_or_the_host(
    kept: Path, host: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host.parent)
    asked = path.format(host=host, kept=kept)
    assert toolkit("workspace", "apply", kept, "--path", asked) == "replaced  app/main.py\n"


def test_a_path_at_which_nothing_changed_is_told_with_what_was_probably_meant(kept: Path, host: Path) -> None:
    told = toolkit("workspace", "apply", kept, "--path", "app/mian.py", code=2)
    assert "nothing changed at 'app/mian.py'; did you mean 'app/main.py'?" in told
    assert "did you mean 'app/old.py'?" in toolkit("workspace", "apply", kept, "--path", "elsewhere/old.py", code=2)


def test_a_path_that_two_mounts_have_is_not_guessed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_tree(tmp_path / name, {"same.txt": b"host\n"})
    mounts = [HostMount(tmp_path / "one"), HostMount(tmp_path / "two")]
    with WorkspaceSection(mounts, [tmp_path], parent=tmp_path) as section:
        for name in ("one", "two"):
            (section.temp_dir / name / "same.txt").write_text("agent\n")
        with pytest.raises(WorkspaceError) as caught:
            section.apply(paths=["same.txt"])
        assert caught.value.where == ("one/same.txt", "two/same.txt")
        assert (tmp_path / "one/same.txt").read_text() == "host\n"


def test_a_mount_outside_every_root_is_told_with_the_option_that_allows_it(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/out").symlink_to("/etc")
    options = ["--root", str(tmp_path / "root"), "--parent", str(tmp_path)]
    told = toolkit("workspace", "prepare", "--mount", "/etc/hosts", *options, code=2)
    assert "Allow the folder it lies in: --root /etc\n" in told
    assert "with --root" in toolkit("workspace", "prepare", "--mount", tmp_path / "root/out", *options, code=2)
    assert "allowed_host_roots" not in toolkit("workspace", "plan", "--mount", "x", "--root", tmp_path / "no", code=2)


def test_a_conflict_is_told_with_the_next_keystroke_and_exit_code_1(kept: Path, host: Path) -> None:
    (host / "app/old.py").write_text("host needs it\n")
    told = toolkit("workspace", "apply", kept, code=1)
    assert "app/old.py: changed on the host, deleted in the workspace" in told
    assert (host / "notes.txt").read_text() == "notes\n"


def test_options_that_exclude_each_other_and_a_strange_folder_are_refused(kept: Path, tmp_path: Path) -> None:
    assert "exclude each other" in toolkit("workspace", "apply", kept, "--resume", "--undo", code=2)
    assert "take no other options" in toolkit("workspace", "apply", kept, "--undo", "--path", "app", code=2)
    assert "no prepared workspace" in toolkit("workspace", "diff", tmp_path, code=2)
    assert "no prepared workspace" in toolkit("workspace", "apply", tmp_path, code=2)


def test_several_mounts_are_told_apart_and_applied_one_by_one(host: Path, tmp_path: Path) -> None:
    mounts = [HostMount(host / "app"), HostMount(host / "lib", "vendor/lib"), HostMount(host / "notes.txt")]
    with WorkspaceSection(mounts, [tmp_path], parent=tmp_path) as ws:
        for name in ("app/main.py", "vendor/lib/x.py", "notes.txt", "vendor/stray"):
            (ws.temp_dir / name).write_text("agent\n")
        assert [(change.path, change.mount) for change in ws.changes()] == [
            ("app/main.py", "app"),
            ("notes.txt", "notes.txt"),
            ("vendor/lib/x.py", "vendor/lib"),
            ("vendor/stray", None),
        ]
        ws.apply(mounts=["vendor/lib"])
        assert (host / "lib/x.py").read_text() == "agent\n"
        assert (host / "notes.txt").read_text() == "notes\n"
        left = ws.apply().left
    assert left == (("vendor/stray", "outside every mount"),)
    assert (host / "notes.txt").read_text() == "agent\n"


def test_a_mount_that_is_the_workspace_itself_is_reviewed_and_applied(host: Path, tmp_path: Path) -> None:
    with WorkspaceSection([HostMount(host, ".")], [tmp_path], parent=tmp_path) as ws:
        shutil.rmtree(ws.temp_dir / "lib")
        make_tree(ws.temp_dir, {"top.txt": b"t\n", "app/deep/new": b"n\n", "link": "app/main.py"})
        (ws.temp_dir / "out").symlink_to("../outside")
        (ws.temp_dir / "notes.txt").rename(ws.temp_dir / "app/notes.txt")
        assert {change.mount for change in ws.changes()} == {"."}
        with pytest.raises(WorkspaceSecurityError):
            ws.apply(mounts=["."])
        (ws.temp_dir / "out").unlink()
        ws.apply(mounts=["."])
        assert tree_of(host) == tree_of(ws.temp_dir)
        assert len(ws.changes()) == 0


def test_what_was_excluded_is_never_overwritten_or_deleted(host: Path, tmp_path: Path) -> None:
    make_tree(host, {"app/secret.env": b"KEY\n", "app/cache/big": b"big\n"})
    mount = HostMount(host / "app", exclude_glob=("*.env", "cache/"))
    with WorkspaceSection([mount], [tmp_path], parent=tmp_path) as ws:
        shutil.rmtree(ws.temp_dir / "app")
        make_tree(ws.temp_dir / "app", {"secret.env": b"agent\n"})
        with pytest.raises(WorkspaceConflictError) as caught:
            ws.apply()
        assert caught.value.conflicts == (("app/secret.env", "added on both sides"),)
        ws.apply(paths=["app/main.py", "app/old.py"])
    assert tree_of(host / "app", folders=False) == {b"secret.env": ("-", b"KEY\n"), b"cache/big": ("-", b"big\n")}


def test_a_followed_link_is_not_written_through(host: Path, tmp_path: Path) -> None:
    (host / "app/lib").symlink_to("../lib")
    mount = HostMount(host / "app", follow_symlinks=True)
    with WorkspaceSection([mount], [host], parent=tmp_path) as ws:
        (ws.temp_dir / "app/lib/x.py").write_text("agent\n")
        with pytest.raises((WorkspaceConflictError, WorkspaceSecurityError)):
            ws.apply()
        assert [change.path for change in ws.changes()] == ["app/lib/x.py"]
    assert (host / "lib/x.py").read_text() == "x\n"


def test_the_whole_round_of_an_agents_day(host: Path, tmp_path: Path) -> None:
    with WorkspaceSection([HostMount(host / "app")], [tmp_path], parent=tmp_path) as ws:
        main = ws.temp_dir / "app/main.py"
        before = ws.snapshot("before tests")
        main.write_text("broken\n")
        ws.rewind(before)
        assert len(ws.changes()) == 0
        main.write_bytes(main.read_bytes().replace(b"line 18\n", b"agent\n"))
        (host / "app/main.py").write_bytes((host / "app/main.py").read_bytes().replace(b"line 1\n", b"host\n"))
        assert [one.action for one in ws.apply().changes] == ["merged"]
        assert [change.kind for change in ws.diff("before tests")] == ["modified"]
    text = (host / "app/main.py").read_text()
    assert "host\n" in text
    assert "agent\n" in text


async def test_what_the_host_brought_in_while_watched_can_be_merged_and_applied(host: Path, tmp_path: Path) -> None:
    with WorkspaceSection([HostMount(host / "app")], [tmp_path], parent=tmp_path) as ws:
        async with ws.watch() as watching:
            (host / "app/old.py").write_text("".join(f"{n}\n" for n in range(20)))
            await watching.settle()
        copy = ws.temp_dir / "app/old.py"
        copy.write_text(copy.read_text().replace("15\n", "agent\n"))
        (host / "app/old.py").write_text("host\n" + (host / "app/old.py").read_text())
        assert [(change.path, change.kind) for change in ws.changes()] == [("app/old.py", "modified")]
        assert [one.action for one in ws.apply().changes] == ["merged"]
    assert (host / "app/old.py").read_text().startswith("host\n0\n")
    assert "14\nagent\n16\n" in (host / "app/old.py").read_text()
