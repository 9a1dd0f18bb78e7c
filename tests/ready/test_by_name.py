"""Ready-made toolboxes by name: in code, as a TARGET, and served to a real client."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.cli._command import TOOLKIT, toolkit
from tests.ready._client import names_in, refused, said
from toolkit import ToolContext
from toolkit.errors import TargetError
from toolkit_servers.ready import READY, load_ready
from toolkit_servers.ready.files import files
from toolkit_servers.target import load_target

TOOL = "from toolkit import tool\n\n@tool\ndef own() -> str:\n    'Mine.'\n    return 'mine'\n"


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where notes without a file are kept."""
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.mark.parametrize("name", sorted(READY.keys() - {"workspace"}))
def test_every_name_gives_a_toolbox_of_that_name(name: str, tmp_path: Path) -> None:
    target = load_target(name, cwd=tmp_path)
    assert target.toolbox.name == name
    assert all(tool.description for tool in target.toolbox)
    assert target.toolbox.instructions


async def test_options_may_be_values_or_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("text")
    for read_only in (True, "true", "yes"):
        box = load_ready("files", root=str(tmp_path), read_only=read_only)
        assert "write_file" not in box.tools
        assert await said(box, "read_file", path="f") == "text"


async def test_several_folders_are_several_boxes_with_names(tmp_path: Path) -> None:
    boxes = [load_ready("files", root=tmp_path, name="one"), load_target("files:.,name=two", cwd=tmp_path).toolbox]
    assert [box.name for box in boxes] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "options", "said_in_error"),
    [
        ("file", {}, "did you mean 'files'?"),
        ("files", {"readonly": True}, "did you mean 'read_only'?"),
        ("files", {"read_only": "maybe"}, "read_only has a wrong value"),
        ("files", {"compat": "other"}, "compat has a wrong value: input should be 'reference'"),
        ("files", {"root": ["/tmp", "/var"]}, "files has one folder, but was given several"),
        ("files", {"root": [], "compat": "reference"}, "files was given no folder"),
        ("planning", {"x": 1}, "no option 'x'"),
    ],
)
def test_a_wrong_name_or_option_is_explained(name: str, options: dict[str, object], said_in_error: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_ready(name, **options)
    assert caught.value.target == name
    assert said_in_error in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("files", {"root": 1}, "root=1 cannot be used: it must be a path, a list, each a path or None"),
        ("files", {"root": b"docs"}, "root=b'docs' cannot be used"),
        ("files", {"root": ""}, "its root is an empty path"),
        ("files", {"root": ["", "."], "compat": "reference"}, "its root is an empty path"),
        ("files", {"compat": "Reference"}, "compat='Reference' cannot be used: it must be 'reference' or None"),
        ("files", {"compat": True}, "compat=True cannot be used"),
        ("files", {"max_chars": 0}, "max_chars=0 leaves nothing"),
        ("files", {"max_chars": "5"}, "max_chars='5' cannot be used: it must be a whole number"),
        ("files", {"read_only": "no"}, "read_only='no' cannot be used: it must be True or False"),
        ("files", {"name": 1}, "name=1 cannot be used: it must be a text"),
        ("notes", {"database": 1}, "database=1 cannot be used: it must be a path or None"),
        ("notes", {"database": ""}, "its database is an empty path"),
        ("workspace", {"section": 1}, "section=1 cannot be used"),
    ],
    ids=str,
)
def test_in_python_too_a_wrong_option_is_explained(name: str, options: dict[str, Any], words: str) -> None:
    make = getattr(import_module(f"toolkit_servers.ready.{name}"), name)
    with pytest.raises(TargetError) as caught:
        make(**options)
    assert words in caught.value.what
    assert (caught.value.target, caught.value.exit_code) == (name, 2)


async def test_in_python_a_folder_may_be_text_or_a_path(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    for root in (tmp_path, str(tmp_path)):
        assert "here" in await said(files(root), "list_directory")  # type: ignore[arg-type]
        assert "here" in await said(files([root], compat="reference"), "list_directory", path=str(tmp_path))  # type: ignore[list-item]


@pytest.mark.parametrize("spec", ["files:", "files:,read_only=true", "files:root=", "notes:", "notes:database="])
def test_a_path_without_a_character_does_not_stand_for_the_current_folder(spec: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="is an empty path") as caught:
        load_target(spec, cwd=tmp_path)
    assert caught.value.exit_code == 2
    with pytest.raises(TargetError, match="is an empty path"):
        load_ready(spec.partition(":")[0], **{str(READY[spec.partition(":")[0]]): ""})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("files:proj,readonly=true", "'files' has no option 'readonly'; did you mean 'read_only'?"),
        ("files:proj,readonly=true,max_chars=100", "did you mean 'read_only'?"),
        ("files:proj:proj,readonly=true,compat=reference", "did you mean 'read_only'?"),
        ("files:root=proj,readonly=true", "did you mean 'read_only'?"),
        ("files:readonly=true", "did you mean 'read_only'?"),
        ("files:proj,colour=red", "'files' has no option 'colour'; there are: "),
        ("notes:mem.db,read_only=true", "'notes' has no option 'read_only'; there are: database"),
        ("notes:colour=red", "'notes' has no option 'colour'; there are: database"),
        ("notes:compat=reference", "'notes' has no option 'compat'; there are: database"),
        ("files:proj,root=other", "'files' was given its root twice"),
        ("files:root=proj,root=other", "'files' was given its root twice"),
        ("files:proj,read_only=true,read_only=false", "'files' was given its read_only twice"),
    ],
)
def test_a_mistyped_option_is_not_taken_for_the_end_of_the_path(spec: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    with pytest.raises(TargetError) as caught:
        load_target(spec, cwd=tmp_path)
    assert words in caught.value.what
    assert (caught.value.target, caught.value.exit_code) == (spec, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["proj"]


async def test_a_file_to_be_made_may_be_called_like_an_option(tmp_path: Path) -> None:
    box = load_target("notes:./a=b.db", cwd=tmp_path).toolbox
    await said(box, "add_note", text="x")
    assert (tmp_path / "a=b.db").is_file()


async def test_a_folder_that_is_called_like_a_mistyped_option_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "proj,readonly=true"
    folder.mkdir()
    (folder / "here").touch()
    assert "here" in await said(load_target(f"files:{folder.name}", cwd=tmp_path).toolbox, "list_directory")


@pytest.mark.parametrize("spec", ["files:a,b=c", "files:root=a,b=c", "files:a,b=c,read_only=false", "files:./a,b=c"])
async def test_a_target_names_the_folder_and_options_behind_a_colon(spec: str, tmp_path: Path) -> None:
    (tmp_path / "a,b=c").mkdir()
    (tmp_path / "a,b=c" / "here").touch()
    box = load_target(spec, cwd=tmp_path).toolbox
    assert "here" in await said(box, "list_directory")
    assert "write_file" in box.tools


async def test_several_folders_have_colons_between_them_unless_one_has_that_name(tmp_path: Path) -> None:
    for name in ("a", "b", "a:c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "here").write_text(name)
    two = load_target("files:a:b,compat=reference", cwd=tmp_path).toolbox
    assert await said(two, "list_allowed_directories") == f"Allowed directories:\n{tmp_path}/a\n{tmp_path}/b"
    assert await said(two, "read_text_file", path=f"{tmp_path}/b/here") == "b"
    assert "outside the allowed directories" in await refused(two, "read_text_file", path=f"{tmp_path}/a:c/here")
    one = load_target("files:a:c", cwd=tmp_path).toolbox
    assert await said(one, "read_file", path="here") == "a:c"
    with pytest.raises(TargetError, match="given several"):
        load_target("files:a:b", cwd=tmp_path)


async def test_the_reference_tools_without_a_folder_are_those_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("text")
    box = load_ready("files", compat="reference", read_only=True)
    assert len(box.tools) == 10
    assert await said(box, "read_text_file", ToolContext(workspace=tmp_path), path="f") == "text"


async def test_files_without_a_folder_are_those_of_the_workspace_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "inside").touch()
    monkeypatch.chdir(tmp_path)
    box = load_target("files").toolbox
    assert "space/" in await said(box, "list_directory")
    of_a_run = ToolContext(workspace=tmp_path / "space")
    assert "inside" in await said(box, "list_directory", of_a_run)
    await said(box, "write_file", of_a_run, path="new", content="x")
    assert names_in(tmp_path / "space") == ["inside", "new"]
    assert "outside" in await refused(box, "read_file", of_a_run, path="../x")
    assert "gone" in await refused(box, "info", ToolContext(workspace=tmp_path / "missing"))


def test_a_module_of_that_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "files.py").write_text(TOOL)
    done = toolkit("inspect", "--json", "files", cwd=tmp_path)
    assert [tool["name"] for tool in json.loads(done.out)["tools"]] == ["own"], done.err


def test_a_package_of_that_name_is_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "__init__.py").write_text(TOOL)
    done = toolkit("inspect", "files", "--json", cwd=tmp_path)
    assert "own" in done.out
    assert "read_file" not in done.out


def test_a_folder_without_python_in_it_does_not_hide_the_ready_made_one(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert load_target("notes", cwd=tmp_path).toolbox.name == "notes"


def test_a_mistyped_name_is_corrected_on_the_command_line(tmp_path: Path) -> None:
    done = toolkit("serve", "--check", "plannning", cwd=tmp_path)
    assert (done.code, done.err.splitlines()[-1].strip()) == (2, "Did you mean planning?")
    assert toolkit("serve", "--check", "planning:x", cwd=tmp_path).code == 2
    assert "no problems" in toolkit("serve", "--check", "files", cwd=tmp_path).out


def test_a_mistyped_name_ends_a_run_before_it_starts(tmp_path: Path) -> None:
    done = toolkit("run", "Hello", "--ready", "plannning", cwd=tmp_path)
    assert done.code == 2
    assert "did you mean 'planning'?" in done.err


def test_the_help_of_serve_names_every_ready_made_toolbox(tmp_path: Path) -> None:
    text = toolkit("serve", "--help", cwd=tmp_path).out
    for name in READY:
        assert f"\n    {name}" in text


def test_an_installed_entry_finds_its_folder_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    done = toolkit("install", "files:docs", cwd=tmp_path)
    entry = json.loads(done.out[done.out.index("{") :])["mcpServers"]["files"]
    assert entry["args"][-3:] == ["--cwd", "<here>", "files:docs"]


async def test_a_client_over_stdio_reads_what_a_caller_in_process_reads(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("text\n")
    process = StdioServerParameters(command=str(TOOLKIT), args=["serve", "files:docs"], cwd=tmp_path)
    box = load_target("files:docs", cwd=tmp_path).toolbox
    async with Client(process) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == list(box.tools)
        for tool, arguments in [
            ("read_file", {"path": "a.txt"}),
            ("read_file", {"path": "../x"}),
            ("info", {"path": "a.txt"}),
        ]:
            over_stdio = await client.call_tool(tool, arguments)
            here = await box.call(tool, arguments)
            assert over_stdio.model_dump(by_alias=True, mode="json", exclude_none=True)["content"] == here.content
            assert over_stdio.is_error == here.is_error
