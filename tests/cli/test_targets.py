"""A TARGET is a file or a module, with or without a name, and loading it breaks nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli._command import toolkit, write
from toolkit.errors import TargetError, ToolDefinitionError
from toolkit_servers.target import load_target

pytestmark = pytest.mark.usefixtures("clean_imports")

HEAD = "from toolkit import Toolbox, tool\n"


def tool_named(name: str, value: str = "'hello'") -> str:
    return f"\n@tool\ndef {name}() -> str:\n    return {value}\n"


@pytest.mark.parametrize(
    ("spec", "box", "tools"),
    [
        ("both.py", "chosen", ["one"]),
        ("both.py:chosen", "chosen", ["one"]),
        ("both.py:two", "both", ["two"]),
        ("both.py:pair", "both", ["one", "two"]),
        ("both.py:Holder.inner", "inner", ["two"]),
        ("both.py:Holder.made", "both", ["made"]),
        ("both.py:holder.method", "both", ["method"]),
        ("./both.py", "chosen", ["one"]),
        ("both", "chosen", ["one"]),
        ("plain-tools.py", "plain-tools", ["one", "two"]),
        ("pkg.tools", "tools", ["three"]),
        ("pkg.tools:three", "tools", ["three"]),
        ("pkg/tools.py", "tools", ["three"]),
        ("pkg/__init__.py", "pkg", ["three"]),
        ("pkg", "pkg", ["three"]),
        ("pkg:three", "pkg", ["three"]),
        ("folder.tools", "tools", ["four"]),
        ("folder/tools.py:four", "tools", ["four"]),
    ],
)
def test_every_form_of_target_gives_its_tools(spec: str, box: str, tools: list[str], tmp_path: Path) -> None:
    two = HEAD + tool_named("one") + tool_named("two")
    boxes = """
chosen = same = Toolbox('chosen', [one])
pair = [one, two]

class Holder:
    inner = Toolbox('inner', [two])

    @classmethod
    @tool
    def made(cls) -> str:
        return cls.__name__

    @tool
    def method(self) -> str:
        return 'mine'

holder = Holder()
"""
    write(tmp_path, both=two + boxes)
    (tmp_path / "plain-tools.py").write_text(two, encoding="utf-8")
    write(tmp_path, pkg__tools=HEAD + "from .helper import word\n" + tool_named("three", "word"))
    write(tmp_path, pkg__helper="word = 'relative'\n")
    (tmp_path / "pkg" / "__init__.py").write_text("from .tools import three\n", encoding="utf-8")
    write(tmp_path, folder__tools=HEAD + tool_named("four"))

    target = load_target(spec, cwd=tmp_path)

    assert (target.toolbox.name, list(target.toolbox.tools)) == (box, tools)


async def test_files_next_to_the_target_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, notes=HEAD + "import helper_next_door\n" + tool_named("say", "helper_next_door.word()"))
    write(tmp_path, helper_next_door="from deep.down import word\n", deep__down="def word():\n    return 'found'\n")

    target = load_target("notes.py", cwd=tmp_path)

    assert (await target.toolbox.call("say")).text == "found"
    assert {file.name for file in target.files} == {"notes.py", "helper_next_door.py", "down.py"}


@pytest.mark.parametrize("name", ["http", "mcp"])
def test_running_the_package_is_as_safe_as_the_command(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(HEAD + "import http.client, mcp\n" + tool_named("say"), encoding="utf-8")
    command = [sys.executable, "-m", "toolkit", "call", f"{name}.py", "say"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("hello\n", "")


LIBRARIES = ["http", "types", "json", "asyncio", "mcp", "pydantic", "click", "toolkit"]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_file_called_like_a_library_breaks_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(HEAD + "import http.client, pydantic\n" + tool_named("say"), encoding="utf-8")
    done = toolkit("call", f"{name}.py", "say", cwd=tmp_path)
    assert (done.out, done.err, done.code) == ("hello\n", "", 0)


def test_neighbours_called_like_libraries_break_nothing(tmp_path: Path) -> None:
    for name in LIBRARIES:
        (tmp_path / f"{name}.py").write_text("raise ImportError('the wrong one')\n", encoding="utf-8")
    imports = "".join(f"import {name}\n" for name in LIBRARIES) + "import mcp.server\n"
    (tmp_path / "notes.py").write_text(HEAD + imports + tool_named("say"), encoding="utf-8")
    done = toolkit("call", "notes.py", "say", cwd=tmp_path)
    assert (done.out, done.err, done.code) == ("hello\n", "", 0)


async def test_a_neighbour_wins_over_an_installed_package_the_toolkit_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, site__common_name="word = 'installed'\n", mine__common_name="word = 'mine'\n")
    write(tmp_path, mine__notes=HEAD + "import common_name\n" + tool_named("say", "common_name.word"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    target = load_target("mine/notes.py", cwd=tmp_path)

    assert (await target.toolbox.call("say")).text == "mine"


async def test_loading_again_reads_the_target_and_what_it_imports_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    head = HEAD + "import words_a\nfrom deep_a import words_b\n"
    write(tmp_path, notes=head + tool_named("say", "words_a.word + words_b.word"))
    loads = []
    for word in ("old", "new"):
        write(tmp_path, words_a=f"word = '{word}'\n", deep_a__words_b=f"word = '{word}'\n")
        for file in ("words_a.py", "deep_a/words_b.py"):
            os.utime(tmp_path / file, (1, 1))  # the same size and second: cached bytecode does not notice the edit
        loads.append(load_target("notes.py", cwd=tmp_path))

    assert [(await each.toolbox.call("say")).text for each in loads] == ["oldold", "newnew"]


async def test_a_broken_edit_leaves_the_last_good_load_working(tmp_path: Path) -> None:
    lazily = HEAD + "import words_b\n\n@tool\ndef say() -> str:\n    import words_b\n    return words_b.word\n"
    write(tmp_path, notes=lazily, words_b="word = 'good'\n")
    target = load_target("notes.py", cwd=tmp_path)
    write(tmp_path, words_b="word = = 'bad'\n")

    with pytest.raises(TargetError):
        load_target("notes.py", cwd=tmp_path)

    assert (await target.toolbox.call("say")).text == "good"
    assert sys.modules["words_b"].word == "good"


def test_what_is_installed_is_never_imported_anew(tmp_path: Path) -> None:
    write(tmp_path, notes=HEAD + "import pydantic\n" + tool_named("say"))
    load_target("notes.py", cwd=tmp_path)
    before = sys.modules["pydantic"]

    load_target("notes.py", cwd=tmp_path)

    assert sys.modules["pydantic"] is before


def test_a_module_that_only_collects_tools_offers_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        collection_x=HEAD + tool_named("one") + tool_named("two"),
        all_of_them="from collection_x import one, two\n",
    )

    assert list(load_target("all_of_them.py", cwd=tmp_path).toolbox.tools) == ["one", "two"]


def test_a_module_with_tools_of_its_own_does_not_offer_imported_ones(tmp_path: Path) -> None:
    write(tmp_path, others_y=HEAD + tool_named("one"))
    partial = "import functools\n\nprinted = tool(functools.partial(tool_text, 1), name='printed')\n"
    plain = "\ndef tool_text(number: int, text: str) -> str:\n    return text * number\n\n"
    write(tmp_path, own_y=HEAD + "from others_y import one\n" + tool_named("two") + plain + partial)

    assert list(load_target("own_y.py", cwd=tmp_path).toolbox.tools) == ["two", "printed"]


def test_a_listed_module_offers_only_what_it_lists(tmp_path: Path) -> None:
    write(tmp_path, listed=HEAD + "__all__ = ['two']\n" + tool_named("one") + tool_named("two"))

    assert list(load_target("listed.py", cwd=tmp_path).toolbox.tools) == ["two"]


def test_errors_carry_the_target_and_the_tool(tmp_path: Path) -> None:
    write(tmp_path, twice=HEAD + tool_named("same") + tool_named("same"))
    with pytest.raises(TargetError) as missing:
        load_target("nothing.py:box", cwd=tmp_path)
    with pytest.raises(ToolDefinitionError) as twice:
        load_target("twice.py", cwd=tmp_path)

    assert missing.value.target == "nothing.py:box"
    assert twice.value.tool == "same"


@pytest.mark.parametrize("command", ["inspect TARGET", "serve TARGET", "call TARGET one", "run --tools TARGET go"])
@pytest.mark.parametrize("target", ["notes.txt", "./notes.txt", "notes.txt:box"])
def test_a_file_that_is_no_python_file_is_called_that(command: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("just notes\n", encoding="utf-8")
    done = toolkit(*command.replace("TARGET", target).split(), cwd=tmp_path)
    assert done.code != 0
    assert "notes.txt is no Python file: its name does not end in .py\n  Name a Python file: tools.py" in done.err


def test_the_python_file_beside_it_is_offered(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("just notes\n", encoding="utf-8")
    (tmp_path / "notes.py").write_text(HEAD + tool_named("one"), encoding="utf-8")
    with pytest.raises(TargetError) as caught:
        load_target("notes.txt", cwd=tmp_path)
    assert caught.value.fix == "Did you mean notes.py?"
