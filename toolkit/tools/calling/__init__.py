"""Call a tool: run the function within its limits, and render its value as the content a model reads."""

from toolkit.tools.calling._invoke import AnswerNeeded, CallFailed, NotCalled, carry_out, invoke, waits_for_answer
from toolkit.tools.calling._render import Renderer, as_blocks, render
from toolkit.tools.calling._workers import Workers, workers

__all__ = [
    "AnswerNeeded",
    "CallFailed",
    "NotCalled",
    "Renderer",
    "Workers",
    "as_blocks",
    "carry_out",
    "invoke",
    "render",
    "waits_for_answer",
    "workers",
]
