"""What the model said in a turn, message by message: nothing twice, nothing lost.

A message usually streams; one that was asked for again after a broken connection
arrives whole. A message that broke off and was asked for again counts only in its
second form. What subagents say is theirs and is not counted.
"""

from __future__ import annotations

from toolkit.runs.outcome.events import Event


class Texts:
    """The texts of the main conversation in the turn under way."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._messages: dict[str, list[str]] = {}
        self._streamed = ""
        self._broken: str | None = None

    def feed(self, event: Event) -> str:
        """Take an event; the text in it that was not seen before."""
        if event.name == "lifecycle.started":
            self._begin()
        if event.stream != "assistant" or event.parent is not None:
            return ""
        if event.kind == "started":
            self._messages.pop(self._broken or "", None)
            self._broken = None
        elif event.kind == "text":
            return self._delta(event)
        elif event.kind == "block" and event.data["type"] == "text":
            return self._block(event)
        elif event.kind == "ended" and event.data["stop"] is None:
            self._broken = event.id
        return ""

    @property
    def messages(self) -> list[str]:
        """The text of every message that has any, in order."""
        return [text for parts in self._messages.values() if (text := "".join(parts))]

    def _delta(self, event: Event) -> str:
        text = str(event.data["text"])
        self._messages.setdefault(event.id, []).append(text)
        self._streamed = event.id
        return text

    def _block(self, event: Event) -> str:
        """The whole of a block; it is new only if it did not stream."""
        streamed, self._streamed = self._streamed, ""
        if streamed == event.id:
            return ""
        text = str(event.data["text"])
        self._messages.setdefault(event.id, []).append(text)
        return text
