"""Why a run ended as it did, in one line that is safe to show.

The raw texts are written by the CLI, the model API and MCP servers. They can hold codes that
steer a terminal, a key, and addresses inside the jail that mean nothing outside of it.
None of that is in what comes out of here; `result.debug` has the texts as they came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolkit._base.words import safe_line, safe_text
from toolkit.runs.outcome.codes import Code

_LONGEST = 300
_LEAST_SAID = 80
_CLEAR = frozenset({"ok", "aborted", "deadline", "turn_limit", "pending"})
"""Codes that say all there is to say."""
_KEYS = re.compile(r"\bsk-[\w-]{6,}|(?i:\bbearer\s+)\S+|(?i:\bx-api-key:\s*)\S+")
_ADDRESSES = re.compile(
    r"(?:\b(?:https?|tcp)://)?(?:\blocalhost|(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:]*:[0-9a-fA-F:]+\])(?::\d{1,5})?"
)
_GATEWAY = re.compile(r"your inference gateway \([^)]*\)")
_DIAGNOSTIC = re.compile(r"^\[\w+_diagnostic\].*$", re.MULTILINE)
_ADVICE = re.compile(r"(?<=Reconnect the tool and resume), or resume with a prompt and CLAUDE_CODE_\w+=1[^.]*")
"""What the CLI proposes and a run does not take: variables that steer the CLI are not the caller's."""
_EMPTY_WORDS = ("Check stderr output for details", "Command failed with exit code")


def cause_of(code: Code, debug: Mapping[str, Any]) -> str | None:
    """The first raw text that tells something, made safe; None where the code says it all, or nothing is known."""
    if code in _CLEAR:
        return None
    for text in _texts(code, debug):
        line = safe_line(_cleaned(text), _LONGEST)
        if line:
            return line
    return None


def detail_lines(debug: Mapping[str, Any]) -> list[str]:
    """All raw texts, made safe, line by line, each below its name."""
    lines = []
    for name, value in debug.items():
        texts = [value] if isinstance(value, str) else value if isinstance(value, list) else [str(value)]
        told = [line for text in texts for line in safe_lines(str(text))]
        lines += [f"{name}: {told[0]}", *(f"  {line}" for line in told[1:])] if told else []
    return lines


def _texts(code: Code, debug: Mapping[str, Any]) -> Iterator[str]:
    """Where a cause may be, the most telling first."""
    if debug.get("verify"):
        yield from _given(debug, "verify")
        return
    if code == "bad_output":
        yield from _given(debug, "output")
    if code == "setup_failed":
        yield _with_last_words(str(debug.get("detail") or "").splitlines())
    if code == "stopped":
        yield from _given(debug, "hook")
    if code == "budget":
        yield from _given(debug, "exceeded")
        return
    yield from _given(debug, "result")
    detail = str(debug.get("detail") or "")
    if code == "server_failed":
        yield _with_the_end_of(detail.splitlines())
    if not any(word in detail for word in _EMPTY_WORDS):
        yield "; ".join(line.strip() for line in detail.splitlines() if line.strip())
    yield _telling(str(debug.get("stderr") or "").splitlines())
    yield detail.partition("\n")[0]


def _with_last_words(lines: Sequence[str]) -> str:
    """What happened, and as many of the last lines as have room behind it."""
    told = [line.strip() for line in lines if line.strip()]
    kept: list[str] = []
    for line in reversed(told[1:]):
        if kept and sum(map(len, [told[0], line, *kept])) + 2 * len(kept) + 4 > _LONGEST:
            break
        kept.insert(0, line)
    return f"{told[0]}: {'; '.join(kept)}" if kept else "".join(told)


def _with_the_end_of(lines: Sequence[str]) -> str:
    """What happened, the end of what was said at it, and what to do."""
    told = [_cleaned(line.strip()) for line in lines if line.strip()]  # before a key could be cut
    said, around = "; ".join(told[1:-1]), [*(safe_line(line, _LONGEST // 3) for line in told[:1]), *told[1:][-1:]]
    room = max(_LEAST_SAID, _LONGEST - len("; ".join(around)) - 2)
    if len(said) > room:
        said = f"…{said[-room + 1 :]}"
    return "; ".join([*around[:1], *([said] if said else ()), *around[1:]])


def _given(debug: Mapping[str, Any], name: str) -> Iterator[str]:
    if debug.get(name):
        yield str(debug[name])


def _telling(lines: Iterable[str]) -> str:
    """The line that names the error, or the last that is no line of a log or a stack."""
    kept = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("at ", "[claude-code:"))]
    named = [line for line in kept if "error" in line.lower()]
    return (named or kept or [""])[0 if named else -1]


def _cleaned(text: str) -> str:
    text = _DIAGNOSTIC.sub("", text)
    text = _ADVICE.sub("; a policy can refuse the call", _GATEWAY.sub("the model API", text))
    return _ADDRESSES.sub("[address]", _KEYS.sub("[key]", text))


def safe_lines(text: str) -> list[str]:
    """A raw text of several lines, made safe."""
    return [safe_text(line).replace("\t", "  ") for line in _cleaned(text).splitlines() if line.strip()]
