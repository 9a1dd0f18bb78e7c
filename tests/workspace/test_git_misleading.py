"""A git folder that was made to mislead: nothing outside of it comes into a copy, and nothing holds it up."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.test_git import dirty, git, make_repository, plain, prepare, worktree
from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit.workspace import HostMount, WorkspaceSection

_SECRET = "root:hash-of-a-password"
_FILES = """
HEAD index sharedindex.0123456789012345678901234567890123456789 packed-refs shallow config info/exclude info/attributes
info/sparse-checkout logs/refs/stash MERGE_HEAD MERGE_MSG ORIG_HEAD rebase-merge/message sequencer/todo refs/heads/other
refs/tags/v1 commondir objects/info/alternates
"""
_FOLDERS = ["info", "logs", "logs/refs", "refs", "refs/heads", "objects", "objects/info", "rebase-merge", "sequencer"]


def link(at: Path, to: Path) -> Path:
    """Put a link in the place of what is there."""
    if at.is_dir():
        shutil.rmtree(at)
    at.unlink(missing_ok=True)
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(to)
    return at


def refusal(repo: Path, root: Path | None = None) -> WorkspaceSecurityError:
    """The error that mounting gives, after which nothing is left."""
    beside = repo.parent / "made"
    beside.mkdir()
    with pytest.raises(WorkspaceSecurityError) as caught:
        WorkspaceSection([HostMount(repo)], [root or repo], parent=beside).prepare()
    assert list(beside.iterdir()) == []
    assert caught.value.rule == "git-dir"
    assert "git='none'" in str(caught.value)
    assert "--git none" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", _FILES.split())
def test_no_file_of_a_git_folder_is_read_through_a_link(tmp_path: Path, name: str) -> None:
    repo = plain(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    at = link(repo / ".git" / name, secret)
    assert refusal(repo).path == str(at)


@pytest.mark.parametrize("name", _FOLDERS)
def test_no_folder_of_a_git_folder_is_read_through_a_link(tmp_path: Path, name: str) -> None:
    repo = plain(tmp_path)
    git(repo, "pack-refs", "--all")
    elsewhere = tmp_path / "elsewhere"
    if (repo / ".git" / name).exists():
        shutil.copytree(repo / ".git" / name, elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "todo").write_text(_SECRET)
    at = link(repo / ".git" / name, elsewhere)
    assert refusal(repo).path == str(at)


def test_without_git_a_misleading_git_folder_is_no_hindrance(tmp_path: Path) -> None:
    repo = plain(tmp_path)
    link(repo / ".git/HEAD", tmp_path / "secret")
    with prepare(repo, tmp_path, git="none") as section:
        assert (section.temp_dir / "repo/app.py").is_file()


def folder_with_commondir(repo: Path, other: Path) -> None:
    (repo / ".git/commondir").write_text(f"{other}/.git\n")


def file_to_own_folder(repo: Path, other: Path) -> None:
    """All that the other repository would have to say is said by a folder in the mount."""
    (repo / ".git").rename(repo / "own")
    (repo / ".git").write_text("gitdir: own\n")
    git(repo, "config", "--file", "own/config", "core.worktree", str(repo))
    (repo / "own/gitdir").write_text(f"{repo}/.git\n")
    (repo / "own/commondir").write_text(f"{other}/.git\n")


def file_to_own_worktree(repo: Path, other: Path) -> None:
    """As before, in a folder that has the name of a linked worktree's."""
    file_to_own_folder(repo, other)
    (repo / "fake/worktrees").mkdir(parents=True)
    (repo / "own").rename(repo / "fake/worktrees/one")
    (repo / ".git").write_text("gitdir: fake/../fake/worktrees/one\n")


def file_to_linked_worktree(repo: Path, other: Path) -> None:
    """As before, and the folder two levels above, as a link, leads into the other repository."""
    file_to_own_worktree(repo, other)
    (other / ".git/worktrees").mkdir()
    shutil.move(repo / "fake/worktrees/one", repo / "one")
    shutil.rmtree(repo / "fake")
    (repo / "fake").symlink_to(other / ".git")
    git(other, "worktree", "add", "-q", "../theirs")
    (repo / ".git").write_text("gitdir: fake/worktrees/theirs\n")


def file_to_itself(repo: Path, other: Path) -> None:
    file_to_own_folder(repo, other)
    (repo / "own/commondir").unlink()
    (repo / "own/config").write_text(f"[include]\n\tpath = {repo}/more\n")
    (repo / "more").write_text(f"[core]\n\tworktree = {repo}\n")


@pytest.mark.parametrize(
    "mislead",
    [folder_with_commondir, file_to_own_folder, file_to_own_worktree, file_to_linked_worktree, file_to_itself],
    ids=lambda one: one.__name__,
)
def test_no_history_of_another_repository_is_lent(tmp_path: Path, mislead: Callable[[Path, Path], None]) -> None:
    other, repo = make_repository(tmp_path / "other"), make_repository(tmp_path / "repo")
    mislead(repo, other)
    refusal(repo)


def test_a_git_file_that_leads_to_itself_names_no_repository(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (repo / ".git").rename(repo / "own")
    (repo / "one").symlink_to("two")
    (repo / "two").symlink_to("one")
    for named in (".git", "one", "gone", "../" * 3_000):
        (repo / ".git").write_text(f"gitdir: {named}\n")
        with prepare(repo, tmp_path) as section:
            assert section.shown.git == ()


def test_a_link_among_the_refs_is_named_at_once(tmp_path: Path) -> None:
    repo = plain(tmp_path)
    at = link(repo / ".git/refs/tags/all", Path("/"))
    started = time.monotonic()
    assert refusal(repo).path == str(at)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "name", ["HEAD", "index", "packed-refs", "config", "MERGE_MSG", "refs/heads/other", "refs/tags/x"]
)
def test_a_fifo_in_a_git_folder_holds_nothing_up(tmp_path: Path, name: str) -> None:
    repo = plain(tmp_path)
    (repo / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(repo / ".git" / name)
    assert refusal(repo).path == str(repo / ".git" / name)


@pytest.mark.parametrize("name", ["HEAD", "index", "packed-refs", "config", "info/exclude", "shallow", "refs/heads/x"])
def test_a_file_too_large_to_be_true_is_refused(tmp_path: Path, name: str) -> None:
    repo = plain(tmp_path)
    with (repo / ".git" / name).open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(WorkspaceError, match="more than"):
        prepare(repo, tmp_path)


def test_refs_that_git_takes_for_broken_are_left_out(tmp_path: Path) -> None:
    repo = plain(tmp_path)
    expected = git(repo, "for-each-ref")
    name = git(repo, "rev-parse", "HEAD").strip()
    for bad in ("a b", "x.lock", "new\nline", "..up", "tilde~1"):
        (repo / ".git/refs/heads" / bad).write_text(f"{name}\n")
    (repo / ".git/refs/heads/empty").write_text("")
    (repo / ".git/refs/heads/short").write_text("abc\n")
    (repo / ".git/refs/heads/away").write_text("ref: ../../../etc/passwd\n")
    (repo / ".git/refs/heads/words").write_text(_SECRET)
    with prepare(repo, tmp_path) as section:
        copy = section.temp_dir / "repo"
        assert git(copy, "for-each-ref") == expected
        assert _SECRET not in (copy / ".git/packed-refs").read_text()


def test_more_refs_than_anybody_has_are_refused_in_words(tmp_path: Path) -> None:
    repo = plain(tmp_path)
    deep = repo / ".git/refs/heads" / "/".join("d" * 80)
    deep.mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="pack-refs"):
        prepare(repo, tmp_path)


def test_refs_of_one_worktree_and_refs_that_stand_for_others_are_those_git_lists(tmp_path: Path) -> None:
    repo = worktree(tmp_path)
    git(repo, "update-ref", "refs/worktree/mine", "HEAD")
    git(tmp_path / "main", "update-ref", "refs/worktree/theirs", "HEAD")
    git(repo, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/third")
    git(repo, "pack-refs", "--all")
    git(repo, "update-ref", "refs/heads/third", "v1^{commit}")
    with prepare(repo, tmp_path) as section:
        copy = section.temp_dir / "repo"
        assert git(copy, "for-each-ref") == git(repo, "for-each-ref")
        assert git(copy, "symbolic-ref", "refs/remotes/origin/HEAD") == "refs/heads/third\n"


def test_what_a_repository_includes_or_names_as_excludes_is_not_read(tmp_path: Path) -> None:
    repo = dirty(make_repository(tmp_path / "repo"))
    (tmp_path / "more.ini").write_text('[core]\n\tautocrlf = input\n[branch "included"]\n\tmerge = refs/heads/x\n')
    (tmp_path / "secret").write_text(_SECRET)
    git(repo, "config", "core.excludesFile", str(tmp_path / "secret"))
    git(repo, "config", "include.path", str(tmp_path / "more.ini"))
    git(repo, "config", f"includeIf.gitdir:{repo}/.path", str(tmp_path / "more.ini"))
    git(repo, "config", "core.eol", "crlf")
    with prepare(repo, tmp_path) as section:
        own = section.temp_dir / "repo/.git"
        assert _SECRET not in (own / "info/exclude").read_text()
        written = (own / "config").read_text()
    assert 'eol = "crlf"' in written
    assert "autocrlf" not in written
    assert "included" not in written


def test_what_the_owner_includes_and_excludes_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = dirty(make_repository(tmp_path / "repo"))
    home = tmp_path / "home"
    home.mkdir()
    (home / "rules").write_text("*.everywhere\n")
    (home / "linked").symlink_to("rules")
    (home / ".gitconfig").write_text(
        f'[include]\n\tpath = always\n[includeIf "gitdir:{repo}/"]\n\tpath = here\n'
        f'[includeIf "gitdir:{tmp_path}/other/"]\n\tpath = there\n'
    )
    (home / "always").write_text("[core]\n\texcludesFile = ~/linked\n")
    (home / "here").write_text("[core]\n\teol = crlf\n")
    (home / "there").write_text("[core]\n\tautocrlf = input\n")
    monkeypatch.setenv("HOME", str(home))
    git(repo, "config", "core.excludesFile", str(tmp_path / "secret"))
    with prepare(repo, tmp_path) as section:
        own = section.temp_dir / "repo/.git"
        assert "*.everywhere\n" in (own / "info/exclude").read_text()
        written = (own / "config").read_text()
    assert 'eol = "crlf"' in written
    assert "autocrlf" not in written


def test_settings_of_one_worktree_count_where_the_repository_says_so(tmp_path: Path) -> None:
    repo = worktree(tmp_path)
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "--worktree", "core.eol", "crlf")
    with prepare(repo, tmp_path) as section:
        assert 'eol = "crlf"' in (section.temp_dir / "repo/.git/config").read_text()


def test_git_that_takes_too_long_is_stopped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repository(tmp_path / "repo")
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("toolkit_workspace.git.program._SECONDS", 0.2)
    with pytest.raises(WorkspaceError, match=r"took longer than 0\.2 seconds"):
        prepare(repo, tmp_path)


def test_an_index_does_not_tell_what_exists_outside_of_its_work_tree(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/there").write_text("x")
    blob = git(repo, "hash-object", "-w", "app.py").strip()
    git(repo, "update-index", "--add", "--cacheinfo", f"100644,{blob},out/there")
    git(repo, "update-index", "--add", "--cacheinfo", f"100644,{blob},out/gone")
    (repo / "out").symlink_to(tmp_path / "outside")
    with prepare(repo, tmp_path, exclude_glob=["lib/", "out"]) as section:
        marked = git(section.temp_dir / "repo", "ls-files", "-v").splitlines()
    assert marked == ["H app.py", "S lib/code.py", "H out/gone", "H out/there"]


@pytest.mark.parametrize("named", ["../..", "..", "../../private", "../info", "../../empty"])
def test_only_a_store_of_objects_can_be_borrowed_from(tmp_path: Path, named: str) -> None:
    """The whole mount would be shown otherwise, with what `exclude_glob` leaves out."""
    repo = plain(tmp_path)
    for folder in ("private", "empty"):
        (repo / folder).mkdir()
    (repo / "private/key").write_text(_SECRET)
    (repo / ".git/objects/info/alternates").write_text(f"{named}\n")
    assert refusal(repo).path == str((repo / ".git/objects" / named).resolve())


def test_repositories_that_borrow_from_each_other_are_lent_once(tmp_path: Path) -> None:
    one, two = make_repository(tmp_path / "one"), make_repository(tmp_path / "two")
    for here, there in ((one, two), (two, one)):
        (here / ".git/objects/info/alternates").write_text(f"{there}/.git/objects\n{here}/.git/objects\n")
    with prepare(one, tmp_path) as section:
        hosts = [host for host, inside in section.shown.git[0].lent if not inside.endswith("alternates")]
    assert hosts == [str(one / ".git/objects"), str(two / ".git/objects")]


def test_a_store_whose_path_would_be_read_as_two_is_refused(tmp_path: Path) -> None:
    repo = plain(tmp_path)
    other = make_repository(repo / "a\nb")
    (repo / "link").symlink_to(other)
    (repo / ".git/objects/info/alternates").write_text("../../link/.git/objects\n")
    assert refusal(repo).path == str(other / ".git/objects")


@pytest.mark.parametrize(("name", "size"), [("rebase-apply/{}", 1 << 20), ("sharedindex.{}", 1 << 28)])
def test_many_files_of_a_git_folder_do_not_fill_the_disk(tmp_path: Path, name: str, size: int) -> None:
    repo = plain(tmp_path)
    (repo / ".git/rebase-apply").mkdir()
    for number in range(70):
        with (repo / ".git" / name.format(number)).open("wb") as file:
            file.truncate(size)
    with pytest.raises(WorkspaceError, match="holds more than"):
        prepare(repo, tmp_path)
