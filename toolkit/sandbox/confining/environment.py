"""The variables of a confined CLI: those that the jail sets, and those that a caller may add."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolkit.errors import SandboxError
from toolkit.sandbox.confining.arguments import is_sendable
from toolkit.sandbox.host import CREDENTIALS, CUSTOM_HEADERS, ModelAPI
from toolkit.sandbox.jail.folder import MARK
from toolkit.sandbox.jail.walls import APART, BIN, CLI_HOME, CLI_TMP, ENVIRONMENT, PATH, SOCKET
from toolkit.sandbox.lending.layout import Layout
from toolkit.sandbox.lending.variables import HARMLESS, steers_the_cli

_CLI_ENVIRONMENT = {
    **ENVIRONMENT,
    # The host part is never looked up: the CLI talks to the socket.
    "ANTHROPIC_BASE_URL": "http://gate",
    "ANTHROPIC_UNIX_SOCKET": SOCKET,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CONFIG_DIR": f"{CLI_HOME}/.claude",
    "HOME": CLI_HOME,
    "TMPDIR": CLI_TMP,
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "PATH": f"{BIN}:{PATH}",
    # Commands, hooks and stdio servers: whoever could write to the CLI's output could forge an approved call.
    "SHELL": f"{APART}/bash",
    "CLAUDE_CODE_SHELL_PREFIX": f"{APART}/command",
}
_OFFLINE = {"CLAUDE_CODE_CERT_STORE": "bundled"}
"""Without the machine's certificates: the CLI reads each of them at its start, and offline it checks none."""
_FIXED = frozenset({*_CLI_ENVIRONMENT, MARK, *CREDENTIALS.values(), CUSTOM_HEADERS, "CLAUDE_CODE_SHELL"}) - {"LANG"}


def environment(api: ModelAPI, layout: Layout, env: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    """All variables of a CLI that asks `api`, with what is lent on its path and what the caller adds.

    Raises:
        SandboxError: the caller cannot add one of its own.
    """
    # A block of the CLI's before the system prompt that depends on the prompt, so that no other would share the API's
    # cache. A subscription is asked with all that the CLI says about itself.
    attribution = {} if api.kinds == ("oauth_token",) else {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}
    path = {"PATH": ":".join([BIN, *layout.search_path])}
    own = _CLI_ENVIRONMENT | (_OFFLINE if offline else {}) | path
    return own | dict(layout.environment) | api.placeholders() | attribution | checked_env(env)


def checked_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables for a jail, if they can be given to one.

    Raises:
        SandboxError: one is no variable, is the jail's own, or steers the CLI itself.
    """
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SandboxError(f"env: {name!r} and its value are texts, both", fix='Write for example: env={"CI": "1"}')
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise SandboxError(f"env: {name!r} is no variable", fix="Use letters, digits and underscores.")
        if not is_sendable(value):
            what = f"env: the value of {name} holds a NUL or a lone surrogate, which no variable can"
            raise SandboxError(what, fix="Write plain text.")
        if name in _FIXED:
            raise SandboxError(f"env: {name} is set by the jail", fix="Leave it out; a key is given as api_key=….")
        if steers_the_cli(name):
            what = f"env: {name} steers the CLI itself, which could run without its permission checks then"
            raise SandboxError(what, fix=f"Leave it out; of its own variables it may have {', '.join(HARMLESS)}.")
    return dict(env)
