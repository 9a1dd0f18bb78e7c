"""Play rounds on request: `python -m tests.faults.play FOLDER`, with the library preloaded.

A request is a line of JSON on stdin, an answer one on stdout. Each round arranges,
acts and judges in three processes of its own, all forks of this one, so that
everything is imported once and nothing is remembered from one to the next.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.faults import JUDGES, OPERATIONS
from tests.faults.judges import Judge, Outcome, Round, judged
from tests.faults.operations import DEEP_OPERATIONS, Operation, Tree, tree_of
from tests.faults.preload import arm, calls_in, disarm
from toolkit._base.handles import remove_folder
from toolkit.errors import ToolkitError

_LONGEST = 30
"""Seconds until a process hangs."""


@dataclass(frozen=True)
class _Ended:
    """What a child gave before it ended, and by which signal, if any."""

    given: list[Any]
    signal: int


def _in_child(work: Callable[[Callable[[Any], None]], None]) -> _Ended:
    """Let a fork do some work; what it gives is here even if it is killed next."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a fault makes others log is no news here
        signal.alarm(_LONGEST)
        try:
            work(lambda one: _send(writing, one))
        except BaseException as error:
            _send(writing, error if isinstance(error, AssertionError) else RuntimeError(repr(error)))
        finally:
            os._exit(0)
    os.close(writing)
    given = []
    with os.fdopen(reading, "rb") as pipe:
        while size := pipe.read(8):
            given.append(pickle.loads(pipe.read(int.from_bytes(size, "big"))))
    _, status = os.waitpid(child, 0)
    return _Ended(given, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


def _send(writing: int, one: Any) -> None:
    data = pickle.dumps(one)
    data = len(data).to_bytes(8, "big") + data
    while data:
        data = data[os.write(writing, data) :]


def _given(ended: _Ended) -> Any:
    if not ended.given or isinstance(ended.given[-1], BaseException):
        raise RuntimeError(f"a process without a fault failed: {ended}")
    return ended.given[-1]


def _emptied(folder: Path) -> Path:
    remove_folder(folder)  # the kernel makes folders for an overlay that a plain user cannot open as they are
    folder.mkdir()
    return folder


class Stage:
    """One operation that is played again and again in a folder."""

    def __init__(self, operation: Operation, judge: Judge, top: Path) -> None:
        self.operation, self.judge, self.top = operation, judge, top
        self._rehearse()
        facts = self._arrange()
        outcome, self.trace = self._act(facts, 0, None)
        if outcome.end != "done":
            raise RuntimeError(f"it fails without a fault: {outcome}")
        self.wanted = outcome.told
        self.host, self.workspace = self._trees(facts)

    def _rehearse(self) -> None:
        """Load what is loaded on first use, here and not in every fork.

        In another folder: what is remembered of one by its path is still asked when it is played.
        """
        top = _emptied(self.top.with_name("rehearsal"))
        self.operation.act(top, self.operation.arrange(top), lambda line: None)
        remove_folder(top)

    def _arrange(self) -> Any:
        _emptied(self.top)
        return _given(_in_child(lambda give: give(self.operation.arrange(self.top))))

    def _trees(self, facts: Any) -> tuple[Tree, Tree]:
        workspace = self.operation.kind.look(Path(facts["path"])) if "path" in facts else {}
        return tree_of(self.top / "host"), workspace

    def _act(self, facts: Any, point: int, fault: str | None, handles: int = 0) -> tuple[Outcome, str]:
        with (self.top.parent / "trace").open("w+") as trace:

            def work(give: Callable[[Any], None]) -> None:
                if handles:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))
                arm(self.top, point, fault, trace.fileno())
                try:
                    told = self.operation.act(self.top, facts, give)
                except BaseException as error:
                    disarm()
                    outcome = Outcome(
                        "raised", None, f"{type(error).__name__}: {error}", isinstance(error, ToolkitError)
                    )
                else:
                    disarm()
                    outcome = Outcome("done", told)
                give(outcome)

            ended = _in_child(work)
            trace.seek(0)
            lines = trace.read()
        said = tuple(one for one in ended.given if isinstance(one, str))
        if ended.signal:
            return Outcome("hung" if ended.signal == signal.SIGALRM else "killed", said=said), lines
        outcome = _given(ended)
        return Outcome(outcome.end, outcome.told, outcome.error, outcome.is_ours, said), lines

    def play(self, fault: str, point: int) -> dict[str, Any]:
        """One round: what the operation ended with, and which promises were broken."""
        facts = self._arrange()
        if fault == "few handles":
            outcome, _ = self._act(facts, 0, None, handles=point)
            hit = f"{point} handles"
        else:
            outcome, trace = self._act(facts, point, fault)
            hit = " ".join(f"call {point} {call.name} {call.path}" for call in calls_in(trace)) or "nothing"
        wanted = (self.wanted, self.host, self.workspace)
        played = Round(self.top, facts, self.operation.kind, outcome, *wanted, prefers_undo=point % 2 == 1)
        ended = _in_child(lambda give: give([asdict(one) for one in judged(self.judge, played)]))
        broken = [{"promise": "goes on", "seen": "it hangs"}] if ended.signal else _given(ended)
        return {"hit": hit, "end": outcome.end, "error": outcome.error, "broken": broken}


def main(folder: str) -> None:
    """Answer until nobody asks any more, then remove the folder: whoever asked may have been killed."""
    try:
        with os.fdopen(os.dup(1), "w") as answers:
            os.dup2(2, 1)
            _answer_all(Path(folder).resolve() / "top", answers)
    except BrokenPipeError:
        pass
    finally:
        remove_folder(Path(folder))


def _answer_all(top: Path, answers: TextIO) -> None:
    stages: dict[tuple[str, bool], Stage] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        deep = asked.get("fault") == "few handles"
        name = asked["operation"]
        key = (name, deep)
        if key not in stages:
            stages[key] = Stage((DEEP_OPERATIONS if deep else OPERATIONS)[name], JUDGES[name], top)
        if "fault" in asked:
            answer: Any = stages[key].play(asked["fault"], asked["point"])
        else:
            answer = [asdict(call) for call in calls_in(stages[key].trace)]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
