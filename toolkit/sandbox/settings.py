"""The CLI's `sandbox` and `permissions` settings as a closed model.

The CLI accepts keys it does not know in silence, and the sandbox is then simply
off. Here an unknown key or a wrong type is a SettingsError that says what was
probably meant and what would have happened. Names in Python are snake_case, in
JSON the CLI's own; a value left at None is not written, so the CLI's default
counts. `toolkit.sandbox.profiles` makes complete settings; this module judges
the form only, `toolkit.sandbox.lint.explain` also what they leave open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, Strict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from toolkit._base.words import nearest
from toolkit.errors import SettingsError

KNOWN_CLI = "2.1.325"
"""The CLI whose keys these are."""

Strings = Annotated[tuple[str, ...], Strict(False)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Closed(BaseModel):
    """Settings in one place of the file; knows all its keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
    place: ClassVar[str] = ""

    @model_validator(mode="wrap")
    @classmethod
    def _closed(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_context=False)[0]
            path = join_path(cls.place, *first["loc"])
            if first["type"] == "extra_forbidden":
                raise unknown_key(path) from None
            raise wrong_value(path, first) from None

    @classmethod
    def keys(cls) -> dict[str, Any]:
        """The JSON names of this place's keys, with the field behind each."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


class TlsTerminate(Closed):
    place = "sandbox.network.tlsTerminate"
    ca_cert_path: str | None = None
    ca_key_path: str | None = None


class Network(Closed):
    """What sandboxed commands may reach."""

    place = "sandbox.network"
    allowed_domains: Strings | None = None
    denied_domains: Strings | None = None
    strict_allowlist: bool | None = None
    allow_unix_sockets: Strings | None = None
    allow_all_unix_sockets: bool | None = None
    allow_local_binding: bool | None = None
    allow_mach_lookup: Strings | None = None
    http_proxy_port: Port | None = None
    socks_proxy_port: Port | None = None
    tls_terminate: TlsTerminate | None = None
    allow_managed_domains_only: bool | None = None


class Filesystem(Closed):
    """What sandboxed commands may read and write."""

    place = "sandbox.filesystem"
    allow_write: Strings | None = None
    deny_write: Strings | None = None
    deny_read: Strings | None = None
    allow_read: Strings | None = None
    disabled: bool | None = None
    allow_managed_read_paths_only: bool | None = None


class _Credential(Closed):
    mode: Literal["deny", "mask"]
    extract: str | None = None
    on_extract_no_match: Literal["warn", "deny", "error"] | None = None
    decode: Literal["jwt"] | None = None
    mask_claims: Strings | None = None
    inject_hosts: Strings | None = None


class CredentialFile(_Credential):
    place = "sandbox.credentials.files"
    path: str
    mask_duplicates: bool | None = None


class CredentialVariable(_Credential):
    place = "sandbox.credentials.envVars"
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class AwsPair(Closed):
    place = "sandbox.credentials.awsPairs"
    access_key_id_var: str
    secret_access_key_var: str
    session_token_var: str | None = None


class Sigv4(Closed):
    place = "sandbox.credentials.sigv4"
    streaming: Literal["deny", "passthrough"] | None = None
    presigned: Literal["deny", "passthrough"] | None = None
    sigv4a: Literal["deny", "passthrough"] | None = Field(default=None, alias="sigv4a")


class Credentials(Closed):
    """Secrets to hide from sandboxed commands."""

    place = "sandbox.credentials"
    files: Annotated[tuple[CredentialFile, ...], Strict(False)] | None = None
    env_vars: Annotated[tuple[CredentialVariable, ...], Strict(False)] | None = None
    allow_plaintext_inject: bool | None = None
    aws_pairs: Annotated[tuple[AwsPair, ...], Strict(False)] | None = None
    sigv4: Sigv4 | None = None


class Ripgrep(Closed):
    place = "sandbox.ripgrep"
    command: str
    args: Strings | None = None


class Sandbox(Closed):
    """The CLI's own sandbox. It confines Bash, not the CLI's file tools, hooks or MCP servers."""

    place = "sandbox"
    enabled: bool | None = None
    fail_if_unavailable: bool | None = None
    allow_unsandboxed_commands: bool | None = None
    auto_allow_bash_if_sandboxed: bool | None = None
    excluded_commands: Strings | None = None
    network: Network | None = None
    filesystem: Filesystem | None = None
    credentials: Credentials | None = None
    enable_weaker_nested_sandbox: bool | None = None
    allow_nested_user_namespaces: bool | None = None
    enable_weaker_network_isolation: bool | None = None
    allow_apple_events: bool | None = None
    ignore_violations: dict[str, Strings] | None = None
    ripgrep: Ripgrep | None = None
    bwrap_path: str | None = None
    socat_path: str | None = None
    enabled_platforms: Strings | None = None


class Permissions(Closed):
    """Rules for the CLI's tools. A deny beats every allow and holds in every permission mode."""

    place = "permissions"
    allow: Strings | None = None
    deny: Strings | None = None
    ask: Strings | None = None
    default_mode: Literal["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"] | None = (
        None
    )
    additional_directories: Strings | None = None
    block_reads_outside_working_directories: bool | None = None
    block_writes_outside_working_directories: bool | None = None
    block_file_tool_reads_outside_working_directories: bool | None = None
    block_reads_exempt_paths: Strings | None = None
    working_directories_as_given: Strings | None = None
    deny_instead_of_prompting: bool | None = None
    disable_auto_mode: Literal["disable"] | None = None
    disable_bypass_permissions_mode: Literal["disable"] | None = None


class SandboxSettings(Closed):
    """Settings for the CLI's `--settings` option: what confines it, and nothing else."""

    sandbox: Sandbox = Sandbox()
    permissions: Permissions = Permissions()

    @classmethod
    def parse(cls, data: str | bytes | dict[str, Any]) -> SandboxSettings:
        """Settings from JSON text or its parsed form, spelt exactly as the CLI spells them.

        Raises:
            SettingsError: not JSON, an unknown key or a wrong type; `.key` names it.
        """
        if not isinstance(data, dict):
            try:
                data = json.loads(data)
            except (ValueError, RecursionError) as wrong:
                raise SettingsError("the settings are not JSON", where=[str(wrong)]) from None
        if (null := _first_null(data)) is not None:
            raise SettingsError(
                f"settings key '{null}' is null", where=["The CLI refuses to start"], fix="Leave it out", key=null
            )
        return cls.model_validate(data, by_alias=True, by_name=False)

    @classmethod
    def load(cls, path: Path) -> SandboxSettings:
        """Settings from a file; see `parse`."""
        try:
            return cls.parse(path.read_bytes())
        except OSError as wrong:
            raise SettingsError(f"the settings file {path} cannot be read", where=[str(wrong.strerror)]) from None

    @classmethod
    def from_words(cls, words: Iterable[str]) -> SandboxSettings:
        """Settings from words such as `sandbox.excludedCommands=docker`; a key that holds a list may come often.

        Raises:
            SettingsError: a word without `=`, an unknown key or a wrong value.
        """
        data: dict[str, Any] = {}
        for word in words:
            key, equals, text = word.partition("=")
            if not equals:
                raise SettingsError(f"'{word}' is not KEY=VALUE", fix="Write for example: sandbox.enabled=true")
            _put(data, key, text)
        return cls.parse(data)

    def with_more(self, more: SandboxSettings) -> SandboxSettings:
        """Both: lists together, and in everything else `more` counts."""
        return SandboxSettings.parse(_merged(self.as_dict(), more.as_dict()))

    def as_dict(self) -> dict[str, Any]:
        """What the CLI reads, without anything left at its default."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def as_json(self, *, indent: int | None = None) -> str:
        """The same as text: one line to pass inline, or indented for a file."""
        return json.dumps(self.as_dict(), indent=indent, separators=None if indent else (",", ":"), ensure_ascii=False)


def _put(data: dict[str, Any], key: str, text: str) -> None:
    """Write one value at its place; texts need no quotes, and lists no brackets."""
    *places, leaf = key.split(".")
    model: type[Closed] | None = SandboxSettings
    for place in places:
        field = model.keys().get(place) if model is not None else None
        model = nested_model(field.annotation) if field is not None else None
        data = data.setdefault(place, {})
    known = {} if model is None else model.keys()
    if leaf not in known:
        raise unknown_key(key)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if "tuple" in str(known[leaf].annotation) and not isinstance(value, dict):
        value = [*data.get(leaf, []), *(value if isinstance(value, list) else [text])]
    data[leaf] = value


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for key, value in other.items():
        before = both.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            both[key] = _merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            both[key] = [*before, *(entry for entry in value if entry not in before)]
        else:
            both[key] = value
    return both


def join_path(*parts: str | int) -> str:
    """A dotted path for messages: sandbox.network.allowedDomains[0]."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text and part else str(part)
    return text


def _first_null(data: object, *at: str | int) -> str | None:
    if data is None:
        return join_path(*at)
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return next((found for key, value in items if (found := _first_null(value, *at, key))), None)


def known_paths(model: type[Closed] = SandboxSettings) -> Iterator[str]:
    """Every key there is, as a dotted path."""
    for key, field in model.keys().items():
        yield join_path(model.place, key)
        for inner in _models_in(field.annotation):
            yield from known_paths(inner)


def meant_key(path: str) -> str | None:
    """A sentence naming the key that was probably meant, or None."""
    place, _, leaf = path.rpartition(".")
    plain = leaf.lower().replace("_", "").replace("-", "")
    by_place: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for known in known_paths():
        its_place, _, its_leaf = known.rpartition(".")
        by_place[its_place == place].setdefault(its_leaf.lower(), known)
    # At the top of a file stand many keys that are none of ours: there only an exact name counts as misplaced.
    for leaves, cutoff in ((by_place[True], 0.7), (by_place[False], 0.85 if place else 1.0)):
        if near := nearest(plain, leaves, cutoff):
            return f"Did you mean '{leaves[near]}'?"
    return None


def unknown_key(path: str) -> SettingsError:
    """The error for a key that the model does not have."""
    meant = meant_key(path)
    if "." not in path and meant is None:
        return SettingsError(
            f"'{path}' is not a key of SandboxSettings",
            where=["It holds what confines the CLI: 'sandbox' and 'permissions'"],
            fix="Keep other settings apart, or check the whole file with: toolkit sandbox validate FILE",
            key=path,
        )
    return SettingsError(
        f"unknown settings key '{path}'",
        where=["The CLI would ignore it in silence, and whatever it was meant to switch on would be off"],
        fix=meant or "See the keys in: toolkit sandbox settings --help",
        key=path,
    )


def wrong_value(path: str, error: Mapping[str, Any]) -> SettingsError:
    """The error for a value of the wrong type; `error` is one of pydantic's."""
    return SettingsError(
        f"settings key '{path}' {describe_value_error(error)}" if path else "the settings are not a JSON object",
        where=["With a 'sandbox' block the CLI refuses to start; without one it drops all settings in silence"],
        key=path,
    )


def describe_value_error(error: Mapping[str, Any]) -> str:
    """What is wrong with a value, as the end of a sentence."""
    kinds = {
        "bool_type": "has to be true or false",
        "string_type": "has to be a text",
        "tuple_type": "has to be a list",
        "int_type": "has to be a whole number",
        "dict_type": "has to be an object",
        "model_type": "has to be an object",
        "missing": "is missing",
    }
    said = kinds.get(error["type"]) or f"is wrong: {error['msg'][:1].lower()}{error['msg'][1:]}"
    return said if error["type"] == "missing" else f"{said}, not {json.dumps(error['input'], default=str)[:80]}"


def nested_model(annotation: Any) -> type[Closed] | None:
    """The closed model of a key that holds one object, such as `Network | None`."""
    for choice in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(choice, type) and issubclass(choice, Closed):
            return choice
    return None


def _models_in(annotation: Any) -> Iterator[type[Closed]]:
    """Every closed model in an annotation, those of lists too."""
    if isinstance(annotation, type) and issubclass(annotation, Closed):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
