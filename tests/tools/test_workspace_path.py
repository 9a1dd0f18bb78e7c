"""`WorkspacePath`: a path as the agent writes it becomes a host path inside the copy, or the tool is not called."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from toolkit import Toolbox, ToolContext, ToolError, WorkspacePath, tool
from toolkit.errors import ToolDefinitionError
from toolkit.tools.workspace_path import AgentPaths

SEEN: list[Path] = []


@tool
def look(path: WorkspacePath, others: list[WorkspacePath] | None = None) -> str:
    """Look at a file.

    Args:
        path: The file to look at.
    """
    SEEN.extend([path, *(others or [])])
    return path.read_text() if path.is_file() else "not there"


BOX = Toolbox("mine", [look])


class Shop:
    """A copy in `folder` that the agent knows as /home/you/shop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def locate(self, path: str) -> tuple[Path, str] | None:
        wanted = Path(os.path.normpath(Path("/home/you/shop", path)))
        inside = wanted.is_relative_to("/home/you/shop")
        return (self.folder, str(wanted.relative_to("/home/you/shop"))) if inside else None

    def to_agent(self, path: Path) -> str | None:
        inside = path.is_relative_to(self.folder)
        return str(Path("/home/you/shop") / path.relative_to(self.folder)) if inside else None

    def names(self) -> list[tuple[str, str]]:
        return [(str(self.folder), "/home/you/shop")]

    def check_change(self, path: Path) -> None:
        pass


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    SEEN.clear()
    folder = tmp_path / "copy"
    (folder / "src").mkdir(parents=True)
    (folder / "src/app.py").write_text("in the copy")
    (tmp_path / "secret").write_text("outside")
    return Shop(folder)


async def ask(paths: AgentPaths, **arguments: object) -> tuple[bool, str]:
    reply = await BOX.call("look", arguments, ToolContext(paths=paths))
    return reply.is_error, str(reply.content[0]["text"])


@pytest.mark.parametrize(
    "written",
    [
        "src/app.py",
        "/home/you/shop/src/app.py",
        "./src/../src/app.py",
        "/home/you/shop/../shop/src/app.py",
        "//home/you/shop/src/app.py",
    ],
)
async def test_the_agents_path_means_the_file_in_the_copy(shop: Shop, written: str) -> None:
    assert await ask(shop, path=written) == (False, "in the copy")
    assert [shop.folder / "src/app.py"] == SEEN


async def test_a_file_that_does_not_exist_yet_lies_in_a_folder_that_does(shop: Shop) -> None:
    assert await ask(shop, path="src/new.py", others=["src"]) == (False, "not there")
    assert [shop.folder / "src/new.py", shop.folder / "src"] == SEEN
    is_error, text = await ask(shop, path="nowhere/new.py")
    assert is_error
    assert "folder that does not exist" in text


@pytest.mark.parametrize(
    "written",
    ["../secret", "/etc/passwd", "src/../../secret", "/home/you/shopping", "", "a\0b", "x" * 5000, "/home/you", "/"],
)
async def test_a_path_that_leaves_the_workspace_is_refused_and_nothing_is_called(shop: Shop, written: str) -> None:
    is_error, text = await ask(shop, path=written)
    assert is_error, text
    assert SEEN == []


@pytest.mark.parametrize(
    "target", ["../secret", "/etc/passwd", "src/../../secret", "nothing", "/home/you/shop/src/nothing.py"]
)
async def test_a_link_that_leads_out_or_nowhere_is_refused(shop: Shop, target: str) -> None:
    (shop.folder / "link").symlink_to(target)
    is_error, text = await ask(shop, path="link")
    assert is_error, text
    assert SEEN == []


async def test_a_link_that_stays_inside_is_followed(shop: Shop) -> None:
    (shop.folder / "link").symlink_to("src")
    assert await ask(shop, path="link/app.py") == (False, "in the copy")
    assert [shop.folder / "src/app.py"] == SEEN


@pytest.mark.parametrize("written", ["there/app.py", "again/app.py", "beside/app.py", "file", "deep/there/app.py"])
async def test_a_link_that_stays_inside_for_the_agent_is_followed(shop: Shop, written: str) -> None:
    (shop.folder / "deep").mkdir()
    (shop.folder / "there").symlink_to("/home/you/shop/src")
    (shop.folder / "again").symlink_to("there")
    (shop.folder / "beside").symlink_to("../shop/src")
    (shop.folder / "file").symlink_to("/home/you/shop/there/app.py")
    (shop.folder / "deep/there").symlink_to("../../shop/again")
    assert await ask(shop, path=written) == (False, "in the copy")
    assert [shop.folder / "src/app.py"] == SEEN


@pytest.mark.parametrize(
    "target", ["/home/you", "/home/you/shop/../../..", "/home/you/shop/loop", "../..", "/proc/self/cwd"]
)
async def test_a_link_that_leads_the_agent_out_is_refused_on_every_way(shop: Shop, target: str) -> None:
    (shop.folder / "loop").symlink_to("/home/you/shop/loop")
    (shop.folder / "out").symlink_to(target)
    (shop.folder / "first").symlink_to("/home/you/shop/out")
    for written in ("out", "out/secret", "first/secret", "first/etc/passwd"):
        is_error, _ = await ask(shop, path=written)
        assert is_error, written
    assert SEEN == []


async def test_a_name_that_is_not_utf_8_is_found(shop: Shop) -> None:
    name = os.fsdecode(b"caf\xe9")
    (shop.folder / name).write_text("odd")
    assert ToolContext(paths=shop).host_path(name) == shop.folder / name


async def test_a_folder_that_is_swapped_for_a_link_never_leads_out(shop: Shop) -> None:
    outside = shop.folder.parent / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (shop.folder / "src").rename(shop.folder / "away")
            (shop.folder / "src").symlink_to(outside)
            (shop.folder / "src").unlink()
            (shop.folder / "away").rename(shop.folder / "src")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(500):
            try:
                found = ToolContext(paths=shop).host_path("src/app.py")
            except ToolError:
                continue
            assert found.is_relative_to(shop.folder)
    finally:
        stop.set()
        thread.join()


async def test_outside_a_run_it_is_relative_to_the_current_folder(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.folder)
    assert (await BOX.call("look", {"path": "src/app.py"})).text == "in the copy"
    assert (await BOX.call("look", {"path": "../secret"})).is_error
    assert look(shop.folder / "src/app.py") == "in the copy"  # called directly it is a plain function


def test_the_schema_has_a_string_and_a_sentence() -> None:
    properties = look.input_schema["properties"]
    assert properties["path"] == {"type": "string", "description": "The file to look at."}
    assert "workspace" in properties["others"]["items"]["description"]


def test_a_host_path_is_told_as_the_agent_knows_it(shop: Shop) -> None:
    context = ToolContext(paths=shop)
    assert context.agent_path(shop.folder / "src/app.py") == "/home/you/shop/src/app.py"
    with pytest.raises(ToolError):
        context.agent_path("/etc/passwd")


@tool
def tell(path: WorkspacePath, ctx: ToolContext) -> str:
    """Tell a path as the host has it."""
    ctx.progress(1, 2, f"at {path}")
    return f"{path}, '{path.parent}', {path.parent.parent}2 and {path.parent.parent}."


@tool(structured=True)
def tell_all(path: WorkspacePath) -> dict[str, list[str]]:
    """Tell paths in structured content."""
    return {"paths": [str(path)], "data": ["kept as it is"]}


async def test_what_a_tool_says_of_host_paths_is_told_by_the_agents_names(shop: Shop) -> None:
    box, said = Toolbox("tells", [tell, tell_all]), list[str | None]()
    context = ToolContext(paths=shop, on_progress=lambda done, total, message: said.append(message))
    reply = await box.call("tell", {"path": "src/app.py"}, context)
    here = "/home/you/shop"
    assert reply.text == f"{here}/src/app.py, '{here}/src', {shop.folder}2 and {here}."
    assert said == [f"at {here}/src/app.py"]
    structured = (await box.call("tell_all", {"path": "src/app.py"}, ToolContext(paths=shop))).structured
    assert structured == {"paths": [f"{here}/src/app.py"], "data": ["kept as it is"]}
    failed = await box.call("tell", {"path": "../x"}, ToolContext(paths=shop))
    assert (failed.is_error, str(shop.folder) in failed.text) == (True, False)
    plain = await box.call("tell", {"path": "tests"}, ToolContext())
    assert str(Path.cwd()) in plain.text


async def test_a_default_is_a_path_of_the_agent_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.folder.parent)

    @tool
    def search(
        folder: WorkspacePath = Path(),
        also: tuple[WorkspacePath, ...] = (Path("src"),),
        one: WorkspacePath | None = Path("/home/you/shop/src"),
        none: WorkspacePath | None = None,
    ) -> str:
        """Search."""
        return f"{folder} {also[0]} {one} {none}"

    reply = await Toolbox("mine", [search]).call("search", {}, ToolContext(paths=shop))

    copy = shop.folder.resolve()
    assert reply.content[0]["text"] == "/home/you/shop /home/you/shop/src /home/you/shop/src None", copy
    assert search() == ". src /home/you/shop/src None"  # a plain call is Python's


async def test_a_default_that_leaves_the_workspace_is_refused_unless_another_path_is_given(shop: Shop) -> None:
    @tool
    def read(path: WorkspacePath = Path("/etc/passwd")) -> str:
        """Read."""
        return path.read_text()

    box = Toolbox("mine", [read])
    left_out = await box.call("read", {}, ToolContext(paths=shop))
    given = await box.call("read", {"path": "src/app.py"}, ToolContext(paths=shop))

    assert left_out.is_error
    assert "/etc/passwd is outside the workspace" in str(left_out.content[0]["text"])
    assert given.content[0]["text"] == "in the copy"


@dataclass
class Where:
    folder: WorkspacePath = Path()


@dataclass(slots=True)
class WhereText:
    folder: WorkspacePath = "."  # type: ignore[assignment]


class WhereModel(BaseModel):
    folder: WorkspacePath | None = Path()


class WherePair(NamedTuple):
    folder: WorkspacePath = Path()


class WhereAll(BaseModel):
    folder: list[WorkspacePath] = [Path()]


class WhereNamed(BaseModel):
    folder: dict[str, WorkspacePath] = {"one": Path()}


@dataclass
class Free:
    folder: WorkspacePath
    other: WorkspacePath | None = None
    more: list[WorkspacePath] = field(default_factory=list)


@pytest.mark.parametrize("of", [Where, WhereText, WhereModel, WherePair, WhereAll, WhereNamed])
def test_a_field_whose_default_would_be_a_path_of_the_host_is_refused(of: Any) -> None:
    def search(at: list[of] | None = None) -> str:
        """Search."""
        return str(at)

    search.__annotations__ = {"at": list[of] | None, "return": str}
    with pytest.raises(ToolDefinitionError, match=rf"the default of {of.__name__}\.folder is a path of the host"):
        Toolbox("mine", [tool(search)])


async def test_fields_without_such_a_default_are_taken(shop: Shop) -> None:
    @tool
    def search(at: Free) -> str:
        """Search."""
        return f"{at.folder} {at.other} {at.more}"

    reply = await Toolbox("mine", [search]).call("search", {"at": {"folder": "src"}}, ToolContext(paths=shop))
    assert reply.content[0]["text"] == "/home/you/shop/src None []"
