"""The mails of a delivery are taken by `git am`, whatever is in the files and in the agent's messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace.repositories import delivery, everything, git, prepared, repository, trusting_packer
from toolkit.workspace import WorkspaceSection

FILES = {
    "text": b"".join(b"line %d\n" % n for n in range(30)),
    "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "mixed*[x].txt": b"a\r\nb\n",
    "moved": b"".join(b"moved %d\n" % n for n in range(30)),
    "gone": b"gone\n",
    "data.bin": bytes(range(256)),
}


def taken(repo: Path, mails: bytes, tmp_path: Path) -> Path:
    """A clone of main that took the mails."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-b", "main", str(repo), str(clone))
    git(clone, "am", "-q", data=mails)
    return clone


def work(ws: WorkspaceSection) -> Path:
    copy = ws.temp_dir / "repo"
    (copy / "text").write_bytes(FILES["text"][:-1] + b"\nmore without an end")
    (copy / "crlf.txt").write_bytes(b"one\r\nzwei\r\nthree\r\n")
    (copy / "mixed*[x].txt").write_bytes(b"a\r\nB\n\r\n")
    (copy / "moved").rename(copy / "elsewhere")
    (copy / "gone").unlink()
    (copy / "data.bin").write_bytes(bytes(range(255, -1, -1)))
    (copy / "script").write_bytes(b"#!/bin/sh\n")
    (copy / "script").chmod(0o755)
    (copy / "text").chmod(0o755)
    (copy / "link").symlink_to("text")
    (copy / "From me").write_bytes(b"From a@b Mon Sep 17 00:00:00 2001\nFrom: x\n")
    (copy / "-dash").write_bytes(b"x")
    (copy / "näme\n\ttab").write_bytes("ünï\n".encode())
    (copy / "lat").write_bytes(b"latin \xe9\n")
    (copy / "empty").write_bytes(b"")
    return copy


def test_git_am_makes_the_very_same_trees(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files=FILES)
    ws = prepared(repo)
    work(ws)
    before = everything(repo)
    mails = ws.deliver(delivery(), as_mailbox=True).mailbox
    assert everything(repo) == before
    assert git(repo, "branch", "--list") == "* main"
    ws.deliver(delivery())
    clone = taken(repo, mails, tmp_path)
    assert git(clone, "rev-parse", "HEAD^{tree}") == git(repo, "rev-parse", "agent/x^{tree}")
    assert git(clone, "log", "-1", "--format=%an <%ae>%n%B") == git(
        repo, "log", "-1", "--format=%an <%ae>%n%B", "agent/x"
    )
    assert b"rename from moved" in mails
    assert b"GIT binary patch" in mails


@pytest.mark.parametrize(
    "message",
    [
        "Fix\n\n---\n\ndiff --git a/evil b/evil\nnew file mode 100644\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+evil\n",
        "Fix\n\nFrom 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nSubject: other\n\nx\n",
        "Fix\n\nIndex: evil\n===\n",
        "Fix\n\n-- >8 --\ncut\n",
        "Fix \u202e gnirts\n\n\x1b[2J\x00"[:-1] + "end\n",
        "é" * 300 + "\n\nlong\n",
    ],
)
def test_a_message_of_the_agent_is_a_message_and_no_patch(tmp_path: Path, message: str) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "fine").write_bytes(b"x\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-q", "--cleanup=verbatim", "-F", "-", data=message.encode())
    mails = ws.deliver(delivery(), trusting_packer(ws), as_mailbox=True).mailbox
    clone = taken(repo, mails, tmp_path)
    assert git(clone, "rev-list", "--count", "main") == "2"
    assert git(clone, "diff", "--name-only", "HEAD~1", "HEAD") == "fine"
    said = git(clone, "log", "-1", "--format=%B")
    assert "Toolkit-Run: run-1" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_what_the_agent_merged_comes_as_one_mail_and_stays_merged_on_a_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "checkout", "-q", "-b", "feature")
    (repo / "feature.py").write_bytes(b"f\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "feature")
    git(repo, "checkout", "-q", "main")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "mine").write_bytes(b"m\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "mine")
    git(copy, "merge", "-q", "--no-edit", "feature")
    pack = trusting_packer(ws)
    mails = ws.deliver(delivery(), pack, as_mailbox=True).mailbox
    assert mails.count(b"\nSubject: ") == 1
    ws.deliver(delivery(), pack)
    assert git(repo, "rev-parse", "agent/x^2") == git(repo, "rev-parse", "feature")
    clone = taken(repo, mails, tmp_path)
    assert git(clone, "rev-parse", "HEAD^{tree}") == git(repo, "rev-parse", "agent/x^{tree}")


def test_the_first_commit_of_a_repository_is_a_mail_too(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    ws = prepared(repo)
    (ws.temp_dir / "repo/a").write_bytes(b"a\r\n")
    mails = ws.deliver(delivery(), as_mailbox=True).mailbox
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", "-b", "main", str(other))
    git(other, "am", "-q", data=mails)
    assert (other / "a").read_bytes() == b"a\r\n"
