"""Every parameter of `confine` has a rule: what cannot be meant is refused in words, before anything is started."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import SandboxError
from toolkit.sandbox import HostTLS, JailLimits, SpendLimit, confine
from toolkit.sandbox.confining.arguments import RULES, check_arguments

KEY = "none"


def test_every_parameter_of_confine_has_a_rule_and_no_rule_is_without_a_parameter() -> None:
    assert list(RULES) == list(inspect.signature(confine).parameters)


def test_a_parameter_without_a_rule_cannot_be_used() -> None:
    with pytest.raises(KeyError, match="newest"):
        check_arguments({"newest": 1})


WRONG: list[tuple[str, Any, str]] = [
    ("workspace", "a\0b", "a path holds no NUL"),
    ("workspace", "\ud800", "a path holds no NUL and no lone surrogate"),
    ("profile", [], "it is the name of a profile, as a text"),
    ("domains", 5, "Write domains=[5]"),
    ("domains", "a.example.org", "Write domains=['a.example.org']"),
    ("domains", [b"x"], "domains[0]=b'x': it is a host name"),
    ("domains", (name for name in ["a.example.org"]), "Write a list"),
    ("api_url", b"x", "it is the base URL of the model API, as a text"),
    ("api_url", "", "it is the base URL"),
    ("api_key", 5, "api_key is a text, not int(…)"),
    ("auth_token", b"x", "auth_token is a text, not bytes(…)"),
    ("oauth_token", ["x"], "oauth_token is a text, not list(…)"),
    ("api_key_file", 5, "it is a path"),
    ("api_key_file", "a\0b", "a path holds no NUL"),
    ("api_key_file", b"x", "it is a path"),
    ("api_headers", "", "api_headers is a mapping of names to texts, not str(…)"),
    ("api_headers", [1], "not list(…)"),
    ("host_ports", ["x"], "host_ports[0]='x': it is a port"),
    ("host_ports", [True], "it is a port"),
    ("host_ports", [70000], "from 1 to 65535"),
    ("host_tls", [1], "it is a mapping of ports"),
    ("host_tls", {8000: "x"}, "it is HostTLS(…)"),
    ("host_tls", {"x": HostTLS("localhost")}, "it is a port"),
    ("host_tls", {8000: HostTLS("localhost", "a\0b")}, "a path holds no NUL"),
    ("tools", [1], "tools[0]=1: it is the name of a tool"),
    ("tools", 0, "Write tools=[0]"),
    ("tools", iter(["Read"]), "it is a list"),
    ("readable", [1], "readable[0]=1: it is a path"),
    ("readable", ["a\0b"], "a path holds no NUL"),
    ("readable", ["\ud800"], "no lone surrogate"),
    ("limits", {"memory_bytes": 10**400}, "larger than the kernel can count"),
    ("require", [["memory"]], "it is the name of a limit"),
    ("spend_limit", 0, "it is SpendLimit(…), or None for no limit"),
    ("spend_limit", {}, "it is SpendLimit(…)"),
    ("spend_limit", "", "it is SpendLimit(…)"),
    ("spend_limit", 5, "it is SpendLimit(…)"),
    ("home", 5, "it is a path"),
    ("home", "", "it is a path"),
    ("home", "a\0b", "a path holds no NUL"),
    ("home", "/proc/none", "home '/proc/none' cannot be made"),
    ("env", [], "it is a mapping of variables to texts"),
    ("env", {"A": "\ud800"}, "env: the value of A holds a NUL or a lone surrogate"),
    ("cli_path", 0, "it is a path"),
    ("cli_path", "", "it is a path"),
    ("cli_path", "a\0b", "a path holds no NUL"),
    ("allow_control_files", [1], "it is the name of a control file"),
    ("settings", [], "settings: list is neither"),
    ("layout", "x", "it is Layout(…)"),
    ("layout", 0, "it is Layout(…)"),
    ("pace", 5, "without admit() it is none"),
    ("books", 5, "without leaves, ended() it is none"),
    ("heard", 5, "it is a function of a server's name"),
]


@pytest.mark.parametrize(
    ("name", "value", "says"), WRONG, ids=[f"{name}-{place}" for place, (name, *_) in enumerate(WRONG)]
)
def test_what_cannot_be_meant_is_refused_in_words_and_nothing_is_started(
    name: str, value: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jails").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "jails"))
    given: dict[str, Any] = {"workspace": tmp_path, "api_url": "http://127.0.0.1:9"}
    given |= {"api_key": KEY} if name not in ("api_key_file", "auth_token", "oauth_token") else {}

    with pytest.raises(SandboxError) as caught:
        confine(**{**given, name: value})

    assert says in str(caught.value)
    assert caught.value.fix
    assert not any((tmp_path / "jails").iterdir())


def test_no_parameter_takes_an_object_without_meaning(tmp_path: Path) -> None:
    for name in RULES:
        given: dict[str, Any] = {"workspace": tmp_path, "api_url": "http://127.0.0.1:9", name: object()}
        with pytest.raises(SandboxError) as caught:
            confine(**given)
        assert name in str(caught.value)


def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path: Path) -> None:
    for name in ("api_key", "auth_token", "oauth_token"):
        with pytest.raises(SandboxError) as caught:
            confine(tmp_path, **dict[str, Any]({name: b"sk-secret"}))
        assert "sk-secret" not in str(caught.value)


def test_what_can_be_gone_through_more_than_once_is_a_list(tmp_path: Path) -> None:
    lists: dict[str, Any] = {"tools": {"Read"}, "require": {"memory": 1}.keys(), "host_ports": range(8000, 8002)}
    confine(tmp_path, api_url="http://127.0.0.1:9", api_key=KEY, **lists)


def test_the_largest_limit_is_what_the_kernel_can_count() -> None:
    assert JailLimits(memory_bytes=2**63 - 1).memory_bytes == 2**63 - 1
    for name in ("memory_bytes", "processes", "file_bytes", "workspace_bytes", "tmp_bytes", "cpu_seconds"):
        with pytest.raises(SandboxError, match="larger than the kernel can count"):
            JailLimits(**{name: 2**63})


@pytest.mark.parametrize(
    "given",
    [
        {"tokens": True},
        {"tokens": 0.5},
        {"tokens": "5"},
        {"tokens": 0},
        {"tokens": float("inf")},
        {"usd": float("inf"), "price": lambda call: 1.0},
        {"usd": float("nan"), "price": lambda call: 1.0},
        {"usd": 1, "price": "x"},
        {"usd": 1},
    ],
    ids=lambda given: " ".join(f"{name}={value}" for name, value in given.items() if name != "price" or value == "x"),
)
def test_a_spend_limit_that_is_none_is_refused_where_it_is_made(given: dict[str, Any]) -> None:
    with pytest.raises(SandboxError, match="spend limit"):
        SpendLimit(**given)
