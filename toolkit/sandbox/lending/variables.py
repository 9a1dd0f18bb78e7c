"""Which variables an agent may be given: those for its commands, not those that steer the CLI.

The CLI reads hundreds of variables. One of them ends all hooks, and with them the
permission checks; others lead it to another API or load code into it. What is not
known to be harmless is refused.
"""

from __future__ import annotations

HARMLESS = (
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
)
"""The CLI's own variables that change how much it does, and nothing of what it may do."""
_OF_THE_CLI = ("CLAUDE", "ANTHROPIC", "DISABLE_", "BUN_", "LD_")
_OF_EVERY_PROGRAM = ("PATH", "NODE_OPTIONS", "NODE_UNIQUE_ID", "NODE_CHANNEL_FD", "BASH_ENV", "ENV")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""Read in capitals and in small letters."""


def steers_the_cli(name: str) -> bool:
    """Whether a variable of this name could change how the CLI runs."""
    if name in HARMLESS:
        return False
    return name.startswith(_OF_THE_CLI) or name in _OF_EVERY_PROGRAM or name.upper() in _PROXIES


def reaches_the_starter(name: str) -> bool:
    """Whether a server's own variable would act on what starts it, before it is kept apart from the CLI."""
    return name not in HARMLESS and (name.startswith(_OF_THE_CLI) or name in ("BASH_ENV", "ENV"))
