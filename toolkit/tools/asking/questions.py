"""What a tool asks, whoever answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolkit.errors import ToolkitError
from toolkit.tools.asking.answers import Cancelled, CannotAsk, Declined, Root, Sampled
from toolkit.tools.asking.forms import Form, read_form

NO_DEFAULT: Any = object()
"""Said where a question has no default."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person: a form to fill in, or a page to open."""

    text: str
    form: Form | None = None
    url: str | None = None
    key: str | None = None
    """What the asker calls it; a name made of its content if not given."""

    @property
    def digest(self) -> str:
        """A short name for this very question, the same whenever it is asked again."""
        content = [self.text, self.url, None if self.form is None else self.form.schema]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What the client's model is asked to write."""

    messages: list[dict[str, Any]]
    max_tokens: int
    system: str | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    key: str | None = None

    def params(self) -> dict[str, Any]:
        """The request's parameters as MCP writes them."""
        found = {
            "messages": self.messages,
            "maxTokens": self.max_tokens,
            "systemPrompt": self.system,
            "temperature": self.temperature,
            "stopSequences": list(self.stop) or None,
        }
        return {key: value for key, value in found.items() if value is not None}


class Asking(Protocol):
    """Somebody who answers for one call."""

    async def ask(self, question: Question) -> Mapping[str, Any] | Declined | Cancelled:
        """What was filled in; an empty mapping where a page was agreed to. Raises CannotAsk."""

    async def sample(self, request: SampleRequest) -> Sampled:
        """What the client's model wrote. Raises CannotAsk."""

    async def roots(self) -> list[Root]:
        """The folders the client works on. Raises CannotAsk."""


class Nobody:
    """A call outside of any client: nobody answers."""

    async def ask(self, question: Question) -> Mapping[str, Any] | Declined | Cancelled:
        """See `Asking`."""
        raise CannotAsk(f"nobody is there to be asked: {question.text}")

    async def sample(self, request: SampleRequest) -> Sampled:
        """See `Asking`."""
        raise CannotAsk("there is no client whose model could be asked")

    async def roots(self) -> list[Root]:
        """See `Asking`."""
        raise CannotAsk("there is no client that could name its folders")


async def put_question(
    asking: Asking, text: str, answer: Any, *, url: str | None, key: str | None, default: Any = NO_DEFAULT
) -> Any:
    """Ask a person, and give the typed answer, Declined, Cancelled, or the default where nobody can be asked.

    Raises:
        CannotAsk: nobody can be asked, and there is no default.
        ToolError: what was answered does not fit.
        ToolkitError: the question cannot be asked of anybody.
    """
    if not isinstance(text, str) or not text.strip():
        raise ToolkitError("a question without words", fix='Say what is asked: await ctx.ask("Which branch?")')
    if url is not None and not url.startswith(("https://", "http://")):
        raise ToolkitError(f"{url!r} is no page that somebody could open", fix='Give an address: url="https://…"')
    form = None if url is not None else read_form(answer)
    try:
        given = await asking.ask(Question(text, form, url, key))
    except CannotAsk:
        if default is NO_DEFAULT:
            raise
        return default
    if isinstance(given, Declined | Cancelled):
        return given
    return True if form is None else form.value(given)
