"""What a running tool can know and say about the call it serves.

A parameter annotated `ToolContext` is filled in and hidden from the schema.
Outside a run every field has a sensible value, so that a tool can be called
and tested as the plain function it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from toolkit.errors import ToolError
from toolkit.tools.content import Reply
from toolkit.tools.workspace_path import AgentPaths, CurrentFolder, host_path, in_agents_words

if TYPE_CHECKING:
    from toolkit.tools.asking import Asking, Cancelled, Declined, Root, Sampled

T = TypeVar("T")
D = TypeVar("D")
_NONE: Any = object()

ProgressSink = Callable[[float, float | None, str | None], None]
LogSink = Callable[[str, str, Any], None]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment after which work is no longer wanted."""

    at: float
    """On the clock of `time.monotonic()`."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment this many seconds from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left; zero when it has passed."""
        return max(0.0, self.at - time.monotonic())


@dataclass(slots=True)
class Budget:
    """Tokens a run may use, and those it has used so far."""

    limit: int | None = None
    used: int = 0

    def remaining(self) -> int | None:
        """Tokens left; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.used)


class ToolContext:
    """The call a tool serves: its id, its limits, and a way to report from within."""

    def __init__(
        self,
        *,
        call_id: str | None = None,
        on_progress: ProgressSink | None = None,
        on_log: LogSink | None = None,
        on_changed: Callable[[str], None] | None = None,
        asking: Callable[[], Asking] | None = None,
        deadline: Deadline | None = None,
        budget: Budget | None = None,
        session: str | None = None,
        workspace: Path | None = None,
        env: Mapping[str, str] | None = None,
        paths: AgentPaths | None = None,
    ) -> None:
        self._call_id = call_id
        self._on_progress = on_progress
        self._on_log = on_log
        self._on_changed = on_changed
        self._find_asking = asking
        self._asking: Asking | None = None
        self._workspace = workspace
        self._env = env
        self._paths = paths
        self._post: Callable[[Callable[[], None]], object] | None = None
        self._home_thread = threading.get_ident()
        self.cancelled = False
        """True once nobody waits for the result any more: cancelled by the client, or past its timeout."""
        self.deadline = deadline
        """When the run ends; None outside a run."""
        self.budget = budget or Budget()
        """The run's tokens; without a limit outside a run."""
        self.session = session
        """The session this call belongs to; None outside a run."""

    @property
    def call_id(self) -> str:
        """The client's own id of this call, the one its events carry; a fresh one outside a run."""
        if self._call_id is None:
            self._call_id = f"call_{os.urandom(16).hex()}"
        return self._call_id

    @property
    def workspace(self) -> Path:
        """The host folder behind the agent's working directory; the current directory outside a run."""
        return self._workspace or Path.cwd()

    def host_path(self, path: str | os.PathLike[str]) -> Path:
        """The file on the host that the agent means by a path of its own, absolute or relative.

        Outside a run paths are relative to the current directory, and stay in it.

        Raises:
            ToolError: the path, or a link on its way, leaves the workspace.
        """
        return host_path(self._paths or CurrentFolder(self.workspace), os.fspath(path))

    def agent_path(self, path: str | os.PathLike[str]) -> str:
        """What the agent calls a file of the host in its workspace, to be told in a result.

        Raises:
            ToolError: the agent cannot see it.
        """
        found = (self._paths or CurrentFolder(self.workspace)).to_agent(Path(path))
        if found is None:
            raise ToolError(f"'{path}' is not in the workspace")
        return found

    def check_change(self, path: str | os.PathLike[str]) -> None:
        """Before a host path that is no `WorkspacePath` is changed, moved or removed: may this call do that?

        A link at its end is not followed. Outside a run everything may be changed.

        Raises:
            ToolError: the run protects it, or something in it.
        """
        if self._paths is not None:
            self._paths.check_change(Path(path))

    def retold(self, reply: Reply) -> Reply:
        """A reply as the agent can use it: host paths in its workspace by the names it has for them."""
        if not self._names:
            return reply
        structured = in_agents_words(reply.structured, self._names)
        return replace(reply, content=in_agents_words(reply.content, self._names), structured=structured)

    @property
    def _names(self) -> Sequence[tuple[str, str]]:
        return () if self._paths is None else self._paths.names()

    @property
    def env(self) -> Mapping[str, str]:
        """The environment meant for the tool: the process's own, with what the run's `env=` says over it."""
        return os.environ if self._env is None else {**os.environ, **self._env}

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is. Works from a thread too; ignored by clients that did not ask."""
        if self._on_progress is not None:
            self._emit(partial(self._on_progress, done, total, in_agents_words(message, self._names)))

    def log(self, message: str, level: str = "info", data: Any = None) -> None:
        """Send a log message to the client, beside the result."""
        if self._on_log is not None:
            self._emit(partial(self._on_log, level, in_agents_words(message, self._names), data))

    def changed(self, what: str) -> None:
        """Tell clients that the resource at a URI changed, or a whole list: "tools", "prompts" or "resources".

        Those who subscribed to the URI, or listen, hear of it. Works from a thread too.

        Raises:
            ToolError: it is neither a URI nor one of the lists.
        """
        if what not in ("tools", "prompts", "resources") and ":" not in what:
            raise ToolError(f'{what!r} is no URI; a list is "tools", "prompts" or "resources"')
        if self._on_changed is not None:
            self._emit(partial(self._on_changed, what))

    @overload
    async def ask(self, question: str, answer: type[T], *, key: str | None = None) -> T | Declined | Cancelled: ...
    @overload
    async def ask(
        self, question: str, answer: type[T], *, default: D, key: str | None = None
    ) -> T | D | Declined | Cancelled: ...
    @overload
    async def ask(self, question: str, answer: Any = str, *, key: str | None = None, default: Any = _NONE) -> Any: ...
    @overload
    async def ask(self, question: str, *, url: str, key: str | None = None, default: Any = _NONE) -> Any: ...
    async def ask(
        self,
        question: str,
        answer: Any = str,
        *,
        url: str | None = None,
        key: str | None = None,
        default: Any = _NONE,
    ) -> Any:
        """Ask the person behind the client, and give the typed answer, `Declined()` or `Cancelled()`.

        `answer` is str, int, float, bool, a Literal, an enum, or a dataclass with such fields. With `url` they are
        asked to open a page instead, and True means they agreed. `default` is given where nobody can be asked.

        In the 2026-07-28 era the function runs again from its beginning once the answer is there: ask first, then act.

        Raises:
            CannotAsk: the client cannot be asked, and there is no default. It is a ToolError.
        """
        from toolkit.tools.asking import put_question

        given = {} if default is _NONE else {"default": default}
        return await put_question(self._whom_to_ask(), question, answer, url=url, key=key, **given)

    async def sample(
        self,
        prompt: Any,
        *,
        max_tokens: int = 1000,
        system: str | None = None,
        temperature: float | None = None,
        stop: Sequence[str] = (),
        key: str | None = None,
    ) -> Sampled:
        """Let the client's own model write a text; `prompt` is a text or messages, as a prompt gives them.

        Raises:
            CannotAsk: the client has no model for this. It is a ToolError.
        """
        from toolkit.tools.asking import SampleRequest
        from toolkit.tools.offers import as_messages

        request = SampleRequest(as_messages(prompt), max_tokens, system, temperature, tuple(stop), key)
        return await self._whom_to_ask().sample(request)

    async def roots(self) -> list[Root]:
        """The folders the client works on.

        Raises:
            CannotAsk: the client does not name any. It is a ToolError.
        """
        return await self._whom_to_ask().roots()

    def _whom_to_ask(self) -> Asking:
        if self._asking is None:
            from toolkit.tools.asking import Nobody

            self._asking = Nobody() if self._find_asking is None else self._find_asking()
        return self._asking

    def attach(self, post: Callable[[Callable[[], None]], object]) -> None:
        """Let reports from other threads reach this thread, in order, through `post`."""
        self._post = post
        self._home_thread = threading.get_ident()

    def cancel(self) -> None:
        """Tell the tool that nobody waits any more; later reports go nowhere."""
        self.cancelled = True

    def _emit(self, report: Callable[[], None]) -> None:
        if self.cancelled:
            return
        if self._post is None or threading.get_ident() == self._home_thread:
            report()
        else:
            self._post(report)
