"""What `@tool` returns is still the function; what cannot be a tool is refused with place and fix."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, EmailStr, Field, field_validator

from toolkit import Toolbox, ToolContext, tool
from toolkit.errors import ToolDefinitionError

if TYPE_CHECKING:
    from decimal import Decimal


@tool
def shout(text: str, times: int = 1) -> str:
    """Say it louder."""
    return text.upper() * times


@tool
async def whisper(text: str) -> str:
    """Say it softly."""
    return text.lower()


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    @tool
    def add(self, amount: int) -> int:
        """Add to the count."""
        self.value += amount
        return self.value

    @tool
    async def read(self) -> int:
        return self.value

    @classmethod
    @tool
    def kind(cls, loud: bool = False) -> str:
        return cls.__name__.upper() if loud else cls.__name__

    @staticmethod
    @tool
    def double(number: int) -> int:
        return number * 2

    def __call__(self, step: int) -> int:
        return self.value + step


def test_a_decorated_function_is_still_the_function() -> None:
    assert shout("a", times=2) == "AA"
    assert asyncio.run(whisper("A")) == "a"
    assert shout.__name__ == "shout"
    assert shout.__doc__ == "Say it louder."
    assert str(inspect.signature(shout)) == "(text: 'str', times: 'int' = 1) -> 'str'"
    assert shout.location.startswith("tests/tools/test_decorating.py:")


async def test_methods_work_on_their_object() -> None:
    one, two = Counter(1), Counter(10)
    assert one.add(1) == 2
    assert await two.read() == 10
    box = Toolbox("counter", [one.add, one.read, Counter.kind, Counter.double])
    assert [entry["name"] for entry in box.listing()] == ["add", "read", "kind", "double"]
    assert list(box.listing()[0]["inputSchema"]["properties"]) == ["amount"]
    assert (await box.call("add", {"amount": 5})).text == "7"
    assert (await box.call("read")).text == "7"
    assert (await box.call("kind", {"loud": True})).text == "COUNTER"
    assert (await box.call("double", {"number": 4})).text == "8"
    assert two.value == 10


class Reversed:
    """The decorators in the other order."""

    @tool
    @classmethod
    def kind(cls, times: int = 1) -> str:
        return cls.__name__ * times

    @tool
    @staticmethod
    def plain(cls: str) -> str:
        return cls


class Heir(Reversed):
    pass


async def test_tool_may_stand_above_classmethod_and_staticmethod() -> None:
    base: Any = Reversed  # checkers follow this order of decorators only when it is served
    heir: Any = Heir
    assert (base.kind(2), heir.kind(), heir().kind()) == ("ReversedReversed", "Heir", "Heir")
    assert (base.plain("a"), base().plain("b")) == ("a", "b")
    box = Toolbox("box", [Heir.kind, Heir.plain])
    assert list(box.tools["kind"].input_schema["properties"]) == ["times"]
    assert (await box.call("kind")).text == "Heir"
    assert (await box.call("plain", {"cls": "x"})).text == "x"


async def test_a_bound_tool_has_the_signature_of_a_bound_method() -> None:
    counter = Counter(1)
    assert str(inspect.signature(counter.add)) == "(amount: 'int') -> 'int'"
    box = Toolbox("box", [tool(functools.partial(counter.add), name="again")])
    assert list(box.tools["again"].input_schema["properties"]) == ["amount"]
    assert (await box.call("again", {"amount": 2})).text == "3"


async def test_callables_partials_and_bound_methods_become_tools() -> None:
    def scale(number: int, factor: int, unit: str = "m") -> str:
        """Scale it."""
        return f"{number * factor}{unit}"

    box = Toolbox(
        "box",
        [
            tool(functools.partial(scale, factor=3), name="triple"),
            tool(Counter(5), name="step"),
            tool(Counter(1).__call__, name="bound"),
            tool(lambda: 1, name="constant"),
        ],
    )
    assert list(box.tools["triple"].input_schema["properties"]) == ["number", "unit"]
    assert box.tools["triple"].description == "Scale it."
    assert (await box.call("triple", {"number": 2})).text == "6m"
    assert (await box.call("step", {"step": 2})).text == "7"
    assert (await box.call("bound", {"step": 2})).text == "3"
    assert (await box.call("constant")).text == "1"


async def test_types_from_the_enclosing_function_are_found() -> None:
    @dataclass
    class Local:
        n: int

    @tool
    def use(item: Local) -> int:
        return item.n

    assert (await Toolbox("box", [use]).call("use", {"item": {"n": 3}})).text == "3"


async def test_a_type_defined_later_is_found_when_the_box_is_made() -> None:
    namespace: dict[str, Any] = {"tool": tool}
    exec(
        "from __future__ import annotations\n"
        "@tool\ndef use(item: Later) -> int:\n    return item['n']\n"
        "from typing import TypedDict\nclass Later(TypedDict):\n    n: int\n",
        namespace,
    )
    assert (await Toolbox("box", [namespace["use"]]).call("use", {"item": {"n": 3}})).text == "3"


def untyped(folder, limit: int = 20): ...  # type: ignore[no-untyped-def]
def variadic(*names: str) -> None: ...
def keywords(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def field_default(name: str = Field("x")) -> None: ...


def umlaut(länge: int) -> None: ...


LONG = "a_parameter_with_a_name_that_goes_on_and_on_and_on_until_it_is_too_long"


def endless(a_parameter_with_a_name_that_goes_on_and_on_and_on_until_it_is_too_long: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter", "message"),
    [
        (
            untyped,
            "folder",
            "tool 'untyped': parameter 'folder' has no type\n"
            "  FILE:LINE  def untyped(folder, limit: int = 20): ...  # type: ignore[no-untyped-def]\n"
            "  Write its type, for example: folder: Path",
        ),
        (
            variadic,
            "names",
            "tool 'variadic': '*names' has no names a client could fill\n"
            "  FILE:LINE  def variadic(*names: str) -> None: ...\n"
            "  Take a list: names: list[str]",
        ),
        (
            keywords,
            "names",
            "tool 'keywords': '**names' has no names a client could fill\n"
            "  FILE:LINE  def keywords(**names: str) -> None: ...\n"
            "  Take an object: names: dict[str, str]",
        ),
        (
            positional,
            "name",
            "tool 'positional': parameter 'name' is positional-only, and clients pass names\n"
            "  FILE:LINE  def positional(name: str, /) -> None: ...\n"
            "  Remove the '/' from the signature",
        ),
        (
            field_default,
            "name",
            "tool 'field_default': parameter 'name' has Field(...) as its default, so a plain call would get the"
            " Field itself\n"
            '  FILE:LINE  def field_default(name: str = Field("x")) -> None: ...\n'
            "  Move it into the type: name: Annotated[…, Field(...)] = …",
        ),
        (
            umlaut,
            "länge",
            "tool 'umlaut': the model API takes no argument called 'länge', and refuses every request with this tool in"
            " it\n"
            "  FILE:LINE  def umlaut(länge: int) -> None: ...\n"
            '  Use 1 to 64 letters (a to z), digits, "_" or "-"',
        ),
        (
            endless,
            LONG,
            f"tool 'endless': the model API takes no argument called '{LONG}', and refuses every request with this tool"
            " in it\n"
            f"  FILE:LINE  def endless({LONG}: int) -> None: ...\n"
            '  Use 1 to 64 letters (a to z), digits, "_" or "-"',
        ),
    ],
)
def test_a_parameter_no_client_can_fill_is_refused_at_decoration(function: Any, parameter: str, message: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert caught.value.tool == function.__name__
    assert caught.value.parameter == parameter
    assert re.sub(r"tests/tools/test_decorating\.py:\d+", "FILE:LINE", str(caught.value)) == message


class Socket:
    pass


def test_a_type_json_cannot_carry_is_refused_when_the_box_is_made() -> None:
    @tool
    def send(to: Socket) -> None: ...

    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox("box", [send])
    assert caught.value.parameter == "to"
    assert caught.value.what == "tool 'send': parameter 'to' has a type that JSON cannot carry: Socket"


class Empty(Enum):
    pass


def _fail(_: Any) -> None:
    raise RuntimeError("a hook that fails")


wrong: Any = Field  # for what a type checker would find as well
UNUSABLE: list[tuple[Any, str]] = [
    (Annotated[int, wrong(gt=0.5)], "'gt' must be coercible to an integer"),
    (Annotated[int, wrong(multiple_of=0)], "'multiple_of' must be a finite number greater than 0"),
    (Annotated[int, wrong(gt="x")], "'gt' must be coercible to an integer"),
    (Annotated[str, wrong(pattern="(")], "unclosed group"),
    (Annotated[str, wrong(max_length=-1)], "can't convert negative int"),
    (Annotated[list[int], wrong(min_length=0.5)], "cannot be interpreted as an integer"),
    (Annotated[float, wrong(gt=float("nan"))], "JSON cannot carry its schema"),
    (Annotated[int, wrong(json_schema_extra={"x": object()})], "Unable to serialize unknown type"),
    (Annotated[int, wrong(json_schema_extra=_fail)], "RuntimeError: a hook that fails"),
    (Literal[()], "cannot be empty"),
    (Empty, "it has no value to choose"),
    (list[Empty | None], "it has no value to choose"),
]


@pytest.mark.parametrize(("annotation", "why"), UNUSABLE, ids=[row[1] for row in UNUSABLE])
def test_a_type_with_a_mistake_beside_it_is_refused_with_the_place(annotation: Any, why: str) -> None:
    def pick(which: Any) -> Any: ...

    pick.__annotations__ = {"which": annotation, "return": str}
    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox("box", [tool(pick)])
    assert caught.value.parameter == "which"
    assert "parameter 'which' has a type that cannot be used: " in caught.value.what
    assert why in caught.value.what
    assert "\n" not in caught.value.what
    assert "test_decorating.py" in caught.value.where[0]
    assert caught.value.fix

    pick.__annotations__ = {"which": int, "return": annotation}
    with pytest.raises(ToolDefinitionError, match="its return type cannot be used: ") as caught:
        Toolbox("box", [tool(pick, structured=True)])
    assert why in caught.value.what


class Kind(Enum):
    CAT = "cat"


class Name(StrEnum):
    CAT = "cat"


class Mapped(BaseModel):
    kind: Literal[Kind.CAT]

    @field_validator("kind", mode="before")
    @classmethod
    def _of_value(cls, value: Any) -> Any:
        return Kind(value)


@dataclass
class Holding:
    kind: Literal[Kind.CAT]


@pytest.mark.parametrize("annotation", [Literal[Kind.CAT, "dog"], Literal[Kind.CAT] | None, list[Holding]], ids=str)
def test_a_literal_whose_value_would_be_refused_in_every_call_is_refused_at_once(annotation: Any) -> None:
    def pick(which: Any) -> None: ...

    pick.__annotations__ = {"which": annotation}
    with pytest.raises(ToolDefinitionError, match=r"its Literal has Kind\.CAT, which no client can send") as caught:
        Toolbox("box", [tool(pick)])
    assert caught.value.fix == "Write the value in its place, or the whole enumeration: Kind"


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (Literal[Name.CAT], "cat", Name.CAT),
        (Annotated[Literal[Kind.CAT], BeforeValidator(Kind)], "cat", Kind.CAT),
        (Mapped, {"kind": "cat"}, Mapped.model_construct(kind=Kind.CAT)),
    ],
    ids=str,
)
async def test_a_literal_that_takes_its_value_stays(annotation: Any, sent: Any, got: Any) -> None:
    held: list[Any] = []

    def pick(which: Any) -> None:
        held.append(which)

    pick.__annotations__ = {"which": annotation}
    reply = await Toolbox("box", [tool(pick)]).call("pick", {"which": sent})
    assert (reply.is_error, held) == (False, [got])


@pytest.mark.parametrize("annotation", [list[ToolContext], dict[str, ToolContext], tuple[ToolContext, int]])
def test_a_list_of_contexts_takes_no_context(annotation: Any) -> None:
    def look(contexts: Any) -> None: ...

    look.__annotations__ = {"contexts": annotation}
    with pytest.raises(ToolDefinitionError, match="parameter 'contexts' has a type that JSON cannot carry"):
        Toolbox("box", [tool(look)])


def test_a_second_context_is_refused() -> None:
    @tool
    def look(ctx: ToolContext, more: ToolContext | None = None) -> None: ...

    with pytest.raises(ToolDefinitionError, match="'ctx' and 'more' both take the ToolContext of the call"):
        Toolbox("box", [look])


@pytest.mark.parametrize("annotation", [ToolContext, ToolContext | None, Annotated[ToolContext, "of the call"]])
def test_a_context_is_filled_in_however_it_is_written(annotation: Any) -> None:
    def look(ctx: Any) -> None: ...

    look.__annotations__ = {"ctx": annotation}
    made = tool(look)
    assert (made.arguments.context_parameter, made.input_schema["properties"]) == ("ctx", {})


def test_a_tool_that_changes_nothing_can_lose_nothing() -> None:
    with pytest.raises(ToolDefinitionError, match="it cannot be both read-only and destructive"):

        @tool(read_only=True, destructive=True)
        def look() -> None: ...


def test_a_type_that_needs_a_package_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "email_validator", None)
    monkeypatch.setattr("pydantic.networks.email_validator", None, raising=False)

    @tool
    def write_to(address: EmailStr) -> None: ...

    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox("box", [write_to])
    assert "email-validator is not installed" in caught.value.what
    assert caught.value.fix == "Install what it needs, or use another type"


@pytest.mark.parametrize("text", ["int |", "int.bar", "1 / 0"])
def test_an_annotation_in_text_that_cannot_be_read_is_refused(text: str) -> None:
    def pick(which: Any) -> None: ...

    pick.__annotations__ = {"which": text}
    with pytest.raises(ToolDefinitionError, match="its annotations cannot be read: "):
        Toolbox("box", [tool(pick)])


@dataclass
class Unfinished:
    price: Decimal


def test_a_field_whose_type_is_not_defined_is_not_blamed_on_json() -> None:
    @tool
    def buy(what: Unfinished) -> None: ...

    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox("box", [buy])
    assert caught.value.what == (
        "tool 'buy': parameter 'what' has a type whose own annotations use a name that is not defined: Unfinished"
    )
    assert "TYPE_CHECKING" in caught.value.fix


def test_a_name_that_is_not_defined_is_refused_with_its_name() -> None:
    @tool
    def pay(amount: Decimal) -> None: ...

    with pytest.raises(ToolDefinitionError, match="a name that is not defined: Decimal"):
        Toolbox("box", [pay])


def test_a_default_inside_field_is_refused() -> None:
    @tool
    def pay(amount: Annotated[int, Field(default=3)]) -> None: ...

    with pytest.raises(ToolDefinitionError, match="has its default inside Field"):
        Toolbox("box", [pay])


def test_an_alias_of_a_parameter_is_refused_and_not_ignored() -> None:
    @tool
    def pay(amount: Annotated[int, Field(alias="the amount")]) -> None: ...

    with pytest.raises(ToolDefinitionError, match=r"parameter 'amount' has an alias \('the amount'\)") as caught:
        Toolbox("box", [pay])
    assert caught.value.parameter == "amount"


class Address(BaseModel):
    street: str = Field(alias="the street")
    towns: list[dict[str, int]] = []


def test_the_name_of_a_field_that_the_model_api_may_refuse_is_a_warning() -> None:
    @tool
    def post(to: list[Address], ok: int = 1) -> None: ...

    box = Toolbox("box", [post, shout])
    (warning,) = box.warnings()
    assert re.sub(r"\.py:\d+", ".py:N", warning) == (
        "tool 'post': the field 'the street' in to has a name that the model API may not take\n"
        "  tests/tools/test_decorating.py:N  def post(to: list[Address], ok: int = 1) -> None: ...\n"
        '  Give it a name or an alias of 1 to 64 letters (a to z), digits, "_", "." or "-"'
    )


@pytest.mark.parametrize("name", ["", "<lambda>", "two words", "a.b", "x" * 65, "ä", "2nd", "-x"])
def test_a_bad_tool_name_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be a tool's name"):
        tool(shout.function, name=name)


def test_options_are_checked() -> None:
    with pytest.raises(ToolDefinitionError, match="has no option 'readonly'; did you mean 'read_only'"):
        tool(shout.function, readonly=True)  # type: ignore[call-overload]
    with pytest.raises(ToolDefinitionError, match="timeout=0 leaves nothing"):
        tool(shout.function, timeout=0)
    with pytest.raises(ToolDefinitionError, match="needs a function, not int"):
        tool(3)  # type: ignore[call-overload]


def test_a_box_says_in_words_what_it_cannot_take_or_find() -> None:
    box = Toolbox("box", [shout])
    wrong: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: Toolbox("box", [shout], instructions=1), "instructions=1 cannot be used: it must be a text", "box"),  # type: ignore[arg-type]
        (lambda: Toolbox("box", [shout], version=1), "version=1 cannot be used: it must be a text", "box"),  # type: ignore[arg-type]
        (lambda: Toolbox("box", [shout], version=None), "version=None cannot be used", "box"),  # type: ignore[arg-type]
        (lambda: Toolbox.from_module("os"), "takes a module, not 'os'", "os"),  # type: ignore[arg-type]
        (lambda: box.only(1), "has no tool '1'; there are: shout", "1"),  # type: ignore[arg-type]
        (lambda: box.only(["shout"]), "has no tool '['shout']'", "['shout']"),  # type: ignore[arg-type]
        (lambda: box + shout, "shout cannot be added, as it is no toolbox but a Tool", "shout"),  # type: ignore[operator]
    ]
    for make, words, tool_name in wrong:
        with pytest.raises(ToolDefinitionError) as caught:
            make()
        assert words in caught.value.what
        assert caught.value.tool == tool_name


async def test_what_no_client_can_call_is_an_error_reply_and_no_exception() -> None:
    box = Toolbox("box", [shout])
    for name in (None, 1, ["shout"], {"a": 1}):
        reply = await box.call(name, {})  # type: ignore[arg-type]
        assert reply.is_error
        assert "a name is a text" in reply.text
        assert "a name is a text" in (await box.get_prompt(name)).problem  # type: ignore[arg-type]
        assert "an address is a text" in (await box.read(name)).problem  # type: ignore[arg-type]
    reply = await box.call("shout", {1: 2})  # type: ignore[dict-item]
    assert (reply.is_error, reply.text) == (True, "shout was not called: an argument's name is a text, not 1")


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    other = tool(whisper.function, name="shout")
    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox("box", [shout, other])
    assert re.sub(r"\.py:\d+", ".py:N", str(caught.value)) == (
        "two tools are called 'shout'\n"
        "  tests/tools/test_decorating.py:N  def shout(text: str, times: int = 1) -> str\n"
        "  tests/tools/test_decorating.py:N  async def whisper(text: str) -> str\n"
        '  Give one another name: @tool(name="shout_2")'
    )


def test_a_box_refuses_what_is_no_tool_and_what_has_no_object() -> None:
    with pytest.raises(ToolDefinitionError, match="toolbox 'box' has no tools"):
        Toolbox("box", [])
    with pytest.raises(ToolDefinitionError, match="len is not a tool but a builtin_function_or_method"):
        Toolbox("box", [len])
    with pytest.raises(ToolDefinitionError, match="tool 'add' is a method and has no object"):
        Toolbox("box", [Counter.add])
    for name in ("", "a__b", "a b", "x" * 49, "__", "____a", "a__"):
        with pytest.raises(ToolDefinitionError, match="cannot be a toolbox's name"):
            Toolbox(name, [shout])


@pytest.mark.parametrize(("tools", "shown"), [(shout, "shout"), (None, "None"), ("tools.py", "'tools.py'"), (5, "5")])
def test_what_is_no_list_of_tools_is_refused_in_words(tools: Any, shown: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox("box", tools)
    assert caught.value.what == f"toolbox 'box': its tools are no list but {shown}"
    assert caught.value.fix.startswith("Give a list of tools: Toolbox('box', [")


def test_a_box_may_have_two_underscores_in_front() -> None:
    assert Toolbox("__lace-tools", [shout]).allowed_tools == ["mcp____lace-tools__shout"]


async def test_a_tool_outside_the_subset_does_not_exist() -> None:
    box = Toolbox("box", [shout, whisper])
    small = box.only("shout")
    assert [entry["name"] for entry in small.listing()] == ["shout"]
    assert small.allowed_tools == ["mcp__box__shout"]
    reply = await small.call("whisper", {"text": "a"})
    assert reply.is_error
    assert reply.text == "no tool 'whisper'; there are: shout"
    with pytest.raises(ToolDefinitionError, match="has no tool 'shot'; did you mean 'shout'"):
        box.only("shot")


def test_boxes_add_up_and_refuse_a_clash() -> None:
    both = Toolbox("one", [shout]) + Toolbox("two", [whisper])
    assert (both.name, list(both.tools)) == ("one", ["shout", "whisper"])
    with pytest.raises(ToolDefinitionError, match="two tools are called 'shout'"):
        Toolbox("one", [shout]) + Toolbox("two", [shout])


def test_a_module_gives_the_tools_it_makes() -> None:
    module = types.ModuleType("my.notes")
    code = """
import functools
from tests.tools.test_decorating import shout
from toolkit import tool
@tool
def own(text: str) -> str: ...
def scale(n: int, by: int) -> int: ...
double = tool(functools.partial(scale, by=2), name="double")
"""
    exec(code, vars(module))
    box = Toolbox.from_module(module)
    assert box.name == "notes"
    assert list(box.tools) == ["own", "double"]
    vars(module)["__all__"] = ["shout", "own", "scale", "missing"]
    assert list(Toolbox.from_module(module).tools) == ["shout", "own"]


Other = ToolContext


def test_a_context_is_made_for_a_plain_call_whatever_its_type_is_called_here() -> None:
    @tool
    def who(text: str, about: Other) -> str:
        return f"{text} {about.call_id[:5]}"

    plain_call: Any = who
    assert plain_call("a") == "a call_"


async def test_a_context_is_made_for_a_plain_call_and_given_to_a_served_one() -> None:
    @tool
    def who(text: str, ctx: ToolContext) -> str:
        return f"{text} {ctx.call_id} {ctx.workspace} {ctx.deadline} {ctx.session} {ctx.cancelled}"

    own = who("a")  # type: ignore[call-arg]
    assert re.fullmatch(r"a call_[0-9a-f]{32} /.* None None False", own)
    assert who("a", ToolContext(call_id="mine")).startswith("a mine ")
    served = await who.invoke({"text": "b"}, ToolContext(call_id="toolu_1", session="s"))
    assert served.text.startswith("b toolu_1 ")
    assert served.text.endswith(" None s False")
