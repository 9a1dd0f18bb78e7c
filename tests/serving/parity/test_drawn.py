"""The kernel answers streams that nobody thought of as mcp does. `./dev bench kernel` plays 5,000 of them."""

from __future__ import annotations

import asyncio
import logging

from hypothesis import HealthCheck, given, settings

from tests.serving.parity._drawing import streams
from tests.serving.parity._pair import both
from tests.serving.parity._tools import BOX


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_the_kernel_and_mcp_answer_any_stream_alike(stream: list[bytes]) -> None:
    logging.disable(logging.CRITICAL)  # mcp tells of every message that it drops
    try:
        kernel, judge = asyncio.run(both(BOX, stream))
    finally:
        logging.disable(logging.NOTSET)
    assert kernel == judge
