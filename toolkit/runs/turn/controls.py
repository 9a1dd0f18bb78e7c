"""Requests to a running CLI that the SDK has no method for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import ClaudeSDKClient


async def ask(client: ClaudeSDKClient, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send one control request and return the CLI's answer.

    Raises:
        Exception: the CLI refuses, is gone, or does not answer within a minute.
    """
    # The SDK sends such requests for its own methods and has no public way to send another one.
    query = client._query
    if query is None:
        raise ConnectionError("the CLI is not connected")
    answer: dict[str, Any] = await query._send_control_request(dict(request))
    return answer
