"""The prompts of a run: the first with what belongs before and after it, then those of an iterator, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError
from toolkit.runs.fields import RULES
from toolkit.runs.kinds import OptionError, shown, wrong
from toolkit.runs.listeners import answer_of
from toolkit.runs.prompts import Asked, Prompt, as_asked, content_of, is_stream
from toolkit.runs.sessions.heads import begins_anew
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place

if TYPE_CHECKING:
    from toolkit.tools import Toolbox


class Prompts:
    """What a run is asked, turn by turn."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._coming: AsyncIterator[Any] | None = aiter(spec.prompt) if isinstance(spec.prompt, AsyncIterable) else None
        self.boxes: Sequence[Toolbox] = ()
        """The toolboxes that a prompt may speak of."""

    @property
    def are_coming(self) -> bool:
        """Whether they come from an iterator; then nobody sends another."""
        return self._coming is not None

    async def first(self, place: Place, told: Callable[[str], None]) -> Asked:
        """The first turn's prompt, exactly: added context, what was asked, and what the workspace says of itself.

        `told` gets the text of one that was not known before.
        """
        if self._coming is None:
            given, asked = self._spec.prompt, as_asked(self._spec.prompt, self.boxes)
        else:
            following = await self.next()
            if following is None:
                raise OptionError("prompt", "the prompt is empty: its iterator gave nothing")
            given, asked = following.content, following
            told(asked.text)
        # A conversation that goes on knows the workspace, but not what changed in it.
        says = place.news
        if place.section is not None and not (place.goes_on and not await begins_anew(self._spec)):
            says = place.section.render() + (f"\n{place.news}" if place.news else "")
        says = "" if isinstance(given, Prompt) else says
        return asked.with_text(before=await self._added(), after=says)

    async def _added(self) -> str:
        """What the caller's `before_run` puts before the prompt."""
        before = self._spec.before_run
        if before is None:
            return ""
        try:
            added = await answer_of(before, self._spec)
        except ToolkitError:
            raise
        except Exception as error:
            raise RuntimeError(f"before_run failed: {type(error).__name__}: {error}") from error
        if added is not None and not isinstance(added, str):
            what = "it gives a text, which is put before the prompt, or None"
            raise OptionError("before_run", f"before_run gave {shown(added)}: {what}")
        return added or ""

    async def next(self) -> Asked | None:
        """The next prompt of the iterator; None when there is none any more."""
        assert self._coming is not None
        try:
            item = await anext(self._coming)
        except StopAsyncIteration:
            return None
        except ToolkitError:
            raise
        except Exception as error:
            raise RuntimeError(f"the iterator of prompts failed: {type(error).__name__}: {error}") from error
        return self.checked(content_of(item))

    def checked(self, prompt: Any) -> Asked:
        """A prompt of a later turn.

        Raises:
            OptionError: it cannot be one.
        """
        if is_stream(prompt):
            raise wrong("prompt", prompt, "an iterator begins a run", "Start another: run(prompts, …)")
        return as_asked(RULES["prompt"]("prompt", prompt), self.boxes)
