"""`toolkit sandbox validate` finds what is wrong in a settings file and says what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from toolkit.cli.sandbox import sandbox
from toolkit.errors import SettingsError
from toolkit.sandbox import explain_file, explain_text, profile

RECIPE = '{"sandbox": {"enabled": true, "network": {"allowedDomains": []}}}'


def keys(text: str, level: str = "error") -> dict[str, str]:
    return {problem.key: problem.consequence for problem in explain_text(text) if problem.level == level}


def changed(path: str, value: object) -> str:
    """The offline profile with one value put in, `path` dotted."""
    data: Any = profile("offline").as_dict()
    *places, name = path.split(".")
    inner = data
    for place in places:
        inner = inner.setdefault(place, {})
    inner[name] = value
    return json.dumps(data)


def test_the_popular_recipe_is_shown_to_be_open() -> None:
    found = keys(RECIPE)
    assert set(found) == {
        "sandbox.failIfUnavailable",
        "sandbox.allowUnsandboxedCommands",
        "sandbox.network.strictAllowlist",
        "permissions.blockWritesOutsideWorkingDirectories",
        "permissions.blockReadsOutsideWorkingDirectories",
    }
    assert "every host" in found["sandbox.network.strictAllowlist"]


def test_a_misspelt_switch_is_said_to_leave_the_sandbox_off() -> None:
    assert "would be off" in keys('{"sandbox": {"enabld": true}}')["sandbox.enabld"]
    assert "would be off" in keys('{"sandboxx": {"enabled": true}}')["sandboxx"]
    assert "would be off" not in keys(changed("sandbox.enabld", True))["sandbox.enabld"]


@pytest.mark.parametrize(
    ("path", "value", "level"),
    [
        ("sandbox.excludedCommands", ["docker"], "error"),
        ("sandbox.filesystem.disabled", True, "error"),
        ("sandbox.network.allowAllUnixSockets", True, "error"),
        ("sandbox.allowNestedUserNamespaces", True, "error"),
        ("sandbox.enabled", False, "error"),
        ("sandbox.enabled", None, "error"),
        ("sandbox.network.allowedDomains", ["https://example.com"], "error"),
        ("sandbox.filesystem.denyWrite", ["."], "error"),
        ("sandbox.credentials", {"files": [{"path": "x", "mode": "hide"}]}, "error"),
        ("permissions.deny", ["Write(secret.txt)"], "error"),
        ("permissions.deny", ["Read(/etc/**)"], "error"),
        ("permissions.deny", ["Read(("], "error"),
        ("permissions.allow", [3], "error"),
        ("permissions.deny", ["Edit(**/CLAUDE.md)"], "note"),
        ("permissions.additionalDirectories", ["/srv"], "note"),
        ("permissions.disableBypassPermissionsMode", "disable", "note"),
        ("sandbox.bwrapPath", "/usr/bin/bwrap", "note"),
        ("sandbox.network.allowLocalBinding", True, "note"),
        ("sandbox.enableWeakerNestedSandbox", True, "note"),
        ("hooks", {"PreToolUse": [{}]}, "note"),
    ],
)
def test_each_weakness_is_found_at_its_key(path: str, value: object, level: str) -> None:
    found = [key for key in keys(changed(path, value), level) if key.startswith(path)]
    assert found, keys(changed(path, value), level)


def test_settings_that_are_not_about_confinement_are_left_alone() -> None:
    assert explain_text(changed("model", "some-model")) == []


def test_every_problem_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(
        '{\n  "sandbox": {\n    "enabled": true,\n    "failIfUnavailabel": true,\n    "network": {\n'
        '      "allowedDomains": [\n        "example.com",\n        "http://x.example.com"\n      ]\n    },\n'
        '    "enabled": false\n  }\n}\n',
        encoding="utf-8",
    )
    lines = {(problem.key, problem.what): problem.line for problem in explain_file(file)}
    assert lines["sandbox.failIfUnavailabel", "is an unknown key"] == 4
    assert lines["sandbox.enabled", "stands twice"] == 11
    assert next(line for (key, _), line in lines.items() if key.endswith("allowedDomains[1]")) == 8


def test_a_project_file_is_said_to_be_the_wrong_place(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(profile("offline").as_json(), encoding="utf-8")
    (problem,) = explain_file(folder / "settings.json")
    assert problem.level == "error"
    assert "rewrite" in problem.consequence


@pytest.mark.parametrize("text", ["", "{", "[]", "nul", '{"a": 1,}', "\x00", '{"sandbox": ' + "[" * 50_000])
def test_text_that_is_no_json_object_is_one_error(text: str) -> None:
    (problem,) = explain_text(text)
    assert problem.level == "error"


def test_a_file_that_is_missing_or_not_text_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        explain_file(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{}")
    (problem,) = explain_file(tmp_path / "b.json")
    assert problem.level == "error"


TEXT = st.text('ab"\\\n(/*.', max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["sandbox", "permissions", "network", "enabled", "deny", "files", "credentials", "filesystem"])


@given(
    st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON, max_size=2), max_size=2))
)
def test_no_settings_file_makes_the_explainer_fail(data: dict[str, Any]) -> None:
    for problem in explain_text(json.dumps(data, indent=1)):
        assert problem.line is None or problem.line >= 1
        assert problem.render("f")


def test_the_command_exits_1_on_an_error_and_0_without_and_2_where_there_is_no_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(profile("offline").as_json(), encoding="utf-8")
    bad.write_text('{\n "sandbox": {\n  "enabld": true}}', encoding="utf-8")

    fine = CliRunner().invoke(sandbox, ["validate", str(good)])
    wrong = CliRunner().invoke(sandbox, ["validate", str(bad)])
    as_json = CliRunner().invoke(sandbox, ["validate", "--json", str(bad)])
    missing = CliRunner().invoke(sandbox, ["validate", str(tmp_path / "missing.json")])

    assert (fine.exit_code, wrong.exit_code, as_json.exit_code, missing.exit_code) == (0, 1, 1, 2)
    assert (
        f"error: {bad}:3  sandbox.enabld: is an unknown key\n  The CLI ignores it in silence: the sandbox would be off.\n  Did you mean 'sandbox.enabled'?\n"
        in wrong.stdout
    )
    assert json.loads(as_json.stdout)["ok"] is False
