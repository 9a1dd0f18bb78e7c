"""A typed function becomes a resource: its address, what is behind it, and what cannot be one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from toolkit import Audio, Image, Resource, Text, Toolbox, ToolContext, ToolError, ToolResult, resource, tool
from toolkit.errors import ToolDefinitionError
from toolkit.tools.offers import ServedResource, overlap
from toolkit.tools.offers.template import NotATemplateError, read_template

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55")
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 20


@dataclass
class Note:
    id: int
    text: str


@resource("notes://{id}", title="A note", ttl=60)
def note(id: int) -> Note | None:
    """One note.

    Args:
        id: Its number.
    """
    return Note(id, "milk") if id < 10 else None


@resource("config://app.toml")
def config() -> str:
    """How the app is set up."""
    return "debug = true"


box = Toolbox("notes", [note, config])


async def test_a_resource_is_still_the_function_it_was() -> None:
    assert note(3) == Note(3, "milk")
    assert pickle.loads(pickle.dumps(note)) is note
    again = pickle.loads(pickle.dumps(box))
    assert (await again.read("notes://3")).text == '{"id":3,"text":"milk"}'


def test_a_resource_is_listed_from_its_signature_and_docstring() -> None:
    assert box.resource_listing() == [
        {
            "uri": "config://app.toml",
            "name": "config",
            "description": "How the app is set up.",
            "mimeType": "text/plain",
        }
    ]
    assert box.resource_listing(templates=True) == [
        {"uriTemplate": "notes://{id}", "name": "note", "description": "One note.", "title": "A note"}
    ]


async def test_the_parameters_of_an_address_have_the_functions_types() -> None:
    seen: list[Any] = []

    @resource("log://{day}/{+path}{?limit,raw}")
    def log(day: str, path: str, limit: int = 5, raw: bool = False) -> str:
        seen.append((day, path, limit, raw))
        return "ok"

    logs = Toolbox("logs", [log])
    assert (await logs.read("log://mo%20nday/a/b%2Fc.txt?raw=true&limit=7")).text == "ok"
    assert (await logs.read("log://tuesday/x")).text == "ok"
    assert seen == [("mo nday", "a/b/c.txt", 7, True), ("tuesday", "x", 5, False)]


async def test_a_value_that_does_not_fit_its_type_is_told_and_the_function_is_not_called() -> None:
    found = await box.read("notes://milk")
    assert found.is_missing
    assert found.problem.splitlines()[0] == "note was not called: an argument is wrong"
    assert found.problem.splitlines()[1].startswith("- id: should be a valid integer")


async def test_none_means_that_there_is_nothing_and_an_unknown_address_is_told_with_the_nearest() -> None:
    assert (await box.read("notes://12")).problem == "there is no notes://12"
    assert (await box.read("config://app.tom")).problem == (
        "there is no resource config://app.tom; did you mean config://app.toml?"
    )


@pytest.mark.parametrize("path", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a%00b", "..%5Cx", "C:%5Cx"])
async def test_a_path_that_leads_out_is_refused_however_it_is_written(path: str) -> None:
    called: list[str] = []

    @resource("file://docs/{+path}")
    def docs(path: str) -> str:
        called.append(path)
        return ""

    found = await Toolbox("docs", [docs]).read(f"file://docs/{path}")
    assert found.is_missing
    assert "was not read: 'path' is an absolute path, or leads out by .." in found.problem
    assert called == []


async def test_a_parameter_may_be_any_path_where_the_resource_says_so() -> None:
    @resource("diff://{+range}", any_path=["range"])
    def diff(range: str) -> str:
        return range

    assert (await Toolbox("git", [diff]).read("diff://../main")).text == "../main"


def _served(value: Any, **options: Any) -> ServedResource[[], Any]:
    @resource("x://y", **options)
    def thing() -> Any:
        return value() if isinstance(value, Callable) else value  # type: ignore[arg-type]

    return thing


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        ("text", {}, {"mimeType": "text/plain", "text": "text"}),
        ("# x", {"mime": "text/markdown"}, {"mimeType": "text/markdown", "text": "# x"}),
        (PNG, {}, {"mimeType": "image/png", "blob": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptV"}),
        (PNG, {"mime": "image/png"}, {"mimeType": "image/png", "blob": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptV"}),
        (b"plain", {}, {"mimeType": "text/plain", "text": "plain"}),
        (b"\xff\xfe\x00", {}, {"mimeType": "application/octet-stream", "blob": "//4A"}),
        ({"a": 1}, {}, {"mimeType": "application/json", "text": '{"a":1}'}),
        ([1, 2], {}, {"mimeType": "application/json", "text": "[1,2]"}),
        (Note(1, "x"), {}, {"mimeType": "application/json", "text": '{"id":1,"text":"x"}'}),
        (Image(PNG), {}, {"mimeType": "image/png", "blob": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptV"}),
        (Text("t"), {}, {"mimeType": "text/plain", "text": "t"}),
        (ToolResult("v"), {}, {"mimeType": "text/plain", "text": "v"}),
    ],
    ids=str,
)
async def test_a_value_is_rendered_by_the_rules_of_tools(
    value: Any, options: dict[str, Any], expected: dict[str, str]
) -> None:
    found = await Toolbox("x", [_served(value, **options)]).read("x://y")
    assert found.contents == [{"uri": "x://y", **expected}]


async def test_several_parts_keep_their_own_addresses() -> None:
    thing = _served([Resource("x://a", "one"), "two", Audio(b"OggS....")])
    found = await Toolbox("x", [thing]).read("x://y")
    assert [(part["uri"], part["mimeType"]) for part in found.contents] == [
        ("x://a", "text/plain"),
        ("x://y", "text/plain"),
        ("x://y", "audio/ogg"),
    ]


async def test_a_renderer_of_its_own_is_used() -> None:
    thing = _served({"a": 1})

    @thing.renders
    def _(value: dict[str, int]) -> str:
        return f"a is {value['a']}"

    assert (await Toolbox("x", [thing]).read("x://y")).text == "a is 1"


async def test_bytes_that_are_not_what_the_mime_type_says_are_not_sent() -> None:
    found = await Toolbox("x", [_served(JPEG, mime="image/png")]).read("x://y")
    assert "x://y is declared as image/png, but its bytes are image/jpeg" in found.problem
    found = await Toolbox("x", [_served(b"\xff\xfe", mime="application/json")]).read("x://y")
    assert "its bytes are no UTF-8 text (at byte 0)" in found.problem
    found = await Toolbox("x", [_served(Image(JPEG), mime="image/png")]).read("x://y")
    assert "but its bytes are image/jpeg" in found.problem


async def test_what_is_larger_than_allowed_is_told_and_not_sent() -> None:
    big = b"x" * 50_000_000
    found = await Toolbox("x", [_served(big)]).read("x://y")
    assert "x://y has 50 MB, more than the 16 MB this resource may have" in found.problem
    found = await Toolbox("x", [_served(big, max_bytes=60_000_000)]).read("x://y")
    assert len(found.text) == 50_000_000


async def test_a_resource_that_raises_is_told_in_words(caplog: pytest.LogCaptureFixture) -> None:
    @resource("x://y")
    def broken() -> str:
        raise KeyError("milk")

    @resource("x://z")
    def told() -> str:
        raise ToolError("ask the owner first")

    both = Toolbox("x", [broken, told])
    assert (await both.read("x://y")).problem == "KeyError: 'milk'"
    assert "resource 'broken' failed" in caplog.text
    assert (await both.read("x://z")).problem == "ask the owner first"


async def test_a_resource_has_its_time_and_may_take_a_context() -> None:
    @resource("slow://x", timeout=0.05)
    async def slow() -> str:
        import anyio

        await anyio.sleep_forever()
        return ""

    @resource("who://{name}")
    def who(name: str, ctx: ToolContext) -> str:
        return f"{name} {ctx.call_id}"

    both = Toolbox("x", [slow, who])
    assert (await both.read("slow://x")).problem == "slow was stopped: it took longer than 0.05 s"
    assert (await both.read("who://me", ToolContext(call_id="c1"))).text == "me c1"


async def test_a_method_is_a_resource_of_its_object() -> None:
    class Shelf:
        def __init__(self, name: str) -> None:
            self.name = name

        @resource("shelf://{row}")
        def row(self, row: int) -> str:
            """A row."""
            return f"{self.name} {row}"

    assert (await Toolbox("s", [Shelf("left").row]).read("shelf://2")).text == "left 2"
    with pytest.raises(ToolDefinitionError, match="resource 'row' is a method and has no object"):
        Toolbox("s", [Shelf.row])


def _mistake(make: Callable[[], object]) -> ToolDefinitionError:
    with pytest.raises(ToolDefinitionError) as caught:
        make()
    return caught.value


def test_a_parameter_of_the_address_that_the_function_lacks_is_refused_with_its_place() -> None:
    def make() -> object:
        @resource("notes://{id}/{part}")
        def missing(id: int) -> str:
            return ""

        return missing

    error = _mistake(make)
    assert (error.tool, error.parameter) == ("missing", "part")
    assert str(error).splitlines()[0] == (
        "resource 'missing': its address has {part}, and the function has no parameter 'part'"
    )
    assert "test_resources.py:" in error.where[0]
    assert "def missing(id: int) -> str" in error.where[0]


def test_a_parameter_that_the_address_lacks_needs_a_default() -> None:
    def extra(id: int, colour: str) -> str:
        return ""

    def fine(id: int, colour: str = "red") -> str:
        return ""

    assert _mistake(lambda: resource("notes://{id}")(extra)).what == (
        "resource 'extra': parameter 'colour' is not in its address and has no default"
    )
    assert resource("notes://{id}")(fine).uri == "notes://{id}"
    assert "is optional in its address" in _mistake(lambda: resource("notes://{id}{?colour}")(extra)).what


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("notes", "does not begin with a scheme"),
        ("notes://{id", "without its partner"),
        ("notes://{}", "has no name"),
        ("notes://{id}{id}", "stands in it twice"),
        ("notes://{a}{b}", "nothing stands between"),
        ("notes://{id:3}", "a length after the name"),
        ("notes://{id*}", "works after /"),
        ("notes://{+a}/x/{+b}", "may both hold a /"),
        ("notes://{?a}{?b}", "two {?…}"),
        ("notes:// {id}", "no spaces"),
    ],
)
def test_an_address_that_cannot_be_matched_is_refused(uri: str, why: str) -> None:
    def thing(id: int, a: str = "", b: str = "") -> str:
        return ""

    assert why in _mistake(lambda: resource(uri)(thing)).what


def test_other_mistakes_are_refused_when_decorating() -> None:
    def nothing() -> None: ...

    def untyped(id):  # type: ignore[no-untyped-def]
        return ""

    def fine() -> str:
        return ""

    assert "returns None" in _mistake(lambda: resource("x://y")(nothing)).what
    assert "has no type" in _mistake(lambda: resource("x://{id}")(untyped)).what
    assert "has no option 'mim'; did you mean 'mime'?" in _mistake(lambda: resource("x://y", mim="a/b")(fine)).what  # type: ignore[call-arg]
    assert "is no MIME type" in _mistake(lambda: resource("x://y", mime="png")(fine)).what
    assert "it has no address" in _mistake(lambda: resource(fine)).what  # type: ignore[arg-type]
    assert "is no icon" in _mistake(lambda: resource("x://y", icons="note.png")(fine)).what
    assert "leaves nothing" in _mistake(lambda: resource("x://y", timeout=0)(fine)).what


def test_icons_are_addresses_or_files_that_are_sent_along(tmp_path: Path) -> None:
    (tmp_path / "note.png").write_bytes(PNG)

    @resource("x://y", icons=["https://example.org/a.png", tmp_path / "note.png"])
    def pictured() -> str:
        return ""

    first, second = pictured.listing()["icons"]
    assert first == {"src": "https://example.org/a.png"}
    assert second["mimeType"] == "image/png"
    assert second["src"].startswith("data:image/png;base64,iVBOR")


def test_tools_have_icons_too() -> None:
    @tool(icons="https://example.org/a.png")
    def pictured() -> str:
        """Say it."""
        return ""

    assert pictured.listing()["icons"] == [{"src": "https://example.org/a.png"}]
    assert "is no icon" in _mistake(lambda: tool(pictured.function, icons=7)).what


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("notes://{id}", "notes://{name}", True),
        ("notes://{id}", "notes://{id}/text", False),
        ("notes://{id}/x", "notes://a/{part}", True),
        ("files://{+path}", "files://docs/{name}", True),
        ("files://{+path}", "other://{+path}", False),
        ("a://x-{id}", "a://{id}-y", True),
        ("a://x{/rest*}", "a://x/y/{id}", True),
        ("a://{id}{?q}", "a://{id}{?r}", True),
        ("a://{id}/b{?q}", "a://{id}/c{?q}", False),
        ("a://{id}.txt", "a://{id}.md", False),
    ],
)
def test_addresses_that_overlap_are_found(one: str, other: str, clash: bool) -> None:
    assert overlap(read_template(one), read_template(other)) is clash
    assert overlap(read_template(other), read_template(one)) is clash


def test_two_resources_that_overlap_are_refused_in_one_box() -> None:
    @resource("notes://{name}")
    def named(name: str) -> str:
        return ""

    @resource("notes://first")
    def first() -> str:
        return "first"

    error = _mistake(lambda: Toolbox("notes", [note, named]))
    assert error.what == "some URIs fit both notes://{id} and notes://{name}"
    assert len(error.where) == 2
    Toolbox("notes", [named, first])  # one without parameters goes before a template
    assert _mistake(lambda: Toolbox("notes", [first, resource("notes://first")(lambda: "x")])).what


async def test_an_address_without_parameters_goes_before_a_template() -> None:
    @resource("notes://{name}")
    def named(name: str) -> str:
        return name

    @resource("notes://first")
    def first() -> str:
        return "the first"

    both = Toolbox("notes", [named, first])
    assert (await both.read("notes://first")).text == "the first"
    assert (await both.read("notes://second")).text == "second"


@pytest.mark.parametrize(
    "uri",
    [
        "notes://{id}",
        "a://{x}/{y}",
        "a://{+path}",
        "a://{x}{.ext}",
        "a://x{/path*}",
        "a://x{;p,q}",
        "a://x{?q,r}",
        "a://x{?q}{&r}",
        "a://x?fixed=1{&r}",
        "a://{x,y}",
        "a://{#frag}",
        "a://{+p}{?q}",
        "a://{+a}{+b}",
        "a://{a}{b}",
        "a://{a}{/b*}",
        "a://{/a*}{/b*}",
        "a://{a}{a}",
        "a://{a:3}",
        "a://{a*}",
        "a://{",
        "a://{}",
        "a://{+}",
        "a://{?a}{?b}",
        "a://{a}/{?b}/{c}",
        "a://{é}",
    ],
)
def test_our_reading_of_a_template_agrees_with_mcps(uri: str) -> None:
    """Decorating reads a template without loading mcp, which matches it later."""
    try:
        theirs = UriTemplate.parse(uri)
    except InvalidUriTemplate:
        with pytest.raises(NotATemplateError):
            read_template(uri)
        return
    ours = read_template(uri)
    assert ours.names == theirs.variable_names
    assert ours.query == theirs.query_variable_names


def test_resources_go_through_modules_selections_and_sums() -> None:
    import sys

    module = sys.modules[__name__]
    own = Toolbox.from_module(module, "own")
    assert set(own.resources) == {"notes://{id}", "config://app.toml"}

    @tool
    def find(word: str) -> str:
        """Find."""
        return word

    both = Toolbox("more", [find]) + own
    assert (list(both.tools), len(both.resources)) == (["find"], 2)
    assert list(both.only("note").resources) == ["notes://{id}"]
    assert list(both.only("config://app.toml").resources) == ["config://app.toml"]
    with pytest.raises(ToolDefinitionError, match="has no tool, resource or prompt 'nott'; did you mean 'note'"):
        both.only("nott")
