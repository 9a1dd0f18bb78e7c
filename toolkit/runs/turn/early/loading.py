"""Load the SDK beside what is under way."""

from __future__ import annotations

import gc
import sys
import threading

_MODULE = "claude_agent_sdk"
_OFTEN = 0.0005
_loading = threading.Lock()


def load_sdk() -> None:
    """Import the SDK; for a thread, while the loop goes on.

    Nothing that an import makes is garbage, and looking for some takes an eighth of its time. The loop is let in
    often meanwhile: it has the CLI to greet, and its first request to pass on.
    """
    if is_loaded():
        return
    with _loading:
        if is_loaded():
            return
        collects, interval = gc.isenabled(), sys.getswitchinterval()
        gc.disable()
        sys.setswitchinterval(_OFTEN)
        try:
            import claude_agent_sdk  # noqa: F401
        finally:
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()


def is_loaded() -> bool:
    """Whether the SDK is there."""
    module = sys.modules.get(_MODULE)
    return module is not None and not getattr(module.__spec__, "_initializing", False)
