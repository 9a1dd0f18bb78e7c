"""A run in which every word is an attack on the page that shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from toolkit.runs import Call, DeniedCall, ModelUse, PendingCall, RefusedRequest, RunResult, Tokens, ToolUse
from toolkit.runs.outcome import KINDS

_ATTACK = (
    "</script></style></textarea><script>pwned('{n}')</script><img src='{url}{n}' onerror=\"pwned('{n}')\">"
    "<svg onload=pwned('{n}')><a href=\"javascript:pwned('{n}')\">x</a><iframe src={url}{n}></iframe>"
    "<link rel=stylesheet href={url}{n}><meta http-equiv=refresh content='0;url={url}{n}'><base href={url}>"
    "<!--<script> ]]> {{{{data}}}} `${{pwned(1)}}` [x](javascript:pwned(1)) ![x]({url}{n}) \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202egnp.exe\u2066 \u2028 \u200b\ufeff \x00 \udc80 &lt;b&gt;"
)


class Attacks:
    """Makes attacks that can be told apart, and counts them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.count = 0

    def __call__(self, *_: object) -> str:
        self.count += 1
        return f"F{self.count}: " + _ATTACK.format(n=self.count, url=self._url)

    def filling(self, value: Any) -> Any:
        """The same shape with an attack for every string, names of fields of the agent's included."""
        if isinstance(value, str):
            return self()
        if isinstance(value, list):
            return [self.filling(item) for item in value]
        if isinstance(value, dict):
            return {name: self.filling(item) for name, item in value.items()}
        return value


def hostile_events(attack: Attacks) -> list[dict[str, Any]]:
    """One event of every kind, in an order a run could have, with an attack in every field that holds words."""
    call, lost, message, request, other = (attack() for _ in range(5))
    rows = {
        attack(): attack(),
        attack(): {attack(): [attack(), 1]},
        "command": attack(),
        "file_path": attack() + ".py",
        "content": attack(),
    }
    started = {
        "turn": 1,
        "prompt": "",
        "message": "",
        "model": "",
        "session": "",
        "cwd": "",
        "tools": [""],
        "mode": "",
        "cli": "",
        "trace": "",
    }
    question = {"tool": "", "read_only": False, "reason": "", "suggestions": [""]}
    ended = {"name": "", "ok": True, "text": "", "ms": 5, "denied": False, "interrupted": False}
    judged = {"attempt": "", "passed": False, "exit_code": "", "output": "", "ms": 5, "ended_by": "", "error": ""}
    used = dataclasses.asdict(Call("", "", 10, 20, 30, 40, ""))
    fill: Callable[[Any], Any] = attack.filling
    events = [
        ("lifecycle.started", "run", None, {**fill(started), "servers": {attack(): attack()}}),
        ("lifecycle.retry", "run", None, fill({"attempt": "", "delay_ms": 100, "status": "", "error": ""})),
        ("lifecycle.retry", "run", None, fill({"attempt": "", "of": "", "delay_ms": 100, "code": "", "error": ""})),
        (
            "setup.started",
            "run",
            None,
            {**fill({"command": "", "key": ""}), "domains": [attack()], "inputs": [attack()]},
        ),
        ("setup.output", "run", None, fill({"text": ""})),
        (
            "setup.ended",
            "run",
            None,
            {**fill({"command": "", "key": "", "why": ""}), "ok": False, "places": [attack()]},
        ),
        ("verify.started", "run", None, fill({"attempt": "", "of": "", "what": ""})),
        ("verify.ended", "run", None, {**fill(judged), "tokens": {}, "cost": attack()}),
        ("lifecycle.continued", "run", None, {**fill(started), "servers": {attack(): attack()}}),
        ("lifecycle.warning", "run", None, fill({"what": ""})),
        ("lifecycle.delivered", "run", None, {**fill({"why": ""}), "branches": [fill({"name": "", "repository": ""})]}),
        ("lifecycle.changed", "run", None, fill({"what": "", "value": ""})),
        ("lifecycle.checkpoint", "run", None, fill({"number": 1, "label": "", "turn": 1, "before": "", "at": ""})),
        ("assistant.started", message, None, fill({"model": ""})),
        ("assistant.thinking", message, None, fill({"text": ""})),
        ("assistant.block", message, None, {"type": "thinking", "text": attack()}),
        ("assistant.text", message, None, fill({"text": ""})),
        (
            "assistant.block",
            message,
            None,
            {
                "type": "text",
                "text": f"# {attack()}\n\n- {attack()}\n\n```{attack()}\n{attack()}\n```\n`{attack()}` **{attack()}**",
            },
        ),
        ("tool.started", call, None, {"name": "mcp__" + attack() + "__" + attack(), "arguments": rows}),
        ("tool.started", lost, call, {"name": attack(), "arguments": attack()}),
        ("tool.progress", lost, call, {"done": 1, "total": 2, "message": attack()}),
        ("approval.asked", request, None, {**fill(question), "call": call, "input": rows}),
        ("approval.answered", request, None, fill({"decision": "", "message": "", "by": ""})),
        ("approval.asked", other, None, {**fill(question), "call": attack(), "input": rows}),
        ("tool.ended", call, None, fill(ended)),
        ("tool.ended", attack(), call, {**fill(ended), "ok": False, "denied": True}),
        ("usage.call", message, None, fill(used)),
        ("server.failed", attack(), None, fill({"error": "", "stderr": ""})),
        ("server.changed", attack(), None, {"tools": [attack()]}),
        ("gate.refused", "run", None, fill({"what": "", "rule": "", "why": "", "fix": "", "times": 2})),
        ("compaction.started", "run", None, fill({"trigger": ""})),
        ("compaction.ended", "run", None, {**fill({"trigger": ""}), "before": attack(), "after": attack()}),
        ("assistant.ended", message, None, fill({"stop": "", "text": ""})),
        ("assistant.text", attack(), None, fill({"text": ""})),
    ]
    written = [{"name": name, "id": id, "parent": parent, "data": data} for name, id, parent, data in events]
    end = {
        **fill({"message": "", "text": "", "stop": "", "session": "", "model": "", "cause": ""}),
        "debug": {"secret": attack()},
        "turn": 1,
        "ok": False,
        "code": attack(),
        "ms": 1,
        "cost": 0.1,
        "total": {},
        "unattributed": {},
    }
    written.append({"name": "lifecycle.finished", "data": end})
    every = {f"{stream}.{kind}" for stream, kinds in KINDS.items() for kind in kinds}
    assert {event["name"] for event in written} == every, "the vocabulary has a kind that no attack was made for"
    return written


def hostile_result(attack: Attacks, id: str) -> dict[str, Any]:
    """A result with an attack in every field that holds words."""
    result: RunResult[Any] = RunResult(
        run=id,
        code="internal",
        cause=attack(),
        text=attack(),
        output={attack(): [attack()]},
        session=attack(),
        stop=attack(),
        calls=(Call(attack(), attack(), 1, 2, 3, 4, attack()),),
        total=Tokens(10, 20, 30, 40),
        unattributed=Tokens(1),
        tools=(ToolUse(attack(), attack(), True, 1),),
        denied=(DeniedCall(attack(), attack(), attack()),),
        refused=(RefusedRequest(attack(), attack(), attack(), attack()),),
        pending=(PendingCall(attack(), attack(), {attack(): attack()}),),
        unenforced=(attack(), "memory_bytes"),
        model=attack(),
        models={attack(): ModelUse(1, 2, 3, 4)},
        debug={"secret": attack()},
    )
    return result.to_data()


def hostile_facts(attack: Attacks) -> dict[str, Any]:
    """What was asked for, with an attack in every field that holds words."""
    words = ("prompt", "model", "profile", "mode", "trace", "cwd")
    return {
        **{name: attack() for name in words},
        "domains": [attack()],
        "limits": {attack(): 5, "seconds": 5, "memory_bytes": 9},
    }
