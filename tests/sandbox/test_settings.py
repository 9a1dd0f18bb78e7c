"""Settings the CLI would misread are refused, with what was probably meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.errors import SettingsError
from toolkit.sandbox import SandboxSettings, profile
from toolkit.sandbox.settings import Network, Permissions, Sandbox, known_paths

EVERY_KEY = {
    "sandbox": {
        "enabled": True,
        "failIfUnavailable": True,
        "allowUnsandboxedCommands": False,
        "autoAllowBashIfSandboxed": False,
        "excludedCommands": ["docker"],
        "network": {
            "allowedDomains": ["example.com"],
            "deniedDomains": [],
            "strictAllowlist": True,
            "allowUnixSockets": [],
            "allowAllUnixSockets": False,
            "allowLocalBinding": False,
            "allowMachLookup": [],
            "httpProxyPort": 3128,
            "socksProxyPort": 1080,
            "tlsTerminate": {"caCertPath": "/ca", "caKeyPath": "/key"},
            "allowManagedDomainsOnly": False,
        },
        "filesystem": {
            "allowWrite": ["/a"],
            "denyWrite": ["/b"],
            "denyRead": ["/c"],
            "allowRead": ["/d"],
            "disabled": False,
            "allowManagedReadPathsOnly": False,
        },
        "credentials": {
            "files": [
                {
                    "mode": "mask",
                    "extract": "token:(.*)",
                    "onExtractNoMatch": "deny",
                    "decode": "jwt",
                    "maskClaims": ["sub"],
                    "injectHosts": ["example.com"],
                    "path": "~/.netrc",
                    "maskDuplicates": True,
                }
            ],
            "envVars": [{"mode": "deny", "name": "TOKEN"}],
            "allowPlaintextInject": False,
            "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B", "sessionTokenVar": "C"}],
            "sigv4": {"streaming": "deny", "presigned": "deny", "sigv4a": "passthrough"},
        },
        "enableWeakerNestedSandbox": False,
        "allowNestedUserNamespaces": False,
        "enableWeakerNetworkIsolation": False,
        "allowAppleEvents": False,
        "ignoreViolations": {"*": ["/usr"]},
        "ripgrep": {"command": "rg", "args": ["-n"]},
        "bwrapPath": "/usr/bin/bwrap",
        "socatPath": "/usr/bin/socat",
        "enabledPlatforms": ["linux"],
    },
    "permissions": {
        "allow": ["Read"],
        "deny": ["WebFetch"],
        "ask": [],
        "defaultMode": "bypassPermissions",
        "additionalDirectories": [],
        "blockReadsOutsideWorkingDirectories": True,
        "blockWritesOutsideWorkingDirectories": True,
        "blockFileToolReadsOutsideWorkingDirectories": True,
        "blockReadsExemptPaths": [],
        "workingDirectoriesAsGiven": [],
        "denyInsteadOfPrompting": True,
        "disableAutoMode": "disable",
        "disableBypassPermissionsMode": "disable",
    },
}


def test_every_key_of_the_cli_survives_a_round_trip() -> None:
    assert SandboxSettings.parse(EVERY_KEY).as_dict() == EVERY_KEY
    assert SandboxSettings.parse(json.dumps(EVERY_KEY)).as_dict() == EVERY_KEY


@pytest.mark.parametrize(
    ("data", "key", "meant"),
    [
        ({"sandbox": {"enabld": True}}, "sandbox.enabld", "'sandbox.enabled'"),
        ({"sandboxx": {"enabled": True}}, "sandboxx", "'sandbox'"),
        ({"sandbox": {"allowUnixSockets": []}}, "sandbox.allowUnixSockets", "'sandbox.network.allowUnixSockets'"),
        ({"sandbox": {"network": {"allowed_domains": []}}}, "sandbox.network.allowed_domains", "allowedDomains'"),
        ({"sandbox": {"credentials": {"files": [{"paht": "x", "mode": "deny", "path": "y"}]}}}, None, "files.path'"),
        ({"enabled": True}, "enabled", "'sandbox.enabled'"),
    ],
)
def test_an_unknown_key_is_refused_with_the_key_that_was_meant(data: dict[str, object], key: str, meant: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SandboxSettings.parse(data)

    assert key is None or caught.value.key == key
    assert meant in caught.value.fix


@pytest.mark.parametrize(
    "data",
    [
        {"sandbox": {"enabled": "true"}},
        {"sandbox": {"enabled": 1}},
        {"sandbox": {"enabled": None}},
        {"sandbox": True},
        {"sandbox": {"network": {"allowedDomains": "example.com"}}},
        {"sandbox": {"network": {"allowedDomains": [1]}}},
        {"sandbox": {"network": {"httpProxyPort": 0}}},
        {"sandbox": {"credentials": {"envVars": [{"name": "A B", "mode": "deny"}]}}},
        {"permissions": {"defaultMode": "delegate"}},
        {"permissions": {"deny": {}}},
        {"hooks": {}},
    ],
)
def test_a_value_the_cli_would_refuse_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        SandboxSettings.parse(data)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "null", "[" * 100_000])
def test_text_that_is_no_settings_object_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        SandboxSettings.parse(text)


def test_settings_made_in_python_are_as_strict_as_those_read() -> None:
    with pytest.raises(SettingsError) as caught:
        Sandbox(enabld=True)  # type: ignore[call-arg]
    assert caught.value.key == "sandbox.enabld"

    made = SandboxSettings(
        sandbox=Sandbox(enabled=True, network=Network(allowed_domains=("example.com",))),
        permissions=Permissions(deny=("WebFetch",)),
    )
    assert made.as_dict()["sandbox"] == {"enabled": True, "network": {"allowedDomains": ["example.com"]}}


def test_a_file_that_cannot_be_read_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        SandboxSettings.load(tmp_path / "none.json")


def test_a_written_profile_loads_as_the_same_settings(tmp_path: Path) -> None:
    made = profile("offline")
    (tmp_path / "s.json").write_text(made.as_json(indent=2), encoding="utf-8")
    assert SandboxSettings.load(tmp_path / "s.json") == made


def test_the_message_for_an_unknown_key_says_what_would_happen() -> None:
    with pytest.raises(SettingsError) as caught:
        SandboxSettings.parse({"sandbox": {"failIfUnavailble": True}})
    assert str(caught.value) == (
        "unknown settings key 'sandbox.failIfUnavailble'\n"
        "  The CLI would ignore it in silence, and whatever it was meant to switch on would be off\n"
        "  Did you mean 'sandbox.failIfUnavailable'?"
    )


def test_all_known_keys_are_in_the_round_trip() -> None:
    def paths(value: object, at: str) -> set[str]:
        if isinstance(value, list):
            return set().union(*(paths(item, at) for item in value))
        if not isinstance(value, dict) or at == "sandbox.ignoreViolations":
            return set()
        here = {f"{at}.{key}" if at else key for key in value}
        return here.union(*(paths(inner, f"{at}.{key}" if at else key) for key, inner in value.items()))

    only_in_files = {
        f"sandbox.credentials.envVars.{key}"
        for key in ("extract", "onExtractNoMatch", "decode", "maskClaims", "injectHosts")
    }
    assert set(known_paths()) - only_in_files == paths(EVERY_KEY, "")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (["sandbox.enabled=true"], {"sandbox": {"enabled": True}}),
        (["sandbox.allowUnsandboxedCommands=false"], {"sandbox": {"allowUnsandboxedCommands": False}}),
        (
            ["sandbox.excludedCommands=docker", "sandbox.excludedCommands=git push"],
            {"sandbox": {"excludedCommands": ["docker", "git push"]}},
        ),
        (["sandbox.excludedCommands=7"], {"sandbox": {"excludedCommands": ["7"]}}),
        (
            ['sandbox.network.allowedDomains=["a.org", "b.org"]'],
            {"sandbox": {"network": {"allowedDomains": ["a.org", "b.org"]}}},
        ),
        (["sandbox.network.allowUnixSockets=/run/x=y"], {"sandbox": {"network": {"allowUnixSockets": ["/run/x=y"]}}}),
        (["sandbox.network.httpProxyPort=8080"], {"sandbox": {"network": {"httpProxyPort": 8080}}}),
        (["permissions.defaultMode=plan"], {"permissions": {"defaultMode": "plan"}}),
        (['sandbox.ignoreViolations={"git": ["/x"]}'], {"sandbox": {"ignoreViolations": {"git": ["/x"]}}}),
    ],
)
def test_a_word_lands_at_its_key(words: list[str], data: dict[str, object]) -> None:
    expected = {"sandbox": {}, "permissions": {}, **data}
    assert SandboxSettings.from_words(words).as_dict() == expected


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("sandbox.enabld=true", "sandbox.enabld"),
        ("sandbox.allowUnixSockets=/x", "sandbox.allowUnixSockets"),
        ("sandbox.enabled.more=true", "sandbox.enabled.more"),
        ("sandbox.enabled=yes", "sandbox.enabled"),
        ("sandbox.network=x", "sandbox.network"),
        ("=x", ""),
        ("sandbox.enabled", None),
    ],
)
def test_a_word_that_is_no_setting_is_refused(word: str, key: str | None) -> None:
    with pytest.raises(SettingsError) as caught:
        SandboxSettings.from_words([word])
    assert caught.value.key == key


def test_more_settings_add_to_lists_and_replace_the_rest() -> None:
    one = SandboxSettings.from_words(["permissions.deny=A", "sandbox.enabled=true"])
    both = one.with_more(
        SandboxSettings.from_words(["permissions.deny=A", "permissions.deny=B", "sandbox.enabled=false"])
    )
    assert (both.permissions.deny, both.sandbox.enabled) == (("A", "B"), False)
