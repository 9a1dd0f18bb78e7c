"""Whether the model API takes the credential: one request that costs nothing.

Tokens are counted, which the API does for free, at the path and with the headers that a run
uses. What is said about an answer is its status and the API's own name for the error, never
its text: whoever answers could repeat the key in it.
"""

from __future__ import annotations

import http.client
import json
import queue
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from toolkit._base.words import safe_line
from toolkit.doctor.finding import Finding
from toolkit.errors import SandboxError
from toolkit.sandbox import CREDENTIALS, CUSTOM_HEADERS, ModelAPI, find_api

SECONDS = 20.0
"""After that nobody is waited for any more."""
_NAME = "key"
_PATH = "/v1/messages/count_tokens"
_MODEL = "claude-sonnet-4-5"
"""An API that does not have this one says so only after it has taken the key."""
_MOST_BYTES = 65536
_KIND = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    seconds: float
    body: Any = None

    @property
    def kind(self) -> str:
        """The API's own name for the error; empty where it is none of its errors."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        name = error.get("type") if isinstance(error, dict) else None
        return name if isinstance(name, str) and _KIND.fullmatch(name) else ""

    @property
    def is_about_the_model(self) -> bool:
        """Whether it is said that there is no such model, which a request without a good key is not told."""
        return self.kind == "not_found_error" and _MODEL in json.dumps(self.body)


def examine_key(seconds: float = SECONDS) -> Finding:
    """Ask the model API to count some tokens, which is free, and say whether it took the credential.

    Never raises for what it finds, and never shows the credential.
    """
    try:
        api = find_api()
    except SandboxError as error:
        return Finding(_NAME, False, f"not tried: {error.what}", error.fix)
    if api.lacks_key:
        return Finding(_NAME, False, "not tried: there is none", "Set ANTHROPIC_API_KEY; without one: toolkit demo")
    names = [CREDENTIALS[kind] for kind in api.kinds] + ([CUSTOM_HEADERS] if api.headers else [])
    used = " and ".join(names) or "no credential"
    place = safe_line(api.url, 100)
    try:
        answer = _asked(api, seconds)
    except _UnreachableError as error:
        return Finding(_NAME, False, f"{place} cannot be reached: {error}", _FIX_URL)
    return _judged(answer, place, used)


_FIX_URL = "Look at ANTHROPIC_BASE_URL and the network of this machine: curl -sI URL"


def _judged(answer: _Answer, place: str, used: str) -> Finding:
    """What an answer means."""
    said = f"{answer.status}{' ' + answer.kind if answer.kind else ''}"
    if answer.status == 200 and isinstance(answer.body, dict) and "input_tokens" in answer.body:
        return Finding(_NAME, True, f"{place} takes {used}, asked in {answer.seconds:.1f} s")
    if answer.is_about_the_model:
        return Finding(_NAME, True, f"{place} takes {used}; it has no model {_MODEL}, so name yours with --model")
    if answer.status in (401, 403):
        fix = "Make a new one and set it again; a variable that is exported elsewhere may win (env | grep ANTHROPIC)"
        return Finding(_NAME, False, f"{place} refuses {used}: {said}", fix)
    if answer.status == 404 or answer.status < 400:
        return Finding(_NAME, False, f"{place} is no model API: it answers {said} at {_PATH}", _FIX_URL)
    if answer.status == 429 or answer.status >= 500:
        fix = "Try again in a minute; a run waits with --retry"
        return Finding(_NAME, False, f"{place} is busy, so nothing is known: {said}", fix, stops=False)
    fix = "A run may work all the same: toolkit run PROMPT --max-usd 0.10"
    return Finding(_NAME, False, f"{place} does not count tokens for {used}: {said}", fix, stops=False)


class _UnreachableError(Exception):
    """Nobody answered, or not in HTTP; its text is safe to show."""


def _asked(api: ModelAPI, seconds: float) -> _Answer:
    """The answer to one request; the wait is bounded also where bytes drip in one by one."""
    answers: queue.Queue[_Answer | _UnreachableError] = queue.Queue()

    def ask() -> None:
        try:
            answers.put(_exchange(api, seconds))
        except _UnreachableError as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True, name="toolkit-doctor").start()
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        raise _UnreachableError(f"no answer within {seconds:g} s") from None
    if isinstance(found, _UnreachableError):
        raise found
    return found


def _exchange(api: ModelAPI, seconds: float) -> _Answer:
    body = json.dumps({"model": _MODEL, "messages": [{"role": "user", "content": "Hello."}]})
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", **api.all_headers()}
    began = time.monotonic()
    parts = urlsplit(api.url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    connection = kinds[parts.scheme](parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.request("POST", f"{parts.path.rstrip('/')}{_PATH}", body, headers)
        response = connection.getresponse()
        told = response.read(_MOST_BYTES)
    except TimeoutError:
        raise _UnreachableError(f"no answer within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise _UnreachableError(f"its certificate is not trusted: {error.verify_message}") from None
    except socket.gaierror:
        raise _UnreachableError("there is no such host") from None
    except (OSError, http.client.HTTPException) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise _UnreachableError(why) from None
    finally:
        connection.close()
    try:
        found = json.loads(told)
    except ValueError:
        found = None
    return _Answer(response.status, time.monotonic() - began, found)
