"""`Prompt`: what the model is told, put together from sections in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from toolkit.errors import RunError
from toolkit.tools import Toolbox


@runtime_checkable
class Section(Protocol):
    """Anything with a `render()`, such as a WorkspaceSection."""

    def render(self) -> str:
        """The text of the section."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """Sections that are rendered in order when the run starts: texts, and things that can render themselves.

    Raises:
        RunError: there is nothing in it.
    """

    sections: Sequence[str | Section]
    list_tools: bool = True
    """End with the names of the run's own tools and what each is for."""

    def __post_init__(self) -> None:
        if not any(not isinstance(section, str) or section.strip() for section in self.sections):
            raise RunError("the prompt is empty", fix='Say what to do: run("Make the failing test pass.", …)')

    def render(self, boxes: Iterable[Toolbox] = ()) -> str:
        """The exact text the model gets."""
        parts = [section if isinstance(section, str) else section.render() for section in self.sections]
        if self.list_tools:
            parts.append(tool_list(boxes))
        return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def tool_list(boxes: Iterable[Toolbox]) -> str:
    """The run's own tools, one line each; nothing where there are none."""
    lines = [
        f"- mcp__{box.name}__{tool.name}: {tool.description.partition(chr(10))[0]}".rstrip(": ")
        for box in boxes
        for tool in box
    ]
    return "\n".join(["Tools of this run:", *lines]) if lines else ""
