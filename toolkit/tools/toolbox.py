"""`Toolbox`: tools under one name, as one server offers them. What is not in the box does not exist for a client."""

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
from toolkit.tools.tool import Tool, as_tool

if TYPE_CHECKING:
    from claude_agent_sdk import McpSdkServerConfig
    from mcp.server import Server

_BOX_NAME = re.compile(r"(?!_*$)[A-Za-z0-9_-]{1,48}")


class Toolbox:
    """Some tools under one name: serve them in-process, over stdio or over HTTP.

    Raises:
        ToolDefinitionError: a bad name, no tools, two tools of one name, something
            that is no tool, or a parameter type that JSON cannot carry.
    """

    def __init__(
        self, name: str, tools: Iterable[object], *, version: str = "1.0.0", instructions: str | None = None
    ) -> None:
        self.name = _checked_name(name)
        self.version = version
        self.instructions = instructions
        self.tools: Mapping[str, Tool[..., Any]] = MappingProxyType(_by_name(name, tools))
        """The tools by the name a client calls."""
        # Now and not at the first call: some mistakes show in the finished schema only.
        self._listing = [tool.listing() for tool in self.tools.values()]

    @classmethod
    def from_module(cls, module: ModuleType, name: str | None = None) -> Toolbox:
        """All tools a module makes (or lists in `__all__`), under the module's name."""
        listed = getattr(module, "__all__", None)
        values = vars(module).values() if listed is None else [vars(module).get(entry) for entry in listed]
        found = dict.fromkeys(tool for tool in map(as_tool, values) if tool is not None)
        own = [tool for tool in found if listed is not None or tool.module == module.__name__]
        title = name or re.sub(r"[^A-Za-z0-9_-]", "_", module.__name__.rpartition(".")[2])
        return cls(title, [tool for tool in own if not tool.is_unbound_method])

    @property
    def allowed_tools(self) -> list[str]:
        """The names as Claude Code knows them, for `ClaudeAgentOptions(allowed_tools=…)`."""
        return [f"mcp__{self.name}__{tool}" for tool in self.tools]

    def only(self, *names: str) -> Toolbox:
        """A box with just these tools; the others do not exist for its clients."""
        for name in names:
            if name not in self.tools:
                raise ToolDefinitionError(
                    f"toolbox '{self.name}' has no tool '{name}'{did_you_mean(name, self.tools)}", tool=name
                )
        return self._with([self.tools[name] for name in names])

    def __add__(self, other: Toolbox) -> Toolbox:
        return self._with([*self.tools.values(), *other.tools.values()])

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __repr__(self) -> str:
        return f"<Toolbox {self.name}: {', '.join(self.tools)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(Toolbox, version=self.version, instructions=self.instructions)
        return make, (self.name, list(self.tools.values()))

    def listing(self) -> list[dict[str, Any]]:
        """The `tools/list` entries, JSON-ready; made once."""
        return self._listing

    def warnings(self) -> list[str]:
        """What clients or the model API may not take of these tools, with the place and the fix."""
        return [warning for tool in self for warning in tool.warnings()]

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None
    ) -> Reply:
        """Call a tool as a client does; an unknown name is an error reply too."""
        tool = self.tools.get(name)
        if tool is None:
            return Reply.error(f"no tool '{name}'{did_you_mean(name, self.tools)}")
        return await tool.invoke(arguments, context)

    def server(self) -> Server[Any]:
        """A `mcp.server.Server` with these tools."""
        from toolkit_servers.build import build_server

        return build_server(self)

    def in_process(self) -> McpSdkServerConfig:
        """The server config for `ClaudeAgentOptions(mcp_servers={box.name: box.in_process()})`."""
        from toolkit_servers.in_process import in_process_config

        return in_process_config(self)

    def _with(self, tools: list[Tool[..., Any]]) -> Toolbox:
        return Toolbox(self.name, tools, version=self.version, instructions=self.instructions)


def _checked_name(name: str) -> str:
    # Two underscores end the name in mcp__NAME__TOOL, but at its beginning nothing else can be meant.
    if isinstance(name, str) and _BOX_NAME.fullmatch(name) and "__" not in name.removeprefix("__"):
        return name
    raise ToolDefinitionError(
        f"'{name}' cannot be a toolbox's name",
        tool=str(name),
        fix='Use 1 to 48 letters, digits, "-" or single "_" ("__" only in front): clients write mcp__NAME__TOOL',
    )


def _by_name(box: str, values: Iterable[object]) -> dict[str, Tool[..., Any]]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        name = getattr(values, "__name__", None)
        raise ToolDefinitionError(
            f"toolbox '{box}': its tools are no list but {name or repr(values)}",
            tool=str(name or values),
            fix=f"Give a list of tools: Toolbox({box!r}, [{name or 'my_tool'}])",
        )
    tools: dict[str, Tool[..., Any]] = {}
    for value in values:
        tool = as_tool(value)
        if tool is None:
            name = getattr(value, "__name__", None) or repr(value)
            raise ToolDefinitionError(
                f"toolbox '{box}': {name} is not a tool but a {type(value).__name__}",
                tool=name,
                fix="Put @tool above the function" if callable(value) else "List functions decorated with @tool",
            )
        if tool.is_unbound_method:
            raise ToolDefinitionError(
                f"tool '{tool.name}' is a method and has no object to work on",
                tool=tool.name,
                where=[tool.source_line],
                fix=f"Take it from an instance: Toolbox({box!r}, [thing.{tool.name}])",
            )
        if tool.name in tools:
            raise ToolDefinitionError(
                f"two tools are called '{tool.name}'",
                tool=tool.name,
                where=[tools[tool.name].source_line, tool.source_line],
                fix=f'Give one another name: @tool(name="{tool.name}_2")',
            )
        tools[tool.name] = tool
    if not tools:
        raise ToolDefinitionError(
            f"toolbox '{box}' has no tools",
            tool=box,
            fix=f"Put @tool above a function and list it: Toolbox({box!r}, [function])",
        )
    return tools
