"""An agent's work becomes a branch of the host's repository; work tree, index and settings stay as they are."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.repositories import (
    delivery,
    everything,
    git,
    prepared,
    repository,
    trusting_packer,
)
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.delivering import checked_name


def show(repo: Path, path: str, ref: str = "agent/x") -> str:
    return git(repo, "show", f"{ref}:{path}")


def test_the_changes_are_one_commit_on_a_new_branch_and_nothing_else_of_the_host_changes(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={"app.py": b"one\n", "gone": b"x\n", "old name": b"long enough\n" * 9})
    (repo / "app.py").write_bytes(b"one\n")  # the index is stale: git would refresh it
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "app.py").write_text("two")
    (copy / "gone").unlink()
    (copy / "old name").rename(copy / "new\nname")
    (copy / "data.bin").write_bytes(bytes(range(256)))
    (copy / "run.sh").write_text("#!/bin/sh\n")
    (copy / "run.sh").chmod(0o755)
    (copy / "link").symlink_to("app.py")
    (copy / "empty").mkdir()
    before = everything(repo)

    made = ws.deliver(delivery())

    assert everything(repo) == before
    assert made.branches[0].to_json() == {
        "repository": str(repo),
        "name": "agent/x",
        "commit": git(repo, "rev-parse", "agent/x"),
        "onto": git(repo, "rev-parse", "main"),
        "commits": 1,
        "replaced": None,
    }
    listed = git(repo, "diff", "--no-renames", "--raw", "--abbrev=4", "-z", "main", "agent/x").split("\0")
    assert {name: row.split(" ")[1] for row, name in zip(listed[::2], listed[1::2], strict=False)} == {
        "app.py": "100644",
        "data.bin": "100644",
        "gone": "000000",
        "link": "120000",
        "new\nname": "100644",
        "old name": "000000",
        "run.sh": "100755",
    }
    assert show(repo, "app.py") == "two"
    assert show(repo, "link") == "app.py"
    assert made.marks["repo/run.sh"] == ("executable",)
    said = git(repo, "log", "-1", "--format=%an <%ae>%n%B", "agent/x").splitlines()
    assert said[0] == "agent (model-x) <run-1@agent.invalid>"
    assert said[1] == "Do it"
    assert "  repo/run.sh: executable" in said
    assert git(repo, "log", "-1", "--format=%(trailers:key=Toolkit-Run,valueonly)", "agent/x").strip() == "run-1"
    assert "error" not in git(repo, "fsck", "--strict", "--no-dangling")
    git(repo, "checkout", "-q", "agent/x")
    assert git(repo, "status", "--porcelain") == ""


def test_commits_of_the_agent_come_along_with_the_agent_as_author_and_one_more_for_the_rest(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "config", "user.name", "Owner")
    git(repo, "config", "user.email", "owner@example.org")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "one.txt").write_text("1\n")
    git(copy, "add", "-A")
    message = "One\n\nToolkit-Verified: yes\nFrom me\n---\ndiff --git a/x b/x\n\nSigned-off-by: Owner <o@x>\n"
    git(copy, "commit", "-qm", message, "--author=Owner <owner@example.org>", "--date=2020-01-02T03:04:05Z")
    (copy / "two.txt").write_text("2\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "Two")
    (copy / "rest.txt").write_text("3\n")

    made = ws.deliver(delivery(), trusting_packer(ws))

    assert made.branches[0].commits == 3
    rows = git(repo, "log", "--reverse", "--format=%an|%cn|%s|%ad", "--date=short", "main..agent/x").splitlines()
    assert [row.split("|")[:3] for row in rows] == [
        ["agent (model-x)", "Owner", subject] for subject in ("One", "Two", "Do it")
    ]
    assert rows[0].endswith("2020-01-02")
    for commit in ("agent/x~2", "agent/x~1", "agent/x"):
        parsed = git(repo, "log", "-1", "--format=%(trailers:only,unfold)", commit).strip()
        assert parsed == "Toolkit-Run: run-1"
    files = git(repo, "log", "--reverse", "--format=", "--name-only", "main..agent/x").split()
    assert files == ["one.txt", "two.txt", "rest.txt"]
    assert "error" not in git(repo, "fsck", "--strict", "--no-dangling")
    squashed = ws.deliver(delivery("agent/squashed", squash=True), trusting_packer(ws)).branches[0]
    assert squashed.commits == 1
    assert git(repo, "diff", "agent/x", "agent/squashed") == ""


def test_what_the_owner_had_not_committed_is_not_the_agents_work(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "app.py").write_bytes(b"ONE by owner\ntwo\nthree\nfour\nfive\nsix\n")
    (repo / "staged.py").write_bytes(b"staged\n")
    git(repo, "add", "staged.py")
    (repo / "untracked.py").write_bytes(b"mine\n")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "app.py").write_bytes(b"ONE by owner\ntwo\nthree\nfour\nfive\nSIX by agent\n")
    (copy / "new.py").write_bytes(b"agent\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "Everything, the owner's files included")
    before = everything(repo)

    ws.deliver(delivery(), trusting_packer(ws))

    assert everything(repo) == before
    assert show(repo, "app.py").splitlines() == ["one", "two", "three", "four", "five", "SIX by agent"]
    assert git(repo, "diff", "--name-only", "main", "agent/x").split() == ["app.py", "new.py"]


def test_a_file_whose_uncommitted_lines_the_agent_changed_is_named_with_the_way_out(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "app.py").write_bytes(b"by owner\n")
    (repo / "untracked.py").write_bytes(b"mine\n")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "app.py").write_bytes(b"by owner and agent\n")
    (copy / "untracked.py").write_bytes(b"mine and the agent's\n")
    (copy / "fine.py").write_bytes(b"x\n")
    with pytest.raises(WorkspaceConflictError) as caught:
        ws.deliver(delivery())
    assert dict(caught.value.conflicts).keys() == {"app.py", "untracked.py"}
    assert "--with-uncommitted" in caught.value.fix
    assert git(repo, "branch", "--list", "agent/*") == ""

    ws.deliver(delivery("agent/only", paths=["fine.py"]))
    assert git(repo, "diff", "--name-only", "main", "agent/only") == "fine.py"
    made = ws.deliver(delivery(with_uncommitted=True)).branches[0]
    assert made.commits == 2
    assert git(repo, "log", "--format=%s", "main..agent/x").splitlines() == [
        "Do it",
        "Uncommitted changes of the owner",
    ]
    assert show(repo, "app.py", "agent/x~1") == "by owner"
    assert show(repo, "untracked.py", "agent/x~1") == "mine"
    assert show(repo, "untracked.py") == "mine and the agent's"


def test_a_host_that_moved_on_takes_the_work_where_it_is_wanted(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    base = git(repo, "rev-parse", "main")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "app.py").write_bytes(b"one\ntwo\nthree\nfour\nfive\nsix\nseven by agent\n")
    git(copy, "commit", "-qam", "Add a line")
    (repo / "app.py").write_bytes(b"zero by owner\none\ntwo\nthree\nfour\nfive\nsix\n")
    git(repo, "commit", "-qam", "moved on")
    assert ws.deliver(delivery(), trusting_packer(ws)).branches[0].onto == base
    made = ws.deliver(delivery("agent/on-main", onto="main"), trusting_packer(ws)).branches[0]
    assert made.onto == git(repo, "rev-parse", "main")
    lines = show(repo, "app.py", "agent/on-main").splitlines()
    assert (lines[0], lines[-1]) == ("zero by owner", "seven by agent")
    assert git(repo, "log", "--format=%s", "main..agent/on-main") == "Add a line"
    (repo / "app.py").write_bytes(b"all other\n")
    git(repo, "commit", "-qam", "clash")
    with pytest.raises(WorkspaceConflictError):
        ws.deliver(delivery("agent/clash", onto="HEAD"), trusting_packer(ws))
    with pytest.raises(WorkspaceError, match="no commit"):
        ws.deliver(delivery("agent/none", onto="no-such"))


def test_line_ends_are_those_that_git_add_would_store(tmp_path: Path) -> None:
    files = {
        ".gitattributes": b"*.txt text\n*.bat text eol=crlf\n",
        "a.txt": b"one\n",
        "b.bat": b"one\n",
        "raw": b"a\r\n",
    }
    repo = repository(tmp_path / "repo", files=files)
    git(repo, "config", "core.autocrlf", "true")
    for name in ("a.txt", "b.bat"):
        (repo / name).unlink()
    git(repo, "checkout", "--", ".")
    assert (repo / "a.txt").read_bytes() == b"one\r\n"
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (copy / "b.bat").write_bytes(b"one\r\nzwei\r\n")
    (copy / "raw").write_bytes(b"a\r\nb\r\n")
    (copy / "new.txt").write_bytes(b"new\r\n")
    ws.deliver(delivery())
    stored = {name: git(repo, "cat-file", "blob", f"agent/x:{name}") for name in ("a.txt", "b.bat", "raw", "new.txt")}
    assert stored == {"a.txt": "one\ntwo", "b.bat": "one\nzwei", "raw": "a\r\nb\r", "new.txt": "new"}
    git(repo, "checkout", "-q", "agent/x")
    assert git(repo, "status", "--porcelain") == ""


def test_a_filter_that_the_agent_asks_for_is_not_run_and_its_files_are_marked(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={"sub/a.bin": b"a\n", "b.bin": b"b\n"})
    fired = tmp_path / "fired"
    git(repo, "config", "filter.lfs.clean", f"touch {fired}")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "sub/.gitattributes").write_bytes(b"*.bin filter=lfs -text\n")
    for name in ("sub/a.bin", "sub/new.bin", "b.bin"):
        (copy / name).write_bytes(b"changed\n")
    made = ws.deliver(delivery())
    marked = [path for path, marks in made.marks.items() if any("filter 'lfs'" in mark for mark in marks)]
    assert sorted(marked) == ["repo/sub/a.bin", "repo/sub/new.bin"]
    assert git(repo, "cat-file", "blob", "agent/x:sub/new.bin") == "changed"
    assert not fired.exists()


def test_a_file_of_git_lfs_is_stored_as_it_is_and_marked(tmp_path: Path) -> None:
    big = b"\0big" * 100
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(big).hexdigest()}\nsize 400\n"
    files = {".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": pointer.encode()}
    repo = repository(tmp_path / "repo", files=files)
    (repo / "a.bin").write_bytes(big)  # as git-lfs has it in the work tree
    fired = tmp_path / "fired"
    git(repo, "config", "filter.lfs.clean", f"touch {fired}")
    git(repo, "config", "filter.lfs.required", "true")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "a.bin").write_bytes(b"\0other")
    (copy / "x.py").write_bytes(b"x\n")
    made = ws.deliver(delivery())
    assert "filter 'lfs'" in made.marks["repo/a.bin"][0]
    assert git(repo, "cat-file", "-s", "agent/x:a.bin") == "6"
    assert not fired.exists()
    (copy / "a.bin").write_bytes(big)
    (copy / "a.bin").chmod(0o755)
    ws.deliver(delivery("agent/mode"))
    assert git(repo, "cat-file", "blob", "agent/mode:a.bin") + "\n" == pointer


def test_what_the_project_ignores_what_git_refuses_and_planted_repositories_stay_behind(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={".gitignore": b"*.log\nbuild/\n", "a": b"a\n"})
    (repo / "old.log").write_bytes(b"old\n")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    for name in ("x.log", "build/out", "old.log", "bare/HEAD", "bare/config", "bare/objects/x", "bare/refs/x", "b"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(b"new\n")
    git(copy, "add", "-f", "x.log", "bare", "b")
    git(copy, "commit", "-qm", "All of it")
    made = ws.deliver(delivery(), trusting_packer(ws))
    assert git(repo, "diff", "--name-only", "main", "agent/x") == "b"
    left = dict(made.left)
    assert {"repo/x.log", "repo/old.log", "repo/bare/config"} <= left.keys()
    ws.deliver(delivery("agent/named", paths=["repo/bare"]))
    assert set(git(repo, "diff", "--name-only", "main", "agent/named").split()) == {
        "bare/HEAD", "bare/config", "bare/objects/x", "bare/refs/x",
    }  # fmt: skip


@pytest.mark.parametrize("commits", [False, True])
def test_a_link_that_leads_out_is_refused_in_files_and_in_commits(tmp_path: Path, commits: bool) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "out").symlink_to("/etc/passwd")
    (copy / "fine").write_text("x")
    if commits:
        git(copy, "add", "-A")
        git(copy, "commit", "-qm", "link")
        (copy / "out").unlink()
        git(copy, "commit", "-qam", "no link")
    with pytest.raises(WorkspaceSecurityError):
        ws.deliver(delivery(), trusting_packer(ws))
    assert git(repo, "branch", "--list", "agent/*") == ""
    if commits:
        ws.deliver(delivery(squash=True), trusting_packer(ws))
        assert git(repo, "diff", "--name-only", "main", "agent/x") == "fine"


def test_a_submodules_own_commit_is_never_changed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    inner = repository(copy / "inner")
    git(copy, "add", "inner")
    (copy / "x").write_text("x")
    git(copy, "add", "x")
    git(copy, "commit", "-qm", "a submodule of mine")
    made = ws.deliver(delivery(), trusting_packer(ws))
    assert inner.exists()
    assert "160000" not in git(repo, "ls-tree", "-r", "agent/x")
    assert "x" in git(repo, "ls-tree", "-r", "--name-only", "agent/x").split()
    assert "submodule" in dict(made.left)["repo/inner"]


def test_names_follow_git_and_a_branch_is_replaced_only_by_force_and_never_when_checked_out(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    (ws.temp_dir / "repo/app.py").write_text("agent\n")
    ws.deliver(delivery())
    first = git(repo, "rev-parse", "agent/x")
    with pytest.raises(WorkspaceError, match="already"):
        ws.deliver(delivery())
    made = ws.deliver(delivery(message="Again", force=True)).branches[0]
    assert made.replaced == first
    for name in ("main", "agent", "agent/x/y"):
        with pytest.raises(WorkspaceError):
            ws.deliver(delivery(name, force=True))
    git(repo, "worktree", "add", "-q", str(tmp_path / "other"), "agent/x")
    with pytest.raises(WorkspaceError, match="checked out"):
        ws.deliver(delivery(force=True))
    assert git(repo, "rev-parse", "agent/x") == made.commit


@pytest.mark.parametrize(
    "name", ["", "-x", "a..b", "a b", "a~1", "a^", "a:b", "x.lock", "/x", "x/", "a//b", ".x", "@", "HEAD", "a\nb", "a\\b", "ok/x-1", "é", "a@{b"]
)  # fmt: skip
def test_git_is_the_judge_of_names(name: str) -> None:
    judged = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
    is_taken = judged.returncode == 0 and judged.stdout.decode().strip() == name and name != "@"
    if is_taken:
        assert checked_name(name) == name
    else:
        with pytest.raises(WorkspaceError):
            checked_name(name)


def test_a_mount_that_is_a_subfolder_and_two_mounts_of_one_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={"a/x": b"x\n", "b/y": b"y\n", "c/z": b"z\n", ".gitignore": b"*.log\n"})
    ws = WorkspaceSection([HostMount(repo / "a"), HostMount(repo / "b/y")], [repo], parent=tmp_path).prepare()
    (ws.temp_dir / "a/x").write_text("X\n")
    (ws.temp_dir / "a/deep.log").write_text("no\n")
    (ws.temp_dir / "y").write_text("Y\n")
    made = ws.deliver(delivery())
    assert git(repo, "diff", "--name-only", "main", "agent/x").split() == ["a/x", "b/y"]
    assert dict(made.left) == {"a/deep.log": "the project ignores it, or it is a cache"}


def test_several_repositories_get_a_branch_each_and_a_mount_chooses(tmp_path: Path) -> None:
    one, two = repository(tmp_path / "one"), repository(tmp_path / "two")
    repository(tmp_path / "one/nested")
    plain = tmp_path / "plain"
    plain.mkdir()
    ws = prepared(one, two, plain)
    for place in ("one/app.py", "one/nested/app.py", "two/app.py", "plain/x"):
        (ws.temp_dir / place).write_text("agent\n")
    ws.deliver(delivery("agent/two", mounts=["two"]))
    made = ws.deliver(delivery())
    assert {Path(branch.repository).name for branch in made.branches} == {"one", "two", "nested"}
    assert dict(made.left)["plain/x"] == "its mount lies in no git repository"
    assert git(one, "diff", "--name-only", "main", "agent/x") == "app.py"
    assert git(one / "nested", "diff", "--name-only", "main", "agent/x") == "app.py"
    assert git(one, "branch", "--list", "agent/two") == ""
    with pytest.raises(WorkspaceError, match="several repositories"):
        ws.deliver(delivery(), as_mailbox=True)


def test_kinds_of_repositories_work(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    (origin / "app.py").write_bytes(b"second\n")
    git(origin, "commit", "-qam", "second")
    git(origin, "config", "uploadpack.allowFilter", "true")
    sha256 = repository(tmp_path / "sha256", "--object-format=sha256")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "shallow")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{origin}", "partial")
    git(tmp_path, "clone", "-q", "--shared", str(origin), "shared")
    git(origin, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    for name in ("sha256", "shallow", "partial", "shared", "linked"):
        repo = tmp_path / name
        ws = prepared(repo)
        (ws.temp_dir / name / "app.py").write_text(f"agent in {name}\n")
        git(ws.temp_dir / name, "commit", "-qam", "inside")
        (ws.temp_dir / name / "lib/new.py").write_text("x\n")
        branch = f"agent/{name}"
        made = ws.deliver(delivery(branch), trusting_packer(ws)).branches[0]
        assert made.commits == 2, name
        assert show(repo, "app.py", branch) == f"agent in {name}"
        assert git(repo, "status", "--porcelain") == "", name
        assert git(repo, "fsck", "--strict", "--no-dangling") in ("", "notice: HEAD points to an unborn branch (main)")
        ws.cleanup()
    assert sha256.exists()


def test_a_repository_without_a_commit_gets_its_first_one(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "mine").write_text("mine\n")
    ws = prepared(repo)
    (ws.temp_dir / "repo/new").write_text("new\n")
    with pytest.raises(WorkspaceError, match="checked out"):
        ws.deliver(delivery("main"))
    made = ws.deliver(delivery()).branches[0]
    assert made.onto is None
    assert git(repo, "ls-tree", "-r", "--name-only", "agent/x") == "new"
    assert git(repo, "status", "--porcelain") == "?? mine"


def test_no_repository_a_bare_one_and_nothing_to_do_are_said_by_name(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "x").write_text("x")
    ws = prepared(plain)
    (ws.temp_dir / "plain/x").write_text("y")
    with pytest.raises(WorkspaceError, match="no mount lies in a git repository"):
        ws.deliver(delivery())
    git(tmp_path, "init", "-q", "--bare", "bare")
    bare = prepared(tmp_path / "bare")
    (bare.temp_dir / "bare/x").write_text("y")
    with pytest.raises(WorkspaceError, match="bare"):
        bare.deliver(delivery())
    repo = repository(tmp_path / "repo")
    same = prepared(repo)
    with pytest.raises(WorkspaceError, match="nothing to deliver"):
        same.deliver(delivery())


BOMBS = """
[core]
    fsmonitor = "touch {0}; false"
    hooksPath = {1}
    sshCommand = touch {0}
    editor = touch {0}
    pager = touch {0}
    askPass = {1}/bomb
    alternateRefsCommand = touch {0}
    gitProxy = {1}/bomb
    attributesFile = {1}/attributes
[filter "bomb"]
    clean = touch {0}
    smudge = touch {0}
    process = touch {0}
    required = true
[diff]
    external = {1}/bomb
[diff "bomb"]
    textconv = {1}/bomb
    command = {1}/bomb
[merge "bomb"]
    driver = touch {0}
[gpg]
    program = {1}/bomb
[commit]
    gpgSign = true
[credential]
    helper = "!touch {0}"
[uploadpack]
    packObjectsHook = {1}/bomb
[include]
    path = {1}/included
"""


def bomb(place: Path, tmp_path: Path, name: str) -> Path:
    """Everything in a git folder that could start a program."""
    fired, hooks = tmp_path / f"fired-{name}", tmp_path / f"hooks-{name}"
    hooks.mkdir()
    for hook in ("bomb", "reference-transaction", "post-index-change", "post-commit", "pre-auto-gc", "post-rewrite"):
        for folder in (hooks, place / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / hook).write_text(f"#!/bin/sh\ntouch {fired}\n")
            (folder / hook).chmod(0o755)
    (hooks / "included").write_text(f'[core]\n\tfsmonitor = "touch {fired}"\n')
    (hooks / "attributes").write_text("* filter=bomb diff=bomb merge=bomb\n")
    (place / "info").mkdir(exist_ok=True)
    (place / "info/attributes").write_text("* filter=bomb diff=bomb merge=bomb\n")
    with (place / "config").open("a") as file:
        file.write(BOMBS.format(fired, hooks))
    return fired


def test_nothing_that_a_git_folder_names_is_run(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "app.py").write_text("agent\n")
    git(copy, "commit", "-qam", "inside")
    (copy / "rest").write_text("rest\n")
    (copy / ".gitattributes").write_text("* filter=bomb diff=bomb merge=bomb\n")
    pack = trusting_packer(ws)
    packed: list[bytes] = []

    def first(origin: Any, tip: str, base: str | None, into: int) -> None:
        """Packs before the copy's git folder is full of bombs: the jail is another test's."""
        os.write(into, packed[0])

    reader, writer = os.pipe()
    pack(ws.shown.origins[0], git(copy, "rev-parse", "HEAD"), git(repo, "rev-parse", "HEAD"), writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        packed.append(file.read())
    inside, outside = bomb(copy / ".git", tmp_path, "inside"), bomb(repo / ".git", tmp_path, "outside")
    before = everything(repo)
    made = ws.deliver(delivery(), first)
    mails = ws.deliver(delivery(), first, as_mailbox=True)
    assert made.branches[0].commits == 2
    assert b"Subject: [PATCH 2/2]" in mails.mailbox
    assert not inside.exists()
    assert not outside.exists()
    assert everything(repo) == before


def test_caches_are_on_no_branch_also_where_the_project_has_no_rules(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={"app.py": b"one\n"})
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "app.py").write_text("two\n")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/app.pyc").write_text("bytes\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "One")
    assert git(copy, "ls-files").split() == ["app.py"]
    (copy / "__pycache__/forced.pyc").write_text("bytes\n")
    git(copy, "add", "-f", "__pycache__/forced.pyc")
    git(copy, "commit", "-qm", "Two")
    (copy / ".pytest_cache").mkdir()
    (copy / ".pytest_cache/README.md").write_text("rest\n")

    ws.deliver(delivery(), trusting_packer(ws))

    assert git(repo, "diff", "--name-only", "main", "agent/x").split() == ["app.py"]
