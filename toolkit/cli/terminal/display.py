"""What a person sees of a run: what a call would do, a line for each call as it ends, then the summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import cost_text, count_text, duration_text, safe_line, safe_name, safe_text, size_text

if TYPE_CHECKING:
    from toolkit.runs import Event, RunResult, StoredRun
    from toolkit.workspace import Changes

_CLEAR = "\r\x1b[K"
_MOST_REFUSALS = 10
_MOST_ASKED = 20
_LAST_WORDS = 3
"""Lines of a server's stderr."""
GIT_HISTORY = "git history"
"""What a stored run calls the host's objects, which are shown for git."""


class Display:
    """Prints to stderr, or as told; on a terminal the tools under way have a line of their own that is replaced."""

    def __init__(
        self,
        *,
        terminal: bool,
        asks_here: bool = False,
        say: Callable[[str], None] = lambda text: click.echo(text, err=True, nl=False),
        clock: Callable[[], float] = time.time,
    ) -> None:
        import shutil

        self._terminal = terminal
        self._asks_here = asks_here
        self._say = say
        self._clock = clock
        self._width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        self._tokens = 0
        self._began: float | None = None
        self._open: dict[str, tuple[str, float]] = {}
        """The tools under way: what each was asked, and since when."""
        self._refused: set[tuple[str, str]] = set()
        """What the gate refused and has a line already: its count is in the summary."""
        self._held: list[str] | None = None
        self._is_drawn = False

    def show(self, event: Event) -> None:
        """One event, as far as it is worth a line."""
        data = event.data
        if event.name == "lifecycle.started":
            self._began = event.t
            self._line(f"{event.run}  {data.get('model')}  in {data.get('cwd')}")
        elif event.stream == "setup":
            self._setup(event)
        elif event.name == "usage.call":
            self._tokens += sum(data[name] for name in ("input", "output", "cache_read", "cache_write"))
        elif event.name == "tool.started":
            self._open[event.id] = (_call(data), event.t)
            self.tick()
        elif event.name == "tool.ended":
            asked, _ = self._open.pop(event.id, (data["name"], 0.0))
            self._tool(asked, event)
        elif event.name == "approval.asked" and not self._asks_here:
            self._question(event)
        elif event.name == "server.failed":
            self._line(f"goes on without the server '{event.id}', which did not start: {data['error']}")
            from toolkit.runs.outcome import safe_lines

            for line in safe_lines(str(data.get("stderr") or ""))[-_LAST_WORDS:]:
                self._line(f"  {line}")
        elif event.name == "server.changed":
            self._line(
                f"the server '{event.id}' has new or changed tools, which need approval: {', '.join(data['tools'])}"
            )
        elif event.name == "lifecycle.warning":
            self._line(f"warning: {data['what']}")
        elif event.name == "gate.refused" and (data["what"], data["rule"]) not in self._refused:
            self._refused.add((data["what"], data["rule"]))
            self._line(f"refused by the gate: {data['what']}: {data['why']}", red=True)
        elif event.name == "lifecycle.retry":
            self._line(retry_line(data))
        elif event.stream == "verify":
            self._verify(event)

    def _question(self, event: Event) -> None:
        """What is asked, and the commands that answer it."""
        from toolkit.cli.terminal.questions import question_lines

        for line in question_lines({"id": event.id, **event.data}, _MOST_ASKED):
            self._line(line)
        more = ""
        if "ALLOW_SESSION" in event.data["suggestions"]:
            more = "  # or: session, project, always"
            self._line(f"    session, project and always remember {event.data['remembers']}")
        self._line(f"  yes: toolkit approvals answer {event.run} {event.id} allow{more}")
        self._line(f"  no:  toolkit approvals answer {event.run} {event.id} deny")

    def _setup(self, event: Event) -> None:
        data = event.data
        if event.kind == "started":
            reaches = f", which reaches {', '.join(data['domains'])}" if data["domains"] else ", without network"
            self._line(f"setup      {data['command']}{reaches} (layer {data['key'][:12]})")
        elif event.kind == "output":
            for line in data["text"].splitlines():
                self._line(f"         | {line}")
        elif data["ok"]:
            self._line(setup_line(data))

    def show_lent(self, facts: Mapping[str, Any]) -> None:
        """What of the host the run was lent."""
        for line in (*backend_lines(facts), *lent_lines(facts)):
            self._line(line)

    def tick(self) -> None:
        """Draw the line of the tools under way anew, with the time that has passed."""
        if not self._terminal or self._held is not None or not self._open:
            return
        asked, since = next(reversed(self._open.values()))
        more = f" and {len(self._open) - 1} more" if len(self._open) > 1 else ""
        times = f"{more}  {duration_text(max(0.0, self._clock() - since) * 1000)}  {self._so_far(self._clock())}"
        self._say(f"{_CLEAR}… {safe_line(asked, self._width - len(times) - 3)}{times}")
        self._is_drawn = True

    def hold(self) -> None:
        """Keep the lines that come until `go_on`: somebody is being asked something."""
        self._clear()
        self._held = []

    def go_on(self) -> None:
        """Print what was held back."""
        held, self._held = self._held or [], None
        for line in held:
            self._say(line)
        self.tick()

    def close(self) -> None:
        """Leave a clean line."""
        self._clear()
        self._terminal = False

    def _tool(self, asked: str, event: Event) -> None:
        data = event.data
        how = ("denied", "refused"), ("interrupted", "stopped"), ("deferred", "waits")
        mark = "ok" if data["ok"] else next((word for name, word in how if data.get(name)), "failed")
        so_far = self._so_far(event.t)
        room = max(16, self._width - len(so_far) - 21)
        line = f"{mark:<8}{safe_line(asked, room):<{room}} {duration_text(data['ms']):>9}  {so_far}"
        self._line(line, red=not data["ok"])
        self.tick()

    def _verify(self, event: Event) -> None:
        """A verification under way has the line of a tool, and a line that stays when it has ended."""
        data = event.data
        if event.kind == "started":
            self._open["verify"] = (f"verifying: {data['what']}", event.t)
            self.tick()
            return
        self._open.pop("verify", None)
        line = attempt_line(data["attempt"], data)
        self._line(line, red=not data["passed"])

    def _so_far(self, now: float) -> str:
        """Time and tokens of the whole run until now. Dollars are known at its end only: the CLI counts them."""
        passed = max(0.0, now - (self._began or now)) * 1000
        return f"{duration_text(passed):>9} {self._tokens:>9,} tokens"

    def _line(self, text: str, *, red: bool = False) -> None:
        plain = safe_text(text).replace("\n", " ")
        line = (click.style(plain, fg="red") if red and self._terminal else plain) + "\n"
        if self._held is not None:
            self._held.append(line)
            return
        self._clear()
        self._say(line)

    def _clear(self) -> None:
        if self._is_drawn:
            self._say(_CLEAR)
            self._is_drawn = False


AS_QUICK = "a copy is as quick"


def setup_line(setup: Mapping[str, Any]) -> str:
    """What a setup came to."""
    how = f"done in {duration_text(setup['ms'])}" if setup["made"] else "not needed"
    places = ", ".join(setup["places"]) or "nothing in the mounts"
    return safe_text(f"setup      {how}: layer {setup['key'][:12]} has {places}, {size_text(setup['bytes'])}")


def backend_lines(facts: Mapping[str, Any]) -> list[str]:
    """How the files of a run got into its workspace, where that is not by a plain copy of few files."""
    used, why = facts.get("backend") or ("copy", "")
    said = {"copy": "a copy of their own", "overlay": "an overlay"}.get(used, safe_text(used))
    return [f"files      {said}: {safe_text(why)}".replace("\n", " ")] if why and not why.endswith(AS_QUICK) else []


def lent_lines(facts: Mapping[str, Any]) -> list[str]:
    """What of the host is shown to a run, one line each: what, where, and that git works."""
    rows = facts.get("lent") or []
    git = [row for row in rows if row["what"] == GIT_HISTORY]
    lines = []
    for row in (row for row in rows if row not in git):
        what = "a folder of the mount" if row["what"] == "lent" else row["what"]
        from_host = "" if row["host"] == row["inside"] else f" (on the host: {safe_text(row['host'])})"
        lines.append(f"lent       {safe_text(row['inside'])}: {what}{from_host}")
    lines += ["git        works: it has the history of the host, and cannot change it"] if git else []
    return [line.replace("\n", " ") for line in lines]


def waiting_lines(result: RunResult[Any]) -> list[str]:
    """The calls that wait for the caller, and how to take them up."""
    calls = [_call({"name": one.name, "arguments": one.arguments}) for one in result.pending]
    how = [f"Take it up: toolkit run PROMPT --resume {result.run}"] if calls else []
    return [*(safe_text(f"waits for you: {call}") for call in calls), *how]


def summary(result: RunResult[Any], *, kept: bool = True) -> list[str]:
    """The lines that end a run."""
    lines = [*ending(result), totals(result), *attempts_lines(result)]
    lines += [safe_text(f"refused: {denied.name}: {denied.reason}") for denied in result.denied]
    lines += waiting_lines(result)
    lines += [*gate_refusals(result), *failed_servers(result)]
    lines += [f"not enforced here: {name}" for name in result.unenforced]
    if result.unstored is not None:
        lines += [safe_text(line) for line in f"warning: {result.unstored}".splitlines()]
    if result.changes:
        lines += ["", result.changes.summary()]
        lines += next_steps(_stored(result), result.changes) if kept and result.folder is not None else []
    if result.delivery is not None:
        lines += ["", *branch_lines(result.delivery)]
    if not result.ok:
        lines += ["", f"More: toolkit runs show {result.run}"]
    return lines


def _stored(result: RunResult[Any]) -> StoredRun:
    from toolkit.runs import StoredRun

    assert result.folder is not None
    return StoredRun(result.folder)


def branch_lines(delivery: Mapping[str, Any]) -> list[str]:
    """A line for each branch that was made, or why there is none."""
    lines = []
    for one in delivery["branches"]:
        base = f" on {one['onto'][:7]}" if one["onto"] else ""
        commits = count_text(one["commits"], "commit")
        lines.append(f"{safe_name(one['name'])}  {commits}{base}  in {safe_name(one['repository'])}")
    if not lines and delivery.get("why"):
        first, *rest = safe_text(delivery["why"]).splitlines()
        lines = [f"no branch: {first}", *rest]
    return lines


def attempt_line(number: int, attempt: Mapping[str, Any]) -> str:
    """How one verification ended."""
    so = "verified" if attempt["passed"] else "not verified"
    if attempt.get("error"):
        how = str(attempt["error"])
    elif attempt.get("ended_by"):
        how = f"ended: {attempt['ended_by']}"
    else:
        how = "" if attempt.get("exit_code") is None else f"exit code {attempt['exit_code']}"
    lines = (line.strip(" =") for line in (attempt.get("output") or "").splitlines())  # pytest draws a frame of =
    last = [line for line in lines if line][-1:]
    parts = [f"attempt {number}: {so}", how, *([] if attempt["passed"] else last)]
    return f"{': '.join(part for part in parts if part)} ({duration_text(attempt.get('ms') or 0)})"


def retry_line(data: Mapping[str, Any]) -> str:
    """Why something is tried again, and when."""
    if data.get("code") is None:
        said = "did not answer" if data.get("status") is None else f"answered {data['status']}"
        return f"the model API {said}; trying again"
    when = duration_text(data["delay_ms"])
    why = f": {data['error']}" if data.get("error") else ""
    return f"{data['code']}{why}; trying again in {when} ({data['attempt']} of {data['of']})"


def gate_refusals(result: RunResult[Any]) -> list[str]:
    """What the gate did not let out of the jail: two lines each, the second says how to allow it."""
    lines = []
    for one in result.refused[:_MOST_REFUSALS]:
        often = f" ({one.times:,} times)" if one.times > 1 else ""
        lines += [f"refused by the gate: {one.what}: {one.why}{often}", f"  {one.fix}"]
    more = len(result.refused) - _MOST_REFUSALS
    lines += [f"  and {more} more: toolkit runs show --json {result.run}"] if more > 0 else []
    return [safe_text(line).replace("\n", " ") for line in lines]


def failed_servers(result: RunResult[Any]) -> list[str]:
    """The optional servers that it went on without, each with its last words."""
    from toolkit.runs.outcome import safe_lines

    lines = []
    for one in result.failed_servers:
        lines.append(safe_text(f"went on without the server '{one.name}': {one.error}").replace("\n", " "))
        lines += [f"  {words}" for words in safe_lines(one.stderr)[-1:]]
    return lines


def ending(result: RunResult[Any]) -> list[str]:
    """How a run ended, and below it why."""
    from toolkit.runs.outcome import safe_lines

    told = [] if result.cause is None else [result.cause]
    if result.code in (
        "unconfined",
        "server_failed",
        "setup_failed",
    ):  # what was lost, its last words, what to do: all of it matters
        told = safe_lines(str(result.debug.get("detail") or "")) or told
    return [f"{result.code}: {result.message}", *(f"  {line}" for line in told)]


def attempts_lines(result: RunResult[Any]) -> list[str]:
    """What the launcher did besides: its verifications, and what was tried again."""
    lines = []
    for number, one in enumerate(result.attempts, 1):
        used = f"; {one.tokens.total:,} tokens before it" if one.tokens.total else ""
        facts = {name: getattr(one, name) for name in ("passed", "exit_code", "output", "ms", "ended_by", "error")}
        lines.append(safe_text(attempt_line(number, facts) + used).replace("\n", " "))
    if result.retries:
        lines.append(f"tried again {count_text(len(result.retries), 'time')}: {', '.join(result.retries)}")
    return lines


def next_steps(run: StoredRun, changes: Changes) -> list[str]:
    """The commands that go on from the changes of a run; none where all of them are ignored."""
    if all(change.ignored for change in changes):
        return []
    steps = {"Look": "diff", "Take": "apply"}
    if run.has_repository and not (run.delivery or {}).get("branches"):
        steps["Or as a branch"] = "branch"
    return ["", *(f"{what}: toolkit runs {command} {run.id}" for what, command in steps.items())]


def totals(result: RunResult[Any]) -> str:
    """What a run used, on one line."""
    calls = f"{count_text(len(result.calls), 'model call')}, {count_text(len(result.tools), 'tool call')}"
    cost = cost_text(result.cost, result.known_cost) + ("" if result.cost is not None else " cost")
    tokens = result.total.total
    told = [f"{result.unattributed.total:,} of them in no call"] if result.unattributed.total else []
    if (result.gate_tokens or 0) > tokens:  # calls that were cut off, by estimate, and those of other programs
        told.append(f"{result.gate_tokens:,} through the gate")
    more = f" ({'; '.join(told)})" if told else ""
    return f"{duration_text(result.ms)}, {calls}, {tokens:,} tokens{more}, {cost}"


def _call(data: dict[str, Any]) -> str:
    arguments = data.get("arguments") or {}
    first = next((value for value in arguments.values() if isinstance(value, str)), "")
    return f"{data['name']} {first[:200]}".rstrip()
