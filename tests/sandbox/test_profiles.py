"""Every profile fails closed, and a profile asked for wrongly is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.sandbox.publish import FOLDER, published
from tests.sandbox.test_settings import EVERY_KEY
from toolkit.cli.sandbox import sandbox
from toolkit.errors import SettingsError
from toolkit.sandbox import CONTROL_FILES, PROFILES, SandboxSettings, explain_text, profile, profile_text


def make(name: str, **options: Any) -> SandboxSettings:
    return profile(name, domains=("example.com",) if name == "allowlist" else (), **options)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("nested", [False, True])
def test_every_profile_carries_all_that_makes_it_fail_closed(name: str, nested: bool) -> None:
    data = make(name, nested=nested).as_dict()

    assert data["sandbox"]["enabled"] is True
    assert data["sandbox"]["failIfUnavailable"] is True
    assert data["sandbox"]["allowUnsandboxedCommands"] is False
    assert data["sandbox"]["network"]["strictAllowlist"] is True
    assert data["sandbox"]["network"]["allowedDomains"] == (["example.com"] if name == "allowlist" else [])
    assert data["permissions"]["blockWritesOutsideWorkingDirectories"] is True
    for control in CONTROL_FILES:
        assert {f"Edit({control})", f"Edit(**/{control})"} <= set(data["permissions"]["deny"])
    assert [p for p in explain_text(make(name, nested=nested).as_json()) if p.level == "error"] == []


def test_a_control_file_may_be_allowed_by_name_and_only_that_one() -> None:
    deny = make("offline", allow_control_files=("CLAUDE.md",)).as_dict()["permissions"]["deny"]
    assert not [rule for rule in deny if "CLAUDE.md" in rule]
    assert "Edit(.mcp.json)" in deny


def test_a_hidden_path_is_hidden_from_tools_and_from_commands() -> None:
    data = make("offline", deny_read=("/srv/keys", "~/.ssh")).as_dict()
    assert data["sandbox"]["filesystem"]["denyRead"] == ["/srv/keys", "~/.ssh"]
    assert {"Read(//srv/keys)", "Read(//srv/keys/**)", "Read(~/.ssh/**)"} <= set(data["permissions"]["deny"])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("offlin", {}),
        ("", {}),
        ("offline", {"domains": ["example.com"]}),
        ("read-only", {"domains": ["example.com"]}),
        ("allowlist", {}),
        ("allowlist", {"domains": "example.com"}),
        ("offline", {"deny_read": ["keys"]}),
        ("offline", {"deny_read": ["/a/../b"]}),
        ("offline", {"deny_read": ["/"]}),
        ("offline", {"deny_read": ["/a*"]}),
        ("offline", {"deny_read": [""]}),
        ("offline", {"allow_control_files": ["README.md"]}),
        ("offline", {"proxy_port": 70000}),
    ],
)
def test_a_profile_asked_for_wrongly_is_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        profile(name, **options)


@pytest.mark.parametrize(
    "domain",
    [
        "https://example.com",
        "example.com/path",
        "example.com:443",
        "user@example.com",
        "10.0.0.1",
        "[::1]",
        "2130706433",
        "0x7f.1",
        "localhost",
        "db.internal",
        "printer.local",
        "*",
        "*.",
        "*.com",
        "*.co.uk",
        "*.com.au",
        "*.github.io",
        "*.s3.amazonaws.com",
        "a.*.com",
        "ex*mple.com",
        "*.*.example.com",
        "exa mple.com",
        "example..com",
        "-x.com",
        "bücher.example",
        "a" * 64 + ".com",
        "",
        "example.com.",
        "example.com\n",
    ],
)
def test_a_domain_that_is_no_public_host_name_is_refused(domain: str) -> None:
    with pytest.raises(SettingsError):
        profile("allowlist", domains=[domain])


def test_domains_are_lower_case_and_stand_once() -> None:
    data = profile("allowlist", domains=["Example.com", "example.com", "*.docs.example.com"]).as_dict()
    assert data["sandbox"]["network"]["allowedDomains"] == ["example.com", "*.docs.example.com"]


def test_the_published_profiles_are_what_the_code_makes() -> None:
    for name, text in published().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name}: run python -m tests.sandbox.publish"
    assert {path.name for path in FOLDER.glob("*.json")} == {name for name in published() if name.endswith(".json")}


def test_the_command_prints_and_writes_the_same_settings(tmp_path: Path) -> None:
    args = ["settings", "--allow-domain", "example.com", "--deny-read", "/srv/keys"]
    printed = CliRunner().invoke(sandbox, args)
    written = CliRunner().invoke(sandbox, [*args, "-o", str(tmp_path / "s.json")])

    expected = profile("allowlist", domains=["example.com"], deny_read=["/srv/keys"])
    assert (printed.exit_code, written.exit_code) == (0, 0)
    assert SandboxSettings.parse(printed.stdout) == SandboxSettings.load(tmp_path / "s.json") == expected
    assert written.stdout == ""


def test_the_command_says_that_the_minimal_profile_is_not_enough() -> None:
    done = CliRunner().invoke(sandbox, ["settings", "--profile", "minimal"])
    assert done.exit_code == 0
    assert "WebFetch" in done.stderr


def test_the_command_fails_with_a_sentence_where_it_cannot_write(tmp_path: Path) -> None:
    done = CliRunner().invoke(sandbox, ["settings", "-o", str(tmp_path / "none" / "s.json")])
    assert isinstance(done.exception, Exception)
    assert "cannot be written" in str(done.exception)


@pytest.mark.parametrize("name", ["offline", "read-only"])
def test_settings_beside_a_profile_are_added_where_they_tighten_it(name: str) -> None:
    words = ["permissions.deny=Read(**/x)", "sandbox.filesystem.denyRead=/opt/x", "sandbox.enabled=true"]
    plain, more = profile(name), profile(name, settings=SandboxSettings.from_words(words))
    assert more.permissions.deny == (*(plain.permissions.deny or ()), "Read(**/x)")
    assert more.sandbox.filesystem is not None
    assert more.sandbox.filesystem.deny_read == ("/opt/x",)


TIGHTENING = {
    "permissions.deny",
    "permissions.blockFileToolReadsOutsideWorkingDirectories",
    "permissions.blockReadsOutsideWorkingDirectories",
    "permissions.denyInsteadOfPrompting",
    "permissions.disableAutoMode",
    "sandbox.credentials.envVars",
    "sandbox.credentials.files",
    "sandbox.filesystem.denyRead",
    "sandbox.filesystem.denyWrite",
    "sandbox.ignoreViolations",
    "sandbox.network.deniedDomains",
}


def _single(data: dict[str, Any], *at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of nested settings alone, with its dotted name."""
    for name, value in data.items():
        key = ".".join((*at, name))
        if isinstance(value, dict) and key not in ("sandbox.ignoreViolations", "sandbox.ripgrep"):
            yield from _single(value, *at, name)
        else:
            alone: Any = value
            for part in reversed((*at, name)):
                alone = {part: alone}
            yield key, alone


def test_every_key_that_does_not_tighten_is_refused_beside_a_profile_unless_it_says_the_same() -> None:
    same = dict(_single(profile("offline", nested=True).as_dict()))
    for key, alone in _single(EVERY_KEY):
        settings = SandboxSettings.parse(alone)
        if key in TIGHTENING or same.get(key) == alone:
            profile("offline", nested=True, settings=settings)
            continue
        with pytest.raises(SettingsError) as caught:
            profile("offline", nested=True, settings=settings)
        assert str(caught.value.key).startswith(key)


def test_a_protection_cannot_be_switched_off_beside_a_profile() -> None:
    for key in ("blockReadsOutsideWorkingDirectories", "denyInsteadOfPrompting"):
        with pytest.raises(SettingsError):
            profile("offline", settings=SandboxSettings.parse({"permissions": {key: False}}))


def test_a_generated_file_can_have_any_key_and_says_what_is_lost() -> None:
    done = CliRunner().invoke(
        sandbox,
        ["settings", "--set", "sandbox.excludedCommands=docker", "--set", "sandbox.network.deniedDomains=x.org"],
    )
    made = SandboxSettings.parse(done.stdout)
    assert (made.sandbox.excluded_commands, made.sandbox.enabled) == (("docker",), True)
    assert "error: --set  sandbox.excludedCommands: is not empty" in done.stderr
    assert "deniedDomains" not in done.stderr
    wrong = CliRunner().invoke(sandbox, ["settings", "--set", "sandbox.enabld=true"])
    assert isinstance(wrong.exception, SettingsError)
    assert wrong.exception.exit_code == 2


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("nested", [True, False])
def test_a_profile_as_text_is_what_the_closed_model_writes(name: str, nested: bool) -> None:
    more: dict[str, Any] = {"domains": ["a.example.org"]} if name == "allowlist" else {}
    for home, port, files in ((None, None, ()), ("/home/agent", 3129, (".git/hooks", ".git/config"))):
        options = {**more, "nested": nested, "home": home, "proxy_port": port, "allow_control_files": files}
        assert profile_text(name, **options) == profile(name, **options).as_json()
    deny = SandboxSettings.parse({"permissions": {"deny": ["Grep"]}})
    assert profile_text(name, **more, settings=deny) == profile(name, **more, settings=deny).as_json()


@pytest.mark.parametrize("name", ["denyRead", "denyWrite"])
@pytest.mark.parametrize("path", ["hid", "./hid", "**/hid/**", "~/.ssh"])
def test_a_path_that_would_hide_nothing_in_a_jail_is_refused(name: str, path: str) -> None:
    more = SandboxSettings.parse({"sandbox": {"filesystem": {name: [path]}}})
    with pytest.raises(SettingsError) as caught:
        profile("offline", nested=True, settings=more)
    assert caught.value.key == f"sandbox.filesystem.{name}"
    absolute = SandboxSettings.parse({"sandbox": {"filesystem": {name: ["/srv/hid"]}}})
    assert "/srv/hid" in json.dumps(profile("offline", nested=True, settings=absolute).as_dict())
