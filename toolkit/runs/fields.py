"""What each option of a run may be: one rule for every field of `RunSpec`, and none without one.

Nothing is started, opened or copied by a rule. A field that is not in `RULES` cannot
be used at all, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean
from toolkit.errors import RunError, SandboxError, WorkspaceError
from toolkit.runs.agents import (
    EFFORTS,
    check_agents,
    check_betas,
    check_folder,
    check_hooks,
    check_plugin,
    check_thinking,
)
from toolkit.runs.asking.modes import MODES
from toolkit.runs.job.retry import as_retry
from toolkit.runs.job.verify import as_verify
from toolkit.runs.kinds import (
    OptionError,
    Rule,
    argument,
    as_written,
    called_with,
    flag,
    list_of,
    mapping_of,
    number,
    one_of,
    optional,
    passed_on,
    path,
    text,
    with_methods,
    wrong,
)
from toolkit.runs.prompts import Prompt, check_parts, is_stream
from toolkit.runs.storage.run_folder import LAST
from toolkit.sandbox import (
    CONTROL_FILES,
    CREDENTIALS,
    NATIVE_TOOLS,
    OLD_NAMES,
    PROFILES,
    JailLimits,
    checked_headers,
    limit_names,
    reaches_the_starter,
)

if TYPE_CHECKING:
    from toolkit.runs.outcome.output import OutputShape
    from toolkit.runs.spec import Limits
    from toolkit.sandbox import SandboxSettings
    from toolkit.tools import Toolbox

LOOSE = "tools"
"""The name of the box that holds tools which were given without one."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SERVER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WEB = re.compile(r"https?://[^/\s?#]", re.IGNORECASE)
_SERVER_KEYS = {
    "stdio": ("command", "args", "env"),
    "http": ("url", "headers", "ca_file"),
    "sse": ("url", "headers", "ca_file"),
    "sdk": ("instance", "name"),
}
"""What a server's configuration may have, by its type; it cannot do without the first."""
_VARIABLE = re.compile(r"[^=\0\s][^=\0]*")


def checked(written: Mapping[str, Any]) -> dict[str, Any]:
    """Every field as its rule keeps it.

    Raises:
        OptionError: one is not what it may be.
        ToolkitError: the same, said by the room that knows.
    """
    return {name: RULES[name](name, value) for name, value in written.items()}


def _native_tool(name: str, value: Any) -> str:
    return str(one_of(NATIVE_TOOLS, "tool of the CLI")(name, OLD_NAMES.get(str(value), value)))


def _base_url(name: str, value: Any) -> str:
    from toolkit.sandbox import BaseURL

    url: str = text("the base URL of the model API")(name, value)
    try:
        BaseURL.parse(url)
    except SandboxError as error:
        raise OptionError(name, error.what, fix=error.fix) from None
    return url


def _prompt(name: str, value: Any) -> Any:
    example = 'Say what to do: run("Make the failing test pass.", …)'
    if isinstance(value, Prompt):
        return value
    if isinstance(value, Path):
        raise wrong(name, value, "it is a text, not a file", "Read the file: run(path.read_text(), …)")
    if isinstance(value, str):
        if not value.strip():
            raise OptionError(name, "the prompt is empty", fix=example)
        return value
    if is_stream(value):
        return value
    if isinstance(value, list | tuple):
        return check_parts(name, value)
    from toolkit.tools import Image, Text

    if isinstance(value, Image | Text):
        return check_parts(name, [value])
    what = "it is a text, a Prompt, a list of texts and Images, or an async iterator of these"
    raise wrong(name, value, what, example)


def _workspace(name: str, value: Any) -> Any:
    from toolkit.runs.spec import InPlace
    from toolkit_workspace import HostMount, WorkspaceSection

    if value is None or isinstance(value, WorkspaceSection | InPlace):
        return value
    several = isinstance(value, Sequence) and bool(value) and all(isinstance(entry, HostMount) for entry in value)
    if isinstance(value, HostMount) or several:
        mounts = "mounts" if several else "[mount]"
        fix = f"Put it into a section: WorkspaceSection({mounts}, allowed_host_roots=[…])"
        raise wrong(name, value, "a mount alone is no workspace", fix)
    folder = repr(str(value)) if isinstance(value, str | Path) else "folder"
    section = f"WorkspaceSection([HostMount({folder})], allowed_host_roots=[{folder}])"
    fix = f"For a copy: {section}. To let the agent change the folder itself: InPlace({folder})"
    raise wrong(name, value, "it is a copy or a folder in place, and does not say which", fix)


def _setup(name: str, value: Any) -> Any:
    from toolkit.runs.job.setup import as_setup

    return as_setup(name, value)


def _tools(name: str, value: Any) -> tuple[Toolbox | str, ...]:
    """Boxes and TARGETs as they are; tools without a box in one of their own, where the first of them stood."""
    if isinstance(value, list | tuple) and not value:
        return ()
    from toolkit.tools import Tool, Toolbox, as_tool

    if as_tool(value) is not None:
        raise wrong(name, value, "it is a list", f"Write {name}=[{as_written(value)}]")
    given: tuple[Any, ...] = list_of(_box_or_tool)(name, value)
    loose = [entry for entry in given if isinstance(entry, Tool)]
    if not loose:
        return given
    first = given.index(loose[0])
    boxed = [entry for entry in given if not isinstance(entry, Tool)]
    before = sum(not isinstance(entry, Tool) for entry in given[:first])
    return (*boxed[:before], Toolbox(LOOSE, loose), *boxed[before:])


def _box_or_tool(name: str, value: Any) -> Any:
    from toolkit.tools import Toolbox, as_tool

    found = as_tool(value)
    if found is not None:
        return found
    if isinstance(value, Toolbox) or (isinstance(value, str) and value.strip()):
        return value
    if isinstance(value, Path):
        return str(value)
    if inspect.isroutine(value):
        called = getattr(value, "__name__", "it")
        raise wrong(name, value, f"'{called}' is a function, but not a tool", "Put @tool above it")
    raise wrong(name, value, 'it is a Toolbox, a tool, or a TARGET such as "tools.py"')


def _limits(name: str, value: Any) -> Limits:
    from toolkit.runs.spec import Limits

    known = [limit.name for limit in fields(Limits)]
    if isinstance(value, Mapping):
        for key in value:
            if key not in known:
                raise wrong(name, value, f"there is no limit '{key}'{did_you_mean(str(key), known)}")
        value = Limits(**value)
    if not isinstance(value, Limits):
        raise wrong(name, value, "it is Limits(…)", "Write for example: limits=Limits(seconds=600, usd=2)")
    JailLimits(**value.of_the_machine())
    return value


def _output(name: str, value: Any) -> Any:
    if value is None or value is type(None):
        return value
    from toolkit.runs.outcome.output import OutputShape

    if isinstance(value, Mapping):
        try:
            shape = OutputShape(value)
        except (ValueError, RecursionError) as error:
            raise wrong(name, value, f"it is no JSON Schema: {error}") from None
        return _named_well(name, value, shape)
    if isinstance(value, str) or inspect.isroutine(value) or (is_dataclass(value) and not isinstance(value, type)):
        what, fix = "it is a type, or a JSON Schema", "Name the type itself, for example: output=list[str]"
        raise wrong(name, value, what, f"Write: output={type(value).__name__}" if is_dataclass(value) else fix)
    return _named_well(name, value, OutputShape(value))


def _named_well(name: str, value: Any, shape: OutputShape) -> Any:
    if (refused := shape.refused_by_cli()) is not None:
        raise OptionError(name, f"{name}: {refused[0]}", fix=refused[1])
    if (field := shape.refused_name()) is None:
        return value
    what = f"{name}: the model API takes no field called '{field}', and refuses every request of such a run"
    raise OptionError(name, what, fix='Use 1 to 64 letters (a to z), digits, "_", "." or "-"')


def _servers(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        fix = 'Write for example: servers={"notes": {"command": "my-server"}}'
        raise OptionError(name, f"{name}: it is a mapping of names to configurations", fix=fix)
    for server in value:
        # The CLI writes other characters as "_" in the names of tools, and a policy would not find them.
        if not isinstance(server, str) or not _SERVER.fullmatch(server):
            fix = "Use 1 to 64 letters, digits, '-' and '_': a tool is called mcp__NAME__TOOL"
            raise OptionError(name, f"{name}: {server!r} is no name for a server", fix=fix)
    return {server: _server(f"{name}[{server!r}]", config) for server, config in value.items()}


def _server(name: str, value: Any) -> dict[str, Any]:
    """A configuration; its values are never shown, for they may hold secrets."""
    example = 'Write for example: {"command": "my-server", "args": ["--stdio"]} or {"type": "http", "url": "http://127.0.0.1:8765/mcp"}'
    if not isinstance(value, Mapping):
        from toolkit.tools import Toolbox

        if isinstance(value, Toolbox):
            raise wrong(name, value, "a Toolbox is no configuration", "Give it as a tool: tools=[box]")
        raise OptionError(name, f"{name}: a server's configuration is a mapping", fix=example)
    kind = value.get("type", "stdio")
    if not isinstance(kind, str) or kind not in _SERVER_KEYS:
        raise OptionError(name, f"{name}: there is no server type {kind!r}{did_you_mean(str(kind), _SERVER_KEYS)}")
    known = (*_SERVER_KEYS[kind], "type", "optional")
    for key in value:
        if key not in known:
            what = f"{name}: a server of type {kind} has no {key!r}{did_you_mean(str(key), known)}"
            is_web = key == "url" and "type" not in value
            raise OptionError(name, what, fix='Write "type": "http" beside it' if is_web else "")
    main = _SERVER_KEYS[kind][0]
    needed = value.get(main)
    if not needed or (kind != "sdk" and not isinstance(needed, str)):
        what = f"a server of type {kind} has a '{main}'" + ("" if kind == "sdk" else ", as a text")
        raise OptionError(name, f"{name}: {what}", fix=example)
    if main == "url" and not _WEB.match(needed):
        what = f"{name}: its 'url' does not begin with http:// or https:// and a host"
        raise OptionError(name, what, fix='Write for example: "http://127.0.0.1:8765/mcp"')
    arguments = value.get("args", [])
    if not isinstance(arguments, list | tuple) or not all(isinstance(word, str) for word in arguments):
        raise OptionError(name, f"{name}: 'args' is a list of texts", fix=example)
    for texts in ("env", "headers"):
        if not isinstance(value.get(texts, {}), Mapping) or any(
            not isinstance(word, str) for pair in value.get(texts, {}).items() for word in pair
        ):
            raise OptionError(name, f"{name}: '{texts}' is a mapping of texts to texts")
    for variable in value.get("env", {}):
        if reaches_the_starter(variable):
            what = f"{name}: the variable {variable} would act on the CLI that starts the server"
            raise OptionError(name, what, fix="Leave it out, or let the server's command set it: env NAME=VALUE …")
    if "ca_file" in value:
        authority = path(f"{name}['ca_file']", value["ca_file"])
        if not needed.lower().startswith("https://"):
            raise OptionError(
                name, f"{name}: 'ca_file' is about TLS", fix="Write its url with https://, or leave it out"
            )
        value = {**value, "ca_file": str(authority)}
    if not isinstance(value.get("optional", False), bool):
        what = f"{name}: 'optional' is True or False: whether the run may do without the server"
        raise OptionError(name, what, fix='Leave it out where the run needs the server, or write "optional": True')
    return dict(value)


def _settings(name: str, value: Any) -> SandboxSettings:
    from toolkit.sandbox import SandboxSettings

    if isinstance(value, Mapping):
        return SandboxSettings.parse(dict(value))
    if not isinstance(value, SandboxSettings):
        is_file = isinstance(value, str | Path)
        fix = "Read the file: SandboxSettings.load(Path(…))" if is_file else "See toolkit.sandbox.SandboxSettings"
        raise wrong(name, value, "it is SandboxSettings(…)", fix)
    return value


def _key(name: str, value: Any) -> str | None:
    """A key; it is never shown, also where it is no key."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        what = "is empty" if isinstance(value, str) else f"is a text, not a {type(value).__name__}"
        raise OptionError(name, f"{name} {what}", fix=f"Leave it out to use {CREDENTIALS[name]}")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise OptionError(name, f"{name} does not hold one key", fix="Give the key alone, without spaces or line ends")
    return value


def _headers(name: str, value: Any) -> dict[str, str]:
    """Headers; their values are never shown, for they may hold secrets."""
    if not isinstance(value, Mapping):
        fix = 'Write for example: {"x-team": "blue"}'
        raise OptionError(name, f"{name} is a mapping of names to texts, not a {type(value).__name__}", fix=fix)
    return checked_headers(value)


def _value(name: str, value: Any) -> str:
    if not isinstance(value, str):
        fix = f'Write "{value}"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
        raise wrong(name, value, "the value of a variable is a text", fix)
    if "\0" in value:
        raise wrong(name, value, "the value of a variable holds no NUL")
    return str(path(name, value)) if value else value  # as a path it may hold any byte but that


def _env(name: str, value: Any) -> dict[str, str]:
    found: dict[str, str] = mapping_of(
        passed_on(_value), "a mapping of variables to texts", 'Write for example: env={"CI": "1"}'
    )(name, value)
    for variable in found:
        if not _VARIABLE.fullmatch(variable):
            raise wrong(name, value, f"{variable!r} cannot be the name of a variable")
    return found


def _approve(name: str, value: Any) -> Any:
    if value is None or value == "wait":
        return value
    if not callable(value):
        raise wrong(
            name,
            value,
            'it is a function that answers a Question, or "wait"',
            'To let everything run leave it out: mode="yolo" asks nobody. To answer yourself: '
            "approve=lambda question: input(question.tool) == 'y'",
        )
    return called_with("the Question", "approve=lambda question: question.read_only")(name, value)


def _resume(name: str, value: Any) -> str:
    from toolkit.runs.sessions.transcripts import SessionId

    if hasattr(value, "session"):
        raise wrong(name, value, "it is the id of a session", "Write: resume=result.session")
    try:
        return SessionId(value)
    except RunError:
        raise wrong(name, value, "it is no session id", "Take it from a result: result.session") from None


def _run_id(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value) or value == LAST:
        fix = "Use up to 100 letters, digits, '-', '_' and '.', beginning with a letter or digit"
        raise wrong(name, value, "it cannot be the id of a run", fix)
    return value


def _branch(name: str, value: Any) -> str:
    from toolkit_workspace.delivering import checked_name

    try:
        return checked_name(text("the name of a branch")(name, value))
    except WorkspaceError as error:
        raise wrong(name, value, "git takes no such name for a branch", error.fix) from None


_pattern = text("the name or pattern of a tool", 'Write for example: "Bash" or "mcp__notes__*"')

RULES: dict[str, Rule] = {
    "prompt": _prompt,
    "workspace": _workspace,
    "setup": _setup,
    "tools": _tools,
    "limits": _limits,
    "verify": as_verify,
    "protect": list_of(path),
    "retry": as_retry,
    "output": _output,
    "model": optional(argument("the name of a model", "Leave it out for the CLI's default")),
    "system": optional(passed_on(text("what is added to the system prompt"))),
    "agents": check_agents,
    "thinking": check_thinking,
    "effort": optional(one_of(EFFORTS, "effort")),
    "fallback_model": optional(argument("the name of a model")),
    "betas": check_betas,
    "plugins": list_of(check_plugin),
    "folders": list_of(check_folder),
    "hooks": check_hooks,
    "native": optional(list_of(_native_tool)),
    "servers": _servers,
    "allow_servers": list_of(text("the name of a server")),
    "profile": optional(one_of(PROFILES, "profile")),
    "domains": list_of(text("a host name", 'Write for example: domains=["a.example.org"]')),
    "readable": list_of(path),
    "toolchain": flag,
    "require": list_of(one_of(limit_names(), "limit")),
    "allow_control_files": list_of(one_of(CONTROL_FILES, "control file")),
    "settings": optional(_settings),
    "env": _env,
    "api_url": optional(_base_url),
    "api_key": _key,
    "api_key_file": optional(path),
    "auth_token": _key,
    "oauth_token": _key,
    "api_headers": _headers,
    "cli_path": optional(path),
    "mode": one_of(MODES, "mode"),
    "policy": mapping_of(text("a policy"), "a mapping of patterns to policies", 'Write for example: {"Bash": "ask"}'),
    "safe": list_of(_pattern),
    "approve": _approve,
    "approval_timeout": optional(number),
    "resume": optional(_resume),
    "fork": flag,
    "at": optional(argument("the id of a message")),
    "store": optional(with_methods("a store of sessions, such as FileSessionStore(folder)", "append", "load")),
    "trace": optional(text("an id of yours")),
    "telemetry": optional(with_methods("a Telemetry, from toolkit.telemetry", "begin")),
    "branch": optional(_branch),
    "before_run": optional(called_with("the spec", 'before_run=lambda spec: "Today is Monday."')),
    "after_run": optional(called_with("the result", "after_run=lambda result: print(result.code)")),
    "listener_timeout": number,
    "run_id": _run_id,
    "home": optional(path),
    "books": optional(with_methods("an object with leaves and ended", "leaves", "ended")),
    "pace": optional(with_methods("a pace, as Rate().of_run() gives it", "admit")),
    "transport": optional(with_methods("a FakeCLI, or another Transport", "connect", "write", "read_messages")),
}
"""The rule of every field. A new field of `RunSpec` needs its line here."""
