"""`files` with compat=reference answers as the reference filesystem server does, call by call, but for what is listed.

Both servers run, each over a tree of its own and one they share. An answer is the same when its verdict, its text, its
structured content and the tree afterwards are; the words of a refusal and the order of names are not compared. Every
other difference is intended, has a row in `DIFFERENCES` and a line in docs/ready.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.ready._reference import NODE, PACKAGE, Server, build_tree, photograph
from toolkit_servers.ready.files import files

compared = needs(NODE and PACKAGE.exists(), "needs node and the npm package that ./dev test installs")

DIFFERENCES = {
    "binary": "A binary file is refused by `read_file`, `read_text_file` and `edit_file`; there it is garbled text.",
    "cut": "A result over `max_chars` is cut and says so; `directory_tree` is then refused, with the folders to leave out.",
    "ambiguous": "An edit whose `oldText` is there twice is refused; there the first place is changed.",
    "empty old": "An empty `oldText` is refused; there `newText` goes to the beginning of the file.",
    "indent": "An edit found by its words alone keeps the inner indentation of `newText`; there it is flattened.",
    "crlf": "An edit keeps CRLF line ends; there the whole file gets plain ones.",
    "context": "A diff has three lines of context, not four.",
    "links": "A link is moved itself, never written through, and not followed where it is absolute or leads into"
    " another allowed directory.",
    "locked": "A file without any write permission is not overwritten.",
    "listed links": "`search_files` also names links that lead nowhere or out.",
    "special": "A FIFO, socket or device is never opened.",
    "tail": "`tail` counts lines as `head` does; there the end of the last line counts as one more.",
    "numbers": "`head` and `tail` are whole numbers and not negative.",
    "media": "`read_media_file` knows pictures and sounds by their bytes, other types by more endings than eleven, sends SVG"
    " as a resource, text as text (there base64) and at most 10 MB, and has no structured content, beside which Claude"
    " Code would drop the picture.",
    "empty text": "A result without text has no content block, only structured content.",
    "unknown": "An argument that does not exist is refused with the nearest name; there it is ignored.",
    "patterns": "Negated, extended and range patterns (`!a`, `+(a|b)`, `{1..3}`) are refused.",
    "names": "A name that holds a line break or something invisible is escaped, in quotes.",
    "unicode": "A name in another Unicode form is not found, but suggested.",
    "roots": "The folders are those it is started with; roots that a client offers are not asked for.",
    "limits": "At most 250 files, 100 edits, 50 patterns and 4 MiB to edit in a call.",
}


@dataclass(frozen=True)
class Call:
    """One call to both; `differs` names the row that excuses a different answer."""

    tool: str
    arguments: dict[str, Any]
    differs: str | None = None


def edit(path: str, *pairs: tuple[str, str], differs: str | None = None, **more: Any) -> Call:
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    return Call("edit_file", {"path": path, "edits": edits, **more}, differs)


READS = [
    *[Call("read_text_file", {"path": path}) for path in ("a.txt", "no_end.txt", "crlf.txt", "bom.txt", "latin.txt")],
    *[Call("read_text_file", {"path": path}) for path in ("to_a", "with space.txt", "é.txt", "./d/../a.txt", "d/b.py")],
    *[Call("read_text_file", {"path": path}) for path in ("missing", "d", "dead", "out", "../outside.txt", "a.txt/x")],
    *[Call("read_text_file", {"path": path}) for path in ("/etc/passwd", "C:\\x", "a\0b", "to_d/b.py", "~/nothing")],
    Call("read_text_file", {"path": "empty.txt"}, "empty text"),
    Call("read_text_file", {"path": "binary.bin"}, "binary"),
    Call("read_text_file", {"path": "e\u0301.txt"}, "unicode"),
    Call("read_text_file", {"path": "a.txt", "nothing": 1}, "unknown"),
    Call("read_text_file", {}),
    Call("read_text_file", {"path": 5}),
    Call("read_file", {"path": "a.txt"}),
    Call("read_file", {"path": "a.txt", "head": 2}),
    *[Call("read_text_file", {"path": "a.txt", "head": count}) for count in (0, 1, 2, 3, 4, 99)],
    *[Call("read_text_file", {"path": path, "head": 2}) for path in ("no_end.txt", "crlf.txt", "long.txt", "missing")],
    Call("read_text_file", {"path": "a.txt", "head": -1}, "numbers"),
    Call("read_text_file", {"path": "a.txt", "head": 1, "tail": 1}),
    *[Call("read_text_file", {"path": "no_end.txt", "tail": count}) for count in (0, 1, 2, 9)],
    Call("read_text_file", {"path": "a.txt", "tail": 2}, "tail"),
    Call("read_text_file", {"path": "long.txt", "tail": 200}, "tail"),
    Call("read_media_file", {"path": "pixel.png"}, "media"),
    Call("read_media_file", {"path": "sound.wav"}, "media"),
    Call("read_media_file", {"path": "drawing.svg"}, "media"),
    Call("read_media_file", {"path": "binary.bin"}, "media"),
    Call("read_media_file", {"path": "a.txt"}, "media"),
    Call("read_media_file", {"path": "missing.png"}),
    Call("read_media_file", {"path": "d"}),
    Call("read_multiple_files", {"paths": ["a.txt"]}),
    Call("read_multiple_files", {"paths": ["a.txt", "d/b.py", "no_end.txt"]}),
    Call("read_multiple_files", {"paths": []}),
    Call("list_directory", {"path": "."}),
    Call("list_directory", {"path": "d"}),
    Call("list_directory", {"path": "to_d"}),
    Call("list_directory", {"path": "a.txt"}),
    Call("list_directory", {"path": "void"}, "empty text"),
    Call("list_directory", {"path": "missing"}),
    Call("list_directory_with_sizes", {"path": "d"}),
    Call("list_directory_with_sizes", {"path": "void"}),
    Call("list_directory_with_sizes", {"path": "src", "sortBy": "size"}),
    Call("list_directory_with_sizes", {"path": "src", "sortBy": "age"}),
    Call("directory_tree", {"path": "."}),
    Call("directory_tree", {"path": "d"}),
    Call("directory_tree", {"path": "void"}),
    Call("directory_tree", {"path": "a.txt"}),
    *[
        Call("directory_tree", {"path": ".", "excludePatterns": patterns})
        for patterns in (["*.txt"], ["node_modules"], ["**/node_modules"], ["d/e"], ["**/*.py", ".hidden"], ["src/*"])
    ],
    Call("search_files", {"path": "d", "pattern": "**"}),
    Call("search_files", {"path": "d", "pattern": "*.nothing"}),
    Call("search_files", {"path": "a.txt", "pattern": "*"}),
    *[
        Call("search_files", {"path": ".", "pattern": pattern})
        for pattern in (
            "*.txt",
            "**/*.py",
            "d/**",
            "**/e/*",
            "src/*.{ts,tsx}",
            "?.txt",
            "[a-c]*.txt",
            "d",
            "**/d/",
            "#a",
        )
    ],
    *[
        Call("search_files", {"path": ".", "pattern": pattern})
        for pattern in (
            "**/*.js",
            "*",
            "**/[!a-z]*",
            "with space.txt",
            "D",
            "d/*/c.py",
            ".*",
            "**/.*",
            "{d,src}/*",
            "\\*",
        )
        if pattern != "*"
    ],
    Call("search_files", {"path": ".", "pattern": "*"}, "listed links"),
    Call("search_files", {"path": ".", "pattern": "*.+(txt|md)"}, "patterns"),
    Call("search_files", {"path": ".", "pattern": "!*.txt"}, "patterns"),
    Call("search_files", {"path": ".", "pattern": "{a..c}.txt"}, "patterns"),
    *[
        Call("search_files", {"path": ".", "pattern": pattern})
        for pattern in ("[[:alpha:]].txt", "[^a]*.txt", "[]a].txt", "d//b.py", "/d", "**/e", "d/**/*", "[a", "é*")
    ],
    Call("list_directory", {"path": "odd"}, "names"),
    Call("search_files", {"path": ".", "pattern": "**/*.js", "excludePatterns": ["node_modules"]}),
    Call("search_files", {"path": ".", "pattern": "**/*.js", "excludePatterns": ["node_modules/**"]}),
    Call("search_files", {"path": ".", "pattern": "**/*.js", "excludePatterns": ["**/node_modules"]}),
    *[Call("get_file_info", {"path": path}) for path in ("a.txt", "d", "to_a", "fifo", "dead", "out", "missing", ".")],
]

WRITES = [
    Call("write_file", {"path": "new.txt", "content": "new\n"}),
    Call("write_file", {"path": "a.txt", "content": "other"}),
    Call("write_file", {"path": "d/new", "content": "é"}),
    Call("write_file", {"path": "no/such/folder/x", "content": "x"}),
    Call("write_file", {"path": "d", "content": "x"}),
    Call("write_file", {"path": "../x", "content": "x"}),
    Call("write_file", {"path": "out", "content": "x"}),
    Call("write_file", {"path": "C:\\x", "content": "x"}),
    Call("write_file", {"path": "to_a", "content": "x"}, "links"),
    Call("write_file", {"path": "locked.txt", "content": "x"}, "locked"),
    edit("locked.txt", ("locked", "open"), differs="locked"),
    Call("move_file", {"source": "to_a", "destination": "moved"}, "links"),
    Call("move_file", {"source": "locked.txt", "destination": "d/locked.txt"}),
    edit("a.txt", ("two", "2")),
    edit("a.txt", ("two", "2"), dryRun=True),
    edit("a.txt", ("one\ntwo", "1\n2"), ("three", "3")),
    edit("a.txt", ("two", "two")),
    edit("a.txt", ("two\n", "")),
    edit("a.txt"),
    edit("a.txt", ("absent", "x")),
    edit("a.txt", ("two", "2"), ("absent", "x")),
    edit("no_end.txt", ("last", "the last")),
    edit("fences.md", ("code", "more code")),
    edit("a.txt", ("two", "```")),
    edit("short.py", ("  return 2", "  return 3")),
    edit("short.py", ("return 2 ", "return 4")),
    edit("short.py", ("  def f():", "  def g():")),
    edit("short.py", ("\treturn 2", "\treturn 5\nx = 1"), differs="indent"),
    edit("tabs.go", ("if x {", "if z {")),
    edit("d", ("x", "y")),
    edit("missing", ("x", "y")),
    edit("twice.txt", ("same", "1"), differs="ambiguous"),
    edit("a.txt", ("", "x"), differs="empty old"),
    edit("crlf.txt", ("two", "2"), differs="crlf"),
    edit("long.txt", ("line 200\n", "line two hundred\n"), differs="context"),
    edit("indent.py", ("if self.x:\n    return 1", "if self.y:\n    return 5"), differs="indent"),
    edit("binary.bin", ("\x01", "x"), differs="binary"),
    Call("create_directory", {"path": "x/y/z"}),
    Call("create_directory", {"path": "d"}),
    Call("create_directory", {"path": "a.txt"}),
    Call("create_directory", {"path": "../x"}),
    Call("move_file", {"source": "a.txt", "destination": "d/a.txt"}),
    Call("move_file", {"source": "d", "destination": "e"}),
    Call("move_file", {"source": "a.txt", "destination": "no_end.txt"}),
    Call("move_file", {"source": "a.txt", "destination": "to_a"}),
    Call("move_file", {"source": "a.txt", "destination": "no/such/x"}),
    Call("move_file", {"source": "missing", "destination": "x"}),
    Call("move_file", {"source": "a.txt", "destination": "../x"}),
    Call("move_file", {"source": "d", "destination": "d/e/f"}),
]

# Rows that no single call here can show: it would hang the reference, need megabytes or another client.
SHOWN_ELSEWHERE = {"cut", "special", "limits", "roots"}


@dataclass
class Both:
    """The two servers and their folders."""

    theirs: Server
    ours: Server
    base: Path

    def fresh(self, whose: str, number: int) -> Path:
        folder = self.base / whose / f"case{number}"
        folder.mkdir()
        build_tree(folder / "tree")
        return folder / "tree"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    base = tmp_path_factory.mktemp("reference").resolve()
    for name in ("theirs", "ours", "shared"):
        (base / name).mkdir()
    build_tree(base / "shared" / "tree")
    theirs = Server([str(NODE), str(PACKAGE), str(base / "theirs"), str(base / "shared")], base)
    try:
        target = "files:ours:shared,compat=reference"
        ours = Server([sys.executable, "-m", "toolkit", "serve", target], base)
    except BaseException:
        theirs.close()
        raise
    yield Both(theirs, ours, base)
    theirs.close()
    ours.close()


def named(call: Call) -> str:
    return f"{call.tool} {json.dumps(call.arguments)}"[:90]


@compared
@pytest.mark.parametrize("call", READS, ids=named)
def test_looking_gives_the_same_answer(call: Call, both: Both) -> None:
    arguments = _below(call.arguments, both.base / "shared" / "tree")
    theirs, ours = both.theirs.call(call.tool, arguments), both.ours.call(call.tool, arguments)
    _compare(call, _comparable(call, theirs, ""), _comparable(call, ours, ""))


@compared
@pytest.mark.parametrize("number", range(len(WRITES)), ids=[named(call) for call in WRITES])
def test_changing_gives_the_same_answer_and_the_same_tree(number: int, both: Both) -> None:
    call = WRITES[number]
    seen = {}
    for whose, server in (("theirs", both.theirs), ("ours", both.ours)):
        tree = both.fresh(whose, number)
        answer = server.call(call.tool, _below(call.arguments, tree))
        seen[whose] = (_comparable(call, answer, str(tree)), photograph(tree.parent))
    _compare(call, seen["theirs"], seen["ours"])


@compared
def test_relative_paths_begin_at_the_first_folder_and_may_reach_the_second(both: Both) -> None:
    for path in ("../shared/tree/a.txt", "../shared/../shared/tree/d/b.py"):
        call = Call("read_text_file", {"path": path})
        answers = [_comparable(call, server.call(call.tool, call.arguments), "") for server in (both.theirs, both.ours)]
        assert answers[0] == answers[1]
        assert answers[0][0] is False
    for whose, server in (("theirs", both.theirs), ("ours", both.ours)):
        (both.base / whose / "first.txt").write_text("here")
        assert server.call("read_text_file", {"path": "first.txt"})["content"][0]["text"] == "here"


@compared
def test_the_allowed_directories_are_named_and_files_move_between_them(both: Both) -> None:
    for whose, server in (("theirs", both.theirs), ("ours", both.ours)):
        said = server.call("list_allowed_directories", {})["structuredContent"]["content"]
        assert said == f"Allowed directories:\n{both.base / whose}\n{both.base / 'shared'}"
        (both.base / whose / "wanders").write_text("x")
        moved = {"source": "wanders", "destination": f"{both.base}/shared/{whose}"}
        assert not server.call("move_file", moved).get("isError")
        assert (both.base / "shared" / whose).read_text() == "x"
        (both.base / "shared" / whose).unlink()


@compared
def test_names_arguments_and_hints_are_the_same(both: Both) -> None:
    theirs, ours = both.theirs.tools(), both.ours.tools()
    assert set(theirs) == set(ours)
    assert len(ours) == 14
    for name, reference in theirs.items():
        mine = ours[name]
        assert _arguments(reference["inputSchema"]) == _arguments(mine["inputSchema"]), name
        hints = {key: value for key, value in reference["annotations"].items() if key.endswith("Hint")}
        if hints["readOnlyHint"] is False:
            del hints["readOnlyHint"]  # the default
        assert mine["annotations"] == hints, name


@compared
def test_a_link_into_the_other_folder_is_not_followed(both: Both) -> None:
    assert "links" in DIFFERENCES
    for whose, server, followed in (("theirs", both.theirs, True), ("ours", both.ours, False)):
        link = both.base / whose / "across"
        link.symlink_to("../shared/tree/a.txt")
        answer = server.call("read_text_file", {"path": "across"})
        assert (answer.get("isError") is not True) is followed
        link.unlink()


def test_every_difference_is_shown_by_a_call_and_told_in_the_docs() -> None:
    used = {call.differs for call in [*READS, *WRITES]} - {None}
    assert used | SHOWN_ELSEWHERE == DIFFERENCES.keys()
    page = " ".join((Path(__file__).parents[2] / "docs" / "ready.md").read_text(encoding="utf-8").split())
    assert [text for text in DIFFERENCES.values() if f"- {text}" not in page] == []


async def test_what_is_too_much_for_a_result_is_cut_or_refused_in_words(tmp_path: Path) -> None:
    build_tree(tmp_path / "tree")
    box = files(tmp_path / "tree", compat="reference", max_chars=500)
    read = await box.call("read_text_file", {"path": "long.txt"})
    assert read.text.startswith("line 0\nline 1\n")
    assert read.text.endswith("[cut here: the file has 3.5 kB; head and tail give parts of it]")
    tree = await box.call("directory_tree", {"path": "."})
    assert tree.is_error
    assert "src (6 entries)" in tree.text
    listed = await box.call("search_files", {"path": ".", "pattern": "**"})
    assert "are shown" in listed.text.splitlines()[-1]
    assert (await box.call("read_text_file", {"path": "fifo"})).is_error  # the reference would wait for ever
    assert (await box.call("read_multiple_files", {"paths": ["a.txt"] * 251})).is_error


OUTSIDE = ["../outside.txt", "out", "out/x", "d/../../outside.txt", "/etc/hostname", "across/x", "~/x"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("whole", [True, False], ids=["absolute", "relative"])
async def test_no_tool_reaches_what_lies_outside(path: str, whole: bool, tmp_path: Path) -> None:
    build_tree(tmp_path / "tree")
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "tree" / "across").symlink_to(tmp_path)
    named = path if path.startswith(("/", "~")) or not whole else f"{tmp_path}/tree/{path}"
    box = files([tmp_path / "tree"], compat="reference")
    before = photograph(tmp_path)
    given = {"path": named, "source": "a.txt", "destination": named, "content": "x", "pattern": "**"}
    given["edits"] = [{"oldText": "secret", "newText": "x"}]  # type: ignore[assignment]
    for name in box.tools.keys() - {"read_multiple_files", "list_allowed_directories"}:
        arguments = {key: given[key] for key in box.tools[name].input_schema["required"]}
        reply = await box.call(name, arguments)
        assert reply.is_error, (name, reply.text)
        assert "secret" not in reply.text
    several = await box.call("read_multiple_files", {"paths": [named, "a.txt"]})
    assert "secret" not in several.text
    assert "one\ntwo" in several.text
    assert photograph(tmp_path) == before


def _below(arguments: dict[str, Any], tree: Path) -> dict[str, Any]:
    """The arguments with their paths written from the tree on."""

    def full(path: Any) -> Any:
        plain = isinstance(path, str) and not path.startswith(("/", "~", "C:"))
        return f"{tree}/{path}" if plain else path

    paths = {key: full(value) for key, value in arguments.items() if key in ("path", "source", "destination")}
    if "paths" in arguments:
        paths["paths"] = [full(path) for path in arguments["paths"]]
    return {**arguments, **paths}


def _comparable(call: Call, answer: dict[str, Any], tree: str) -> tuple[Any, ...]:
    """Whether it failed, and if not, everything it said, without what is not compared."""
    if "error" in answer or answer.get("isError"):
        return (True,)
    said = json.dumps([answer["content"], answer.get("structuredContent")])
    content, structured = json.loads(said.replace(tree, "TREE") if tree else said)
    if call.tool in ("list_directory", "search_files"):
        return (
            False,
            *(sorted(block["text"].split("\n")) for block in content),
            sorted(structured["content"].split("\n")),
        )
    if call.tool == "directory_tree":
        return (False, _sorted(json.loads(content[0]["text"])), _sorted(json.loads(structured["content"])))
    return (False, content, structured)


def _sorted(tree: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = [{**one, "children": _sorted(one["children"])} if "children" in one else one for one in tree]
    return sorted(known, key=lambda one: str(one["name"]))


def _compare(call: Call, theirs: Any, ours: Any) -> None:
    if call.differs is None:
        assert ours == theirs
    else:
        assert ours != theirs, f"the row {call.differs!r} no longer holds for {named(call)}"


def _arguments(schema: dict[str, Any]) -> tuple[set[str], set[str], Any]:
    """The arguments, those that are required, and the same of what is in a list."""
    properties = schema.get("properties", {})
    inner = {
        name: _arguments(value["items"])
        for name, value in properties.items()
        if value.get("type") == "array" and "properties" in value["items"]
    }
    return set(properties), set(schema.get("required", ())), inner
