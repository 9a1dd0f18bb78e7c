"""A run whose workspace is an overlay, with the real CLI in the real jail: it works as in a copy, and comes back as one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.jails import needs_jail
from tests.workspace.overlays import needs_overlay, tree_hash
from toolkit import Toolbox, tool
from toolkit.errors import WorkspaceError
from toolkit.runs import Limits, RunResult, RunSpec, Verify, load_run, plan_run, run
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_servers.ready import load_ready
from toolkit_workspace.pristine import KeptCopies

Start = Callable[..., ScriptedAPI]
pytestmark = [needs_jail, needs_overlay]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository on the host."""
    shop = tmp_path / "shop"
    (shop / "src" / "deep").mkdir(parents=True)
    for name in ("app", "other", "src/one", "src/deep/two"):
        (shop / f"{name}.txt").write_text(f"{name} as it was\n")
    (shop / "src" / "link").symlink_to("one.txt")
    (shop / "run.sh").write_text("#!/bin/sh\n")
    (shop / "run.sh").chmod(0o755)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "as it was"]):
        _git(shop, *words)
    return shop


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=30).stdout


def toolkit(*words: str, code: int = 0) -> str:
    """What a command prints, results and all else."""
    command = [sys.executable, "-m", "toolkit", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def overlay_of(shop: Path, backend: Any = "overlay") -> WorkspaceSection:
    return WorkspaceSection([HostMount(shop)], [shop.parent], backend=backend)


async def ask(api: ScriptedAPI, prompt: str, **options: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run(prompt, api_url=api.url, api_key="fake", **options), 120)


def bash(command: str) -> list[Any]:
    return [tool_use("Bash", command=command)]


def kept_tree() -> Path:
    (kept,) = KeptCopies().all()
    return kept.tree


async def test_an_agent_works_in_it_as_in_a_copy(shop: Path, scripted_api: Start) -> None:
    command = (
        "git status --short; cat src/one.txt; echo new > app.txt; rm other.txt; mv src/deep src/deeper; git add -A"
    )
    turns = [
        bash(f"{command}; git commit -qm work; git status --short; ls src"),
        [tool_use("Read", file_path=str(shop / "src" / "one.txt"))],
        [tool_use("Edit", file_path=str(shop / "src" / "one.txt"), old_string="as it was", new_string="edited")],
        [text("done")],
    ]
    found = []
    for backend in ("overlay", "overlay", "copy"):
        api = scripted_api(*turns)
        section = overlay_of(shop, backend)
        done = await ask(api, "Work.", workspace=section, verify="test -f src/deeper/two.txt && test ! -e other.txt")
        assert done.code == "ok", done.debug
        assert section.filled_by[0] == backend
        assert done.changes is not None
        found.append((api.tool_results()[:2], done.changes.to_json(), done.changes.patch()))
    assert found[0] == found[1] == found[2]
    stored = load_run(str(done.run))
    assert stored.facts["backend"] == ["copy", ""]
    assert (shop / "app.txt").read_text() == "app as it was\n"


async def test_a_removed_file_that_is_held_counts_for_the_size_of_the_workspace(
    shop: Path, scripted_api: Start
) -> None:
    held = (
        "import os, time; f = open('x', 'wb'); os.unlink('x'); f.write(bytes(150_000_000)); f.flush(); time.sleep(60)"
    )
    api = scripted_api(bash(f'python3 -c "{held}"'), [text("not reached")], strict=False)
    done = await ask(api, "Fill it.", workspace=overlay_of(shop), limits=Limits(workspace_bytes=50_000_000))
    assert (done.code, "workspace" in str(done.cause)) == ("budget", True)


async def test_its_work_is_applied_taken_back_and_delivered_as_a_branch(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(bash("echo new > app.txt; git commit -qam 'a commit of the agent'"), [text("done")])
    done = await ask(api, "Work.", workspace=overlay_of(shop))
    stored = load_run(str(done.run))

    assert [change.path for change in stored.changes()] == ["shop/app.txt"]
    assert "app.txt" in toolkit("runs", "diff", str(done.run))
    assert "an overlay: over a copy of 5 files" in toolkit("runs", "show", str(done.run))
    toolkit("runs", "branch", str(done.run), "--name", "agent/work")
    assert _git(shop, "log", "-1", "--format=%s", "agent/work").strip() == "a commit of the agent"
    toolkit("runs", "apply", str(done.run))
    assert (shop / "app.txt").read_text() == "new\n"
    toolkit("runs", "apply", str(done.run), "--undo")
    assert (shop / "app.txt").read_text() == "app as it was\n"


HOSTILE = """
chmod -R 777 . ; ln src/one.txt hard; echo x >> hard; ln src/deep/two.txt src/again; mv src renamed; mv renamed/deep deep
mkdir src; echo fake > src/one.txt; rm -rf .git; python3 - <<'P'
import ctypes, os, stat
for name, value in (("user.overlay.opaque", b"y"), ("user.overlay.redirect", b"/etc"), ("user.overlay.metacopy", b""),
                    ("trusted.overlay.opaque", b"y"), ("user.note", b"mine")):
    for path in ("deep", "app.txt", "."):
        try:
            os.setxattr(path, name, value)
        except OSError as error:
            pass
try:
    os.mknod("white", stat.S_IFCHR, 0)
except OSError:
    pass
os.truncate("other.txt", 0)
with open("run.sh", "r+b") as file:
    import mmap
    mapped = mmap.mmap(file.fileno(), 0)
    mapped[0:2] = b"##"
    mapped.flush()
os.utime("app.txt", (1, 1))
P
chown -R 12345 . ; find . -mindepth 1 -delete; true
"""


async def test_nothing_that_an_agent_does_reaches_the_copy_below(shop: Path, scripted_api: Start) -> None:
    first = await ask(scripted_api([text("done")]), "Nothing.", workspace=overlay_of(shop))
    assert first.code == "ok", first.debug
    tree = kept_tree()
    before = tree_hash(tree)
    api = scripted_api(bash(HOSTILE), bash(HOSTILE), [text("done")])
    done = await ask(api, "Be bad.", workspace=overlay_of(shop))

    assert done.code == "ok", done.debug
    assert kept_tree() == tree
    assert tree_hash(tree) == before
    assert done.changes is not None
    assert done.changes, api.tool_results()
    assert {change.path for change in done.changes.deleted} >= {"shop/app.txt", "shop/src/one.txt", "shop/run.sh"}
    third = await ask(scripted_api(bash("git status --short; ls"), [text("done")]), "Look.", workspace=overlay_of(shop))
    assert third.changes is not None
    assert len(third.changes) == 0


async def test_a_conversation_goes_on_in_a_copy_with_the_hosts_edits(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(
        bash("echo mine > mine.txt; echo changed > app.txt"),
        [text("done")],
        bash("cat mine.txt app.txt other.txt src/deep/two.txt"),
        [text("seen")],
    )
    first = await ask(api, "Begin.", workspace=overlay_of(shop))
    (shop / "other.txt").write_text("from the host\n")
    second = await ask(api, "Go on.", resume=first.session)

    assert second.code == "ok", second.debug
    assert str(api.tool_results()[-1]).split("\n") == ["mine", "changed", "from the host", "src/deep/two as it was"]
    assert second.changes is not None
    assert [change.path for change in second.changes] == ["shop/app.txt", "shop/mine.txt"]
    assert load_run(str(second.run)).facts["backend"] == ["copy", "it was an overlay before"]


async def test_a_run_goes_back_to_a_checkpoint(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(bash("echo one > app.txt"), bash("echo two > app.txt; rm -r src; ls"), [text("done")])
    done = await ask(api, "Work.", workspace=overlay_of(shop))
    assert done.code == "ok", done.debug
    assert done.changes is not None
    first = load_run(str(done.run)).checkpoints[0]
    toolkit("runs", "rewind", str(done.run), "--to", str(first.number))
    left = [(change.kind, change.path) for change in load_run(str(done.run)).changes()]
    assert left in ([], [("modified", "shop/app.txt")])
    assert len(done.changes) > len(left)


async def test_ready_made_tools_reach_what_only_the_kept_copy_has(shop: Path, scripted_api: Start) -> None:
    box, results = load_ready("files"), {}
    deep, new = str(shop / "src" / "deep" / "two.txt"), str(shop / "src" / "deep" / "new.txt")
    turns = [
        [tool_use("mcp__files__read_file", path=deep)],
        [tool_use("mcp__files__write_file", path=new, content="from a tool\n")],
        [tool_use("mcp__files__edit_file", path="app.txt", edits=[{"old": "as it was", "new": "edited"}])],
        [tool_use("mcp__files__remove", path=str(shop / "other.txt"))],
        bash("cat src/deep/new.txt app.txt; ls other.txt src/deep; echo more >> src/deep/new.txt"),
        [tool_use("mcp__files__read_file", path="src/deep/new.txt")],
        [text("done")],
    ]
    for backend in ("overlay", "copy"):
        api = scripted_api(*turns)
        section = overlay_of(shop, backend)
        done = await ask(api, "Use them.", workspace=section, tools=[box])
        assert done.code == "ok", done.debug
        assert section.filled_by[0] == backend
        assert done.changes is not None
        results[backend] = api.tool_results(), done.changes.to_json()
    assert results["overlay"] == results["copy"]
    assert "src/deep/two as it was" in str(results["overlay"][0][0])
    assert [one["path"] for one in results["overlay"][1]] == ["shop/app.txt", "shop/other.txt", "shop/src/deep/new.txt"]


@tool
def look() -> str:
    """Look."""
    return "looked"


async def test_what_works_on_the_folder_itself_gets_a_copy_and_says_why(shop: Path, scripted_api: Start) -> None:
    cases: list[dict[str, Any]] = [
        {"tools": [Toolbox("mine", [look])]},
        {"protect": ["app.txt"]},
        {"verify": Verify(lambda ws: (ws / "app.txt").exists())},
    ]
    for options in cases:
        section = WorkspaceSection([HostMount(shop)], [shop.parent], backend="auto")
        done = await ask(scripted_api([text("done")]), "Go.", workspace=section, **options)
        assert done.code == "ok", done.debug
        assert section.filled_by[0] == "copy"
        assert section.filled_by[1]
        spec = RunSpec("Go.", workspace=overlay_of(shop), **options)
        with pytest.raises(WorkspaceError) as caught:
            plan_run(spec)
        assert caught.value.where == (section.filled_by[1],)


def test_a_plan_says_how_the_files_would_come(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    monkeypatch.chdir(shop)
    for backend, wanted in (("overlay", "an overlay"), ("auto", "a copy is as quick"), ("copy", "a copy of their own")):
        assert wanted in toolkit("run", "x", "--mount", ".", "--plan", "--backend", backend)
    assert "--backend is about what is mounted" in toolkit("run", "x", "--plan", "--backend", "overlay", code=2)
    assert "is not one of" in toolkit("run", "x", "--mount", ".", "--plan", "--backend", "link", code=2)


async def test_a_verification_writes_nothing_into_the_workspace(shop: Path, scripted_api: Start) -> None:
    verify = "echo x > app.txt; rm -rf src; echo y > planted; test -e other.txt"
    for backend in ("overlay", "copy"):
        api = scripted_api(bash("echo mine > mine.txt"), [text("done")])
        done = await ask(api, "Work.", workspace=overlay_of(shop, backend), verify=verify)
        assert done.code == "ok", done.debug
        assert done.changes is not None
        assert [change.path for change in done.changes] == ["shop/mine.txt"]
        folder = load_run(str(done.run)).folder
        assert [path.name for path in folder.iterdir() if path.name.startswith("verify-")] == []


def test_a_prepared_overlay_is_listed_used_in_a_jail_and_cleaned(shop: Path, tmp_path: Path) -> None:
    parent = tmp_path / "here"
    parent.mkdir()
    words = ["--mount", str(shop), "--root", str(tmp_path), "--parent", str(parent), "--backend", "overlay"]
    assert "kept from now on" in toolkit("workspace", "prepare", *words)
    folder = next(path for path in parent.iterdir() if path.name.startswith("toolkit-workspace-"))
    assert toolkit("workspace", "list", "--parent", str(parent)).rstrip().endswith("overlay")
    command = "cat shop/app.txt; echo n > shop/n"
    said = toolkit("sandbox", "exec", "--workspace", str(folder), "sh", "-c", command)
    assert said == "app as it was\n"
    assert "shop/n" in toolkit("workspace", "diff", str(folder))
    toolkit("workspace", "clean", "--kept", "--parent", str(parent))
    assert list(parent.iterdir()) == []
    assert f"the kept copy of {shop}" in toolkit("runs", "clean", "--larger-than", "1")
    assert KeptCopies().all() == []
