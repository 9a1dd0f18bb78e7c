"""What can be asked, and one prompt as the model gets it: a text, or texts, pictures and documents as blocks.

Pictures are read when their turn begins. What is told about a prompt (in events, in
run.json, in the report) is its text; a picture or a document is a line of it, and its
bytes are kept once, beside the run.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from toolkit.errors import ToolkitError
from toolkit.runs.kinds import OptionError, wrong
from toolkit.tools import Audio, Image, Text

if TYPE_CHECKING:
    from toolkit.tools import Toolbox

_BLOCKS = ("text", "image", "document")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_INLINE = {"image": ("base64",), "document": ("base64", "text", "content")}
"""The sources of a block that hold it themselves."""
_EXAMPLE = 'Write for example: run(["What is wrong here?", Image("screen.png")], …)'


@runtime_checkable
class Section(Protocol):
    """Anything with a `render()`, such as a WorkspaceSection."""

    def render(self) -> str:
        """The text of the section."""
        ...


_SECTIONS = 'Say what to do: Prompt(["Make the failing test pass.", section])'


@dataclass(frozen=True, slots=True)
class Prompt:
    """Sections that are rendered in order when the run starts: texts, and things that can render themselves.

    Raises:
        RunError: there is nothing in it.
    """

    sections: Sequence[str | Section]
    """A single text or section is taken, too."""
    list_tools: bool = True
    """End with the names of the run's own tools and what each is for."""

    def __post_init__(self) -> None:
        given: Any = self.sections
        sections = (given,) if isinstance(given, str | Section) else given
        if not isinstance(sections, Iterable):
            raise OptionError("prompt", f"Prompt({given!r}): it is made of texts and sections", fix=_SECTIONS)
        object.__setattr__(self, "sections", tuple(sections))
        for section in self.sections:
            if not isinstance(section, str | Section) or isinstance(section, type):
                raise OptionError("prompt", f"{section!r} has no render(), and is no text", fix=_SECTIONS)
        if not any(not isinstance(section, str) or section.strip() for section in self.sections):
            raise OptionError("prompt", "the prompt is empty", fix=_SECTIONS)

    def render(self, boxes: Iterable[Toolbox] = ()) -> str:
        """The exact text the model gets."""
        parts = [section if isinstance(section, str) else section.render() for section in self.sections]
        if self.list_tools:
            parts.append(tool_list(boxes))
        return "\n\n".join(part.strip("\n") for part in parts if part.strip())


Part: TypeAlias = str | Text | Image | Section | Mapping[str, Any]
"""A piece of a prompt: a text, a picture, something with a `render()`, or a block as the Messages API has it."""
PromptLike: TypeAlias = str | Prompt | Sequence[Part] | AsyncIterable[Any]
"""What can be asked: a text, a Prompt, a list of parts, or an async iterator of these, each of which is a turn."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A picture or a document of a prompt."""

    kind: str
    """`image` or `document`."""
    media_type: str
    data: bytes

    def described(self) -> str:
        """The line that stands for it in a text."""
        return f"[{self.kind}: {self.media_type}, {len(self.data):,} bytes]"


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt as it is sent."""

    content: str | tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        """Its text; pictures and documents as a line each."""
        if isinstance(self.content, str):
            return self.content
        return "\n\n".join(_told(block) for block in self.content)

    def with_text(self, *, before: str = "", after: str = "") -> Asked:
        """The same with further text around it."""
        if isinstance(self.content, str):
            return Asked("\n\n".join(part for part in (before, self.content, after) if part))
        around = [[{"type": "text", "text": text}] if text else [] for text in (before, after)]
        return Asked((*around[0], *self.content, *around[1]))

    def attachments(self) -> Iterator[Attachment]:
        """The pictures and documents in it whose bytes are in it."""
        for block in () if isinstance(self.content, str) else self.content:
            found = _attachment(block)
            if found is not None:
                yield found


def check_parts(name: str, value: Any) -> tuple[Any, ...]:
    """The parts of a prompt, none of which is opened yet.

    Raises:
        OptionError: there are none, or one cannot be a part.
    """
    parts = tuple(value)
    if not parts:
        raise OptionError(name, "the prompt is empty", fix=_EXAMPLE)
    for place, part in enumerate(parts):
        _check_part(f"{name}[{place}]", part)
    return parts


def _check_part(name: str, part: Any) -> None:
    if isinstance(part, Audio):
        raise wrong(name, part, "the model API takes no sound", "Give text, pictures and documents")
    if isinstance(part, str):
        if not part.strip():
            raise OptionError(name, f"{name} is an empty text", fix=_EXAMPLE)
    elif isinstance(part, Mapping):
        kind = part.get("type")
        if kind not in _BLOCKS:
            raise OptionError(name, f"{name}: a block of a prompt is one of {', '.join(_BLOCKS)}, not {kind!r}")
        if kind == "text" and not isinstance(part.get("text"), str):
            raise OptionError(name, f"{name}: a text block has a 'text'", fix='Write {"type": "text", "text": "…"}')
        if kind != "text":
            _check_source(name, kind, part.get("source"))
    elif isinstance(part, Image) and not isinstance(part.data, str | Path | bytes):
        what = "a picture is the path of its file, or its bytes"
        raise wrong(name, part, what, 'Write for example: Image("screen.png")')
    elif isinstance(part, type) or not (isinstance(part, Text | Image) or callable(getattr(part, "render", None))):
        raise wrong(name, part, "a part of a prompt is a text, an Image, or a block of the Messages API", _EXAMPLE)


def _check_source(name: str, kind: str, source: Any) -> None:
    if not isinstance(source, Mapping):
        raise OptionError(name, f"{name}: a block of type {kind} has a 'source'", fix=_EXAMPLE)
    if source.get("type") not in _INLINE[kind]:
        what = f"a source of type {source.get('type')!r} would be fetched from elsewhere, and the gate lets none pass"
        raise OptionError(
            name, f"{name}: {what}", fix=f"Give its bytes: {_EXAMPLE.removeprefix('Write for example: ')}"
        )
    if kind == "image" and source.get("media_type") not in _PICTURES:
        what = f"the model API takes no {source.get('media_type')}"
        raise OptionError(name, f"{name}: {what}", fix="Give a PNG, a JPEG, a GIF or a WebP")
    if kind == "image":
        _check_picture(name, source.get("data"))


def _check_picture(name: str, data: Any) -> None:
    """A picture's bytes, in base64; the CLI leaves one out that it cannot read, and tells nobody but the model."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise OptionError(name, f"{name}: the data of a picture is its bytes in base64", fix=_EXAMPLE) from None
    try:
        is_picture = Image(raw).block()["mimeType"] in _PICTURES
    except ToolkitError:
        is_picture = False
    if not is_picture:
        what = "these bytes are no picture" if raw else "there is nothing in this picture"
        raise OptionError(name, f"{name}: {what}", fix="Give a PNG, a JPEG, a GIF or a WebP")


def as_asked(prompt: PromptLike, boxes: Iterable[Toolbox] = ()) -> Asked:
    """A prompt as it is sent; pictures are read now.

    Raises:
        OptionError: a picture that cannot be read, or is of no kind that models take.
    """
    if isinstance(prompt, str):
        return Asked(prompt)
    if isinstance(prompt, Prompt):
        return Asked(prompt.render(boxes))
    parts = cast("Sequence[Part]", prompt)
    return Asked(tuple(_block(f"prompt[{place}]", part) for place, part in enumerate(parts)))


def own_text(prompt: PromptLike) -> str:
    """What was asked for, in the caller's own words; nothing is opened or rendered for it."""
    if isinstance(prompt, str):
        return prompt
    if is_stream(prompt):
        return ""
    parts = prompt.sections if isinstance(prompt, Prompt) else cast("Sequence[Part]", prompt)
    told = [_own(part) for part in parts]
    return "\n\n".join(part for part in told if part)


def _own(part: Part) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Mapping):
        return _told(part)
    if isinstance(part, Image):
        return f"[image: {len(part.data):,} bytes]" if isinstance(part.data, bytes) else f"[image: {part.data}]"
    return ""


def content_of(item: Any) -> Any:
    """What an iterator's item asks: a frame of the SDK's (`{"type": "user", "message": …}`) is opened."""
    if not isinstance(item, Mapping):
        return item
    message = item.get("message")
    if item.get("type") != "user" or not isinstance(message, Mapping):
        return [item]  # a single block
    return message.get("content")


def is_stream(prompt: Any) -> bool:
    """Whether prompts come one after the other."""
    return isinstance(prompt, AsyncIterable)


def _block(name: str, part: Any) -> dict[str, Any]:
    if isinstance(part, Mapping):
        return dict(part)
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Text):
        return part.block()
    if not isinstance(part, Image):
        return {"type": "text", "text": str(part.render())}
    # Reading a FIFO or a device may never end, and nothing could interrupt it.
    if (
        not isinstance(part.data, bytes)
        and (path := Path(part.data)).exists()
        and not (path.is_file() or path.is_dir())
    ):
        raise OptionError(
            name, f"the picture '{path}' is not a file", fix="Write the picture into a file, and name that"
        )
    try:
        block = part.block()
    except OSError as error:
        raise OptionError(name, f"the picture '{part.data!s}' cannot be read: {error.strerror}") from error
    except ToolkitError as error:
        raise OptionError(name, error.what, fix=error.fix) from error
    if block["mimeType"] not in _PICTURES:
        what = f"the model API takes no {block['mimeType']}"
        raise OptionError(name, f"{name}: {what}", fix="Give a PNG, a JPEG, a GIF or a WebP")
    _check_picture(name, block["data"])
    source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
    return {"type": "image", "source": source}


def _attachment(block: Mapping[str, Any]) -> Attachment | None:
    source = block.get("source")
    if block.get("type") == "text" or not isinstance(source, Mapping) or source.get("type") != "base64":
        return None
    try:
        data = base64.b64decode(str(source.get("data", "")), validate=True)
    except binascii.Error:
        return None
    return Attachment(str(block["type"]), str(source.get("media_type")), data)


def _told(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block["text"])
    found = _attachment(block)
    if found is not None:
        return found.described()
    source = block.get("source")
    where = source.get("url") or source.get("type") if isinstance(source, Mapping) else None
    return f"[{block.get('type')}: {where}]"


def tool_list(boxes: Iterable[Toolbox]) -> str:
    """The run's own tools, one line each; nothing where there are none."""
    lines = [
        f"- mcp__{box.name}__{tool.name}: {tool.description.partition(chr(10))[0]}".rstrip(": ")
        for box in boxes
        for tool in box
    ]
    return "\n".join(["Tools of this run:", *lines]) if lines else ""
