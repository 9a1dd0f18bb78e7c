"""Where the model API is and what it is reached with is decided in one place, and never shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import SandboxError, ToolkitError
from toolkit.runs import RunSpec
from toolkit.sandbox import CREDENTIALS, CUSTOM_HEADERS, ModelAPI, confine, find_api

OAUTH = {"anthropic-beta": "oauth-2025-04-20"}


@pytest.fixture(autouse=True)
def env(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """An environment without a model API, to set variables in."""
    for name in (*CREDENTIALS.values(), CUSTOM_HEADERS, "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def set_all(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


@pytest.fixture
def key_file(tmp_path: Path, env: Callable[..., None]) -> Path:
    env(ANTHROPIC_API_KEY="key-of-the-environment", ANTHROPIC_BASE_URL="http://environment.example")
    file = tmp_path / "key"
    file.write_text("key-of-the-file\n", encoding="ascii")
    file.chmod(0o600)
    return file


def test_what_is_given_wins_over_the_environment(key_file: Path, env: Callable[..., None]) -> None:
    env(ANTHROPIC_AUTH_TOKEN="token-of-the-environment", CLAUDE_CODE_OAUTH_TOKEN="oauth-of-the-environment")

    assert find_api(api_key_file=key_file).all_headers() == {"x-api-key": "key-of-the-file"}
    assert find_api(api_key="given").all_headers() == {"x-api-key": "given"}
    assert find_api(auth_token="given").all_headers() == {"authorization": "Bearer given"}
    assert find_api(oauth_token="given").all_headers() == {"authorization": "Bearer given", **OAUTH}
    assert find_api("http://given.example").url == "http://given.example"
    assert find_api().url == "http://environment.example"


@pytest.mark.parametrize("given", [{"api_key": "given"}, {"auth_token": "given"}, {"oauth_token": "given"}], ids=str)
def test_a_credential_among_the_headers_of_the_environment_does_not_come_with_one_that_is_given(
    env: Callable[..., None], given: dict[str, Any]
) -> None:
    wanted = find_api(**given).all_headers()
    env(ANTHROPIC_CUSTOM_HEADERS="X-Api-Key: other\nAuthorization: Bearer other\nx-team: red")
    assert find_api(**given).all_headers() == {**wanted, "x-team": "red"}
    assert find_api(api_headers={"x-api-key": "given"}).headers["x-api-key"] == "given"
    assert find_api().headers == {"x-api-key": "other", "authorization": "Bearer other", "x-team": "red"}


@pytest.mark.parametrize(
    ("variables", "sent"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, {"x-api-key": "k"}),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, {"authorization": "Bearer t"}),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "o"}, {"authorization": "Bearer o", **OAUTH}),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}, {"x-api-key": "k", "authorization": "Bearer t"}),
        ({"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_OAUTH_TOKEN": "o"}, {"x-api-key": "k"}),
        ({"ANTHROPIC_AUTH_TOKEN": "t", "CLAUDE_CODE_OAUTH_TOKEN": "o"}, {"authorization": "Bearer t"}),
        ({"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "o"}, {"authorization": "Bearer o", **OAUTH}),
    ],
)
def test_the_environment_is_read_as_the_cli_reads_it(
    env: Callable[..., None], variables: dict[str, str], sent: dict[str, str]
) -> None:
    env(**variables)
    assert find_api().all_headers() == sent


def test_headers_that_are_given_win_name_by_name_and_over_a_credential(env: Callable[..., None]) -> None:
    env(ANTHROPIC_CUSTOM_HEADERS="X-Team: red\n\nx-site: a b:c\n", ANTHROPIC_AUTH_TOKEN="t")

    assert find_api().headers == {"x-team": "red", "x-site": "a b:c"}
    given = find_api(api_headers={"x-TEAM": "blue", "Authorization": "Basic x"})
    assert given.all_headers() == {"x-team": "blue", "x-site": "a b:c", "authorization": "Basic x"}


@pytest.mark.parametrize("make", [find_api, lambda **given: RunSpec("go", **given).check_key()])
@pytest.mark.parametrize(
    "given",
    [
        {"api_key": ""},
        {"api_key": "  "},
        {"auth_token": ""},
        {"oauth_token": ""},
        {"auth_token": "two\nlines-of-a-secret"},
        {"api_key": "sk-ant-oat01-secret"},
        {"api_key": "secret", "auth_token": "secret"},
        {"api_key": "secret", "oauth_token": "secret"},
        {"api_key": "secret", "api_key_file": "file"},
        {"api_headers": {"x y": "secret"}},
        {"api_headers": {"x": "secret\r\nhost: evil"}},
        {"api_headers": {"x": ""}},
        {"api_headers": {"x": "secret", "X": "secret"}},
        {"api_headers": {"content-length": "5"}},
        {"api_headers": {"Host": "secret"}},
        {"api_headers": {"accept-encoding": "gzip"}},
    ],
)
def test_what_cannot_be_sent_is_an_error_that_does_not_show_it(make: Callable[..., Any], given: dict[str, Any]) -> None:
    with pytest.raises(ToolkitError) as caught:
        make(**given)
    assert "secret" not in str(caught.value)


def test_an_empty_key_says_what_to_do() -> None:
    with pytest.raises(SandboxError) as caught:
        find_api(api_key="")
    assert (caught.value.what, caught.value.fix) == ("api_key is empty", "Leave it out to use ANTHROPIC_API_KEY")


def test_a_line_of_the_environment_that_is_no_header_is_named_by_its_number(env: Callable[..., None]) -> None:
    env(ANTHROPIC_CUSTOM_HEADERS="x-team: red\nsecret")
    with pytest.raises(SandboxError) as caught:
        find_api()
    assert caught.value.what == "ANTHROPIC_CUSTOM_HEADERS: line 2 is no header"


@pytest.mark.parametrize(("content", "why"), [(None, "is not a file"), (b"\xff\xfe\x00", "does not hold one key")])
def test_what_is_no_file_with_a_key_is_refused_in_words(content: bytes | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    if content is None:
        file.mkdir(mode=0o700)
    else:
        file.write_bytes(content)
        file.chmod(0o600)
    with pytest.raises(SandboxError, match=why):
        find_api(api_key_file=file)


def test_a_key_file_beside_a_key_in_the_environment_confines(key_file: Path, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()

    assert confine(tmp_path / "workspace", api_key_file=key_file).workspace == tmp_path / "workspace"


def test_no_credential_is_in_what_is_printed() -> None:
    api = ModelAPI("http://a.example", "secret-1", "secret-2", "secret-3", {"x-key": "secret-4"})
    spec = RunSpec("go", auth_token="secret-1", api_headers={"x-key": "secret-4"})
    assert "secret" not in repr(api) + repr(spec) + repr(RunSpec("go", oauth_token="secret-3"))


def test_only_the_public_api_lacks_a_key() -> None:
    assert find_api().lacks_key
    assert not find_api("http://127.0.0.1:9").lacks_key
    given: list[dict[str, Any]] = [{"api_key": "k"}, {"auth_token": "t"}, {"oauth_token": "o"}]
    for credential in (*given, {"api_headers": {"x-api-key": "k"}}):
        assert not find_api(**credential).lacks_key
    assert find_api(api_headers={"x-team": "blue"}).lacks_key


@pytest.mark.parametrize(("value", "said"), [("  ", "is empty"), ("two words", "is not one line of plain ASCII")])
def test_what_is_wrong_in_the_environment_is_told_by_the_name_of_the_variable(
    value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", value)
    with pytest.raises(SandboxError) as caught:
        find_api()
    assert caught.value.what == f"ANTHROPIC_API_KEY {said}"
