"""Call a tool: run the function within its limits, and render its value as the content a model reads."""

from toolkit.tools.calling._invoke import invoke
from toolkit.tools.calling._render import Renderer, render
from toolkit.tools.calling._workers import Workers, workers

__all__ = ["Renderer", "Workers", "invoke", "render", "workers"]
