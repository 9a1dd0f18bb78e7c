"""`Toolbox`: tools, resources and prompts under one name, as one server offers them.

What is not in the box does not exist for a client.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean
from toolkit.errors import ToolDefinitionError
from toolkit.tools.content import Reply
from toolkit.tools.context import ToolContext
from toolkit.tools.declared import misfit
from toolkit.tools.plain_json import excerpt
from toolkit.tools.served import Served, as_served
from toolkit.tools.typed_tool import Tool

if TYPE_CHECKING:
    from claude_agent_sdk import McpSdkServerConfig
    from mcp.server import Server

    from toolkit.tools.offers import Contents, Messages, ServedPrompt, ServedResource

_BOX_NAME = re.compile(r"(?!_*$)[A-Za-z0-9_-]{1,48}")


class Toolbox:
    """Tools, resources and prompts under one name: serve them in-process, over stdio or over HTTP.

    Raises:
        ToolDefinitionError: a bad name or option, an empty box, two of one name, overlapping addresses,
            something that is none of these, or a parameter type that JSON cannot carry.
    """

    def __init__(
        self, name: str, tools: Iterable[object], *, version: str = "1.0.0", instructions: str | None = None
    ) -> None:
        self.name = _checked_name(name)
        _refuse_misfit(name, version=version, instructions=instructions)
        self.version = version
        self.instructions = instructions
        self._served = _checked(name, tools)
        self.tools: Mapping[str, Tool[..., Any]] = MappingProxyType(
            {each.name: each for each in self._served if isinstance(each, Tool)}
        )
        """The tools by the name a client calls."""
        others: list[Any] = [each for each in self._served if not isinstance(each, Tool)]
        self.resources: Mapping[str, ServedResource[..., Any]] = MappingProxyType(
            {each.uri: each for each in others if each.kind == "resource"}
        )
        """The resources by their address, templates included."""
        self.prompts: Mapping[str, ServedPrompt[..., Any]] = MappingProxyType(
            {each.name: each for each in others if each.kind == "prompt"}
        )
        """The prompts by name."""
        # Now and not at the first call: some mistakes show in the finished schema only.
        for tool in self.tools.values():
            tool.make_sure()
        self._listing: list[dict[str, Any]] | None = None
        self._more = {each: each.listing() for each in others}

    @classmethod
    def from_module(cls, module: ModuleType, name: str | None = None) -> Toolbox:
        """All tools, resources and prompts a module makes (or lists in `__all__`), under the module's name."""
        if not isinstance(module, ModuleType):
            raise ToolDefinitionError(
                f"Toolbox.from_module takes a module, not {module!r}",
                tool=str(module),
                fix="Import it and give the module itself: import my_tools, then Toolbox.from_module(my_tools)",
            )
        listed = getattr(module, "__all__", None)
        values = vars(module).values() if listed is None else [vars(module).get(entry) for entry in listed]
        found = dict.fromkeys(served for served in map(as_served, values) if served is not None)
        own = [served for served in found if listed is not None or served.module == module.__name__]
        title = name or re.sub(r"[^A-Za-z0-9_-]", "_", module.__name__.rpartition(".")[2])
        return cls(title, [served for served in own if not served.is_unbound_method])

    @property
    def allowed_tools(self) -> list[str]:
        """The names as Claude Code knows them, for `ClaudeAgentOptions(allowed_tools=…)`."""
        return [f"mcp__{self.name}__{tool}" for tool in self.tools]

    def only(self, *names: str) -> Toolbox:
        """A box with just these; the others do not exist for its clients. A resource is known by its address too."""
        for name in names:
            if not any(_is_called(each, name) for each in self._served):
                known = dict.fromkeys(each.name for each in self._served)
                what = "tool" if len(self.tools) == len(self._served) else "tool, resource or prompt"
                raise ToolDefinitionError(
                    f"toolbox '{self.name}' has no {what} '{name}'{did_you_mean(str(name), known)}",
                    tool=str(name),
                )
        return self._with([each for name in names for each in self._served if _is_called(each, name)])

    def __add__(self, other: Toolbox) -> Toolbox:
        if not isinstance(other, Toolbox):
            added = getattr(other, "name", None) or repr(other)
            raise ToolDefinitionError(
                f"toolbox '{self.name}': {added} cannot be added, as it is no toolbox but a {type(other).__name__}",
                tool=str(added),
                fix=f"Put tools into one first: box + Toolbox({self.name!r}, [my_tool])",
            )
        return self._with([*self._served, *other._served])

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __bool__(self) -> bool:
        return True  # a box is never empty, though it may have no tools

    def __repr__(self) -> str:
        return f"<Toolbox {self.name}: {', '.join(each.name for each in self._served)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(Toolbox, version=self.version, instructions=self.instructions)
        return make, (self.name, list(self._served))

    def listing(self) -> list[dict[str, Any]]:
        """The `tools/list` entries, JSON-ready; made once, when they are first asked for."""
        if self._listing is None:
            self._listing = [tool.listing() for tool in self.tools.values()]
        return self._listing

    def resource_listing(self, *, templates: bool = False) -> list[dict[str, Any]]:
        """The `resources/list` entries, or those of `resources/templates/list`, JSON-ready."""
        return [self._more[each] for each in self.resources.values() if each.is_template is templates]

    def prompt_listing(self) -> list[dict[str, Any]]:
        """The `prompts/list` entries, JSON-ready."""
        return [self._more[each] for each in self.prompts.values()]

    @property
    def has_completions(self) -> bool:
        """Whether a client can have an argument of a resource or a prompt completed."""
        return any(each.has_completions for each in (*self.resources.values(), *self.prompts.values()))

    def warnings(self) -> list[str]:
        """What clients or the model API may not take of these tools, with the place and the fix."""
        return [warning for tool in self for warning in tool.warnings()]

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None
    ) -> Reply:
        """Call a tool as a client does; an unknown name is an error reply too."""
        if not isinstance(name, str):
            return Reply.error(f"no tool {excerpt(name)}: a name is a text")
        tool = self.tools.get(name)
        if tool is None:
            return Reply.error(f"no tool '{name}'{did_you_mean(name, self.tools)}")
        return await tool.invoke(arguments, context)

    async def read(self, uri: str, context: ToolContext | None = None) -> Contents:
        """Read a resource as a client does; an address where nothing is gives a problem in words."""
        from toolkit.tools.offers import Contents
        from toolkit_servers.offers import read_resource

        if not isinstance(uri, str):
            return Contents(problem=f"there is no resource {excerpt(uri)}: an address is a text", is_missing=True)
        return await read_resource(self, uri, context)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None
    ) -> Messages:
        """Get the messages of a prompt as a client does; an unknown name gives a problem in words."""
        from toolkit.tools.offers import Messages

        if not isinstance(name, str):
            return Messages(problem=f"no prompt {excerpt(name)}: a name is a text")
        found = self.prompts.get(name)
        if found is None:
            return Messages(problem=f"no prompt '{name}'{did_you_mean(name, self.prompts)}")
        return await found.get(arguments, context)

    def server(self) -> Server[Any]:
        """A `mcp.server.Server` with these tools."""
        from toolkit_servers.build import build_server

        return build_server(self)

    def in_process(self) -> McpSdkServerConfig:
        """The server config for `ClaudeAgentOptions(mcp_servers={box.name: box.in_process()})`."""
        from toolkit_servers.in_process import in_process_config

        return in_process_config(self)

    def _with(self, served: list[Served[..., Any]]) -> Toolbox:
        return Toolbox(self.name, served, version=self.version, instructions=self.instructions)


def _checked_name(name: str) -> str:
    # Two underscores end the name in mcp__NAME__TOOL, but at its beginning nothing else can be meant.
    if isinstance(name, str) and _BOX_NAME.fullmatch(name) and "__" not in name.removeprefix("__"):
        return name
    raise ToolDefinitionError(
        f"'{name}' cannot be a toolbox's name",
        tool=str(name),
        fix='Use 1 to 48 letters, digits, "-" or single "_" ("__" only in front): clients write mcp__NAME__TOOL',
    )


def _refuse_misfit(box: str, **options: object) -> None:
    """Raise where an option of a box is not of the type it is declared with."""
    if wrong := misfit(options, Toolbox.__init__):
        raise ToolDefinitionError(
            f"toolbox '{box}': {wrong.what}", tool=box, fix=f"Write it as: Toolbox({box!r}, […], {wrong.example})"
        )


def _is_called(served: Served[..., Any], name: str) -> bool:
    return name in (served.name, getattr(served, "uri", None))


def _checked(box: str, values: Iterable[object]) -> tuple[Served[..., Any], ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        name = getattr(values, "__name__", None)
        raise ToolDefinitionError(
            f"toolbox '{box}': its tools are no list but {name or repr(values)}",
            tool=str(name or values),
            fix=f"Give a list of tools: Toolbox({box!r}, [{name or 'my_tool'}])",
        )
    found: dict[tuple[str, str], Served[..., Any]] = {}
    for value in values:
        served = as_served(value)
        if served is None:
            name = getattr(value, "__name__", None) or repr(value)
            raise ToolDefinitionError(
                f"toolbox '{box}': {name} is not a tool but a {type(value).__name__}",
                tool=name,
                fix="Put @tool above the function" if callable(value) else "List functions decorated with @tool",
            )
        if served.is_unbound_method:
            raise ToolDefinitionError(
                f"{served.kind} '{served.name}' is a method and has no object to work on",
                tool=served.name,
                where=[served.source_line],
                fix=f"Take it from an instance: Toolbox({box!r}, [thing.{served.name}])",
            )
        before = found.get((served.kind, served.name))
        if before is not None:
            raise ToolDefinitionError(
                f"two {served.kind}s are called '{served.name}'",
                tool=served.name,
                where=[before.source_line, served.source_line],
                fix=f'Give one another name: @{served.kind}({_before_name(served)}name="{served.name}_2")',
            )
        found[served.kind, served.name] = served
    if not found:
        raise ToolDefinitionError(
            f"toolbox '{box}' has no tools",
            tool=box,
            fix=f"Put @tool above a function and list it: Toolbox({box!r}, [function])",
        )
    if any(kind == "resource" for kind, _ in found):
        _refuse_overlap([each for (kind, _), each in found.items() if kind == "resource"])
    return tuple(found.values())


def _before_name(served: Served[..., Any]) -> str:
    return f'"{uri}", ' if (uri := getattr(served, "uri", None)) else ""


def _refuse_overlap(resources: list[Any]) -> None:
    """Raise where some URI would be meant by two resources; one without parameters goes before a template."""
    from toolkit.tools.offers import overlap

    fixed: dict[str, Any] = {}
    templates: list[Any] = []
    for each in resources:
        if each.is_template:
            other = next((other for other in templates if overlap(other.template, each.template)), None)
            templates.append(each)
        else:
            other = fixed.setdefault(each.uri, each)
        if other is not None and other is not each:
            same = other.uri == each.uri
            raise ToolDefinitionError(
                f"two resources are at {each.uri}" if same else f"some URIs fit both {other.uri} and {each.uri}",
                tool=each.name,
                where=[other.source_line, each.source_line],
                fix=f'Give one an address of its own: @resource("{each.uri.partition(":")[0]}://{each.name}/…")',
            )
