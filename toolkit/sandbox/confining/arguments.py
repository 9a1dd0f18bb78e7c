"""What each argument of `confine` may be: one rule for every parameter, and none without one.

A rule judges the form alone: that a list is one, that a path can be one, that a limit
is a limit. Whether a folder is there or a domain is public is judged by those who use it.
A parameter that is not in `RULES` cannot be used at all, so that a new one cannot be
forgotten. Secrets are never shown, also where they are none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from toolkit._base.words import safe_line
from toolkit.errors import SandboxError
from toolkit.sandbox.gate.usage import SpendLimit
from toolkit.sandbox.host import HostTLS
from toolkit.sandbox.lending.layout import Layout

Rule = Callable[[str, Any], None]
"""Takes a parameter's name and what was written; refuses what cannot be meant."""
_WIDTH = 60


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse what cannot be meant, whatever would come of it later.

    Raises:
        SandboxError: an argument is not what it may be; it names which and what to write instead.
    """
    for name, value in given.items():
        RULES[name](name, value)


def is_sendable(text: str) -> bool:
    """Whether the operating system takes it as a path, an argument or a variable: no NUL, no half of a character."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _wrong(name: str, value: object, what: str, fix: str = "") -> SandboxError:
    return SandboxError(f"{name}={safe_line(repr(value), _WIDTH)}: {what}", fix=fix)


def _optional(rule: Rule) -> Rule:
    def unless_none(name: str, value: Any) -> None:
        if value is not None:
            rule(name, value)

    return unless_none


def _text(what: str, fix: str = "") -> Rule:
    def rule(name: str, value: Any) -> None:
        if not isinstance(value, str) or not value.strip():
            raise _wrong(name, value, f"it is {what}, as a text", fix)
        if not is_sendable(value):
            raise _wrong(name, value, "a text for a program holds no NUL and no lone surrogate", fix)

    return rule


def _path(name: str, value: Any) -> None:
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str) or not os.fspath(value):
        raise _wrong(name, value, "it is a path, as a text or a Path", "Leave it out, or name what is meant")
    if not is_sendable(os.fspath(value)):
        raise _wrong(name, value, "a path holds no NUL and no lone surrogate", "Name what is meant")


def _workspace(name: str, value: Any) -> None:
    if isinstance(value, str | os.PathLike):  # what is none is refused with the word for it by `usable_workspace`
        _path(name, value)


def _secret(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise SandboxError(f"{name} is a text, not {type(value).__name__}(…)", fix="Decode it, or leave it out")


def _headers(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        what = f"{name} is a mapping of names to texts, not {type(value).__name__}(…)"
        raise SandboxError(what, fix='Write for example: {"x-team": "blue"}')


def _env(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "it is a mapping of variables to texts", 'Write for example: env={"CI": "1"}')


def _list_of(rule: Rule) -> Rule:
    def of_all(name: str, value: Any) -> None:
        # What can be gone through only once would be empty for whoever looks next.
        if isinstance(value, str | bytes | os.PathLike | Mapping) or not isinstance(value, Collection):
            is_one = isinstance(value, str | bytes | os.PathLike | int) and not isinstance(value, bool)
            shown = safe_line(repr(value), _WIDTH)
            fix = f"Write {name}=[{shown}]" if is_one else "Write a list, or leave it out"
            raise _wrong(name, value, "it is a list", fix)
        for place, entry in enumerate(value):
            rule(f"{name}[{place}]", entry)

    return of_all


def _port(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise _wrong(
            name, value, "it is a port of this machine, from 1 to 65535", "Write for example: host_ports=[8765]"
        )


def _host_tls(name: str, value: Any) -> None:
    example = f'Write for example: {name}={{8765: HostTLS("localhost")}}'
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "it is a mapping of ports to HostTLS(…)", example)
    for port, way in value.items():
        _port(name, port)
        if not isinstance(way, HostTLS):
            raise _wrong(f"{name}[{port}]", way, "it is HostTLS(…)", example)
        _text("the host in the server's URL", example)(f"{name}[{port}].name", way.name)
        _optional(_path)(f"{name}[{port}].ca_file", way.ca_file)


def _spend_limit(name: str, value: Any) -> None:
    """A limit that is lost by a slip is worse than none: what is no limit is refused, also where it is empty."""
    example = f"Write for example: {name}=SpendLimit(tokens=100_000)"
    if not isinstance(value, SpendLimit):
        raise _wrong(name, value, "it is SpendLimit(…), or None for no limit", example)


def _layout(name: str, value: Any) -> None:
    if not isinstance(value, Layout):
        raise _wrong(name, value, "it is Layout(…)", "Leave it out to show the workspace at its own path")


def _with_methods(what: str, *methods: str) -> Rule:
    def rule(name: str, value: Any) -> None:
        missing = [method for method in methods if not callable(getattr(value, method, None))]
        if missing or isinstance(value, type):
            lacks = f"without {', '.join(missing)}() it is none" if missing else "an object, not a class"
            raise _wrong(name, value, f"it is {what}; {lacks}", "Leave it out, or give such an object")

    return rule


def _heard(name: str, value: Any) -> None:
    if not callable(value):
        what = "it is a function of a server's name and the line it said"
        raise _wrong(name, value, what, f"Write for example: {name}=lambda server, line: True")


def _left_to(whoever: str) -> Rule:
    """No rule here: `whoever` takes the value judges all of its form, too."""
    assert whoever
    return lambda name, value: None


RULES: dict[str, Rule] = {
    "workspace": _workspace,
    "profile": _text("the name of a profile", 'Write for example: profile="offline"'),
    "domains": _list_of(_text("a host name", 'Write for example: domains=["a.example.org"]')),
    "api_url": _optional(_text("the base URL of the model API", "Leave it out for ANTHROPIC_BASE_URL")),
    "api_key": _optional(_secret),
    "api_key_file": _optional(_path),
    "auth_token": _optional(_secret),
    "oauth_token": _optional(_secret),
    "api_headers": _optional(_headers),
    "host_ports": _list_of(_port),
    "host_tls": _optional(_host_tls),
    "tools": _optional(_list_of(_text("the name of a tool of the CLI", 'Write for example: tools=["Read"]'))),
    "readable": _list_of(_path),
    "limits": _left_to("jail_limits"),
    "require": _list_of(_text("the name of a limit", 'Write for example: require=["memory"]')),
    "spend_limit": _optional(_spend_limit),
    "home": _optional(_path),
    "env": _optional(_env),
    "cli_path": _optional(_path),
    "allow_control_files": _list_of(_text("the name of a control file", 'Write for example: [".mcp.json"]')),
    "settings": _left_to("SandboxSettings.parse"),
    "layout": _optional(_layout),
    "pace": _optional(_with_methods("a pace, as toolkit.fleets.rate makes it", "admit")),
    "books": _optional(_with_methods("an object with leaves and ended", "leaves", "ended")),
    "heard": _optional(_heard),
}
"""The rule of every parameter. A new one of `confine` needs its line here."""
