"""What a caller names on the host is decided in one place: the model API and its key, and the litter of the CLI."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.sandbox import LITTER, confine, find_api, remove_litter


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://environment.example")
    file = tmp_path / "key"
    file.write_text("key-of-the-file\n", encoding="ascii")
    file.chmod(0o600)
    return file


def test_what_is_given_wins_over_the_environment(key_file: Path) -> None:
    assert find_api(api_key_file=key_file).key == "key-of-the-file"
    assert find_api(api_key="given").key == "given"
    assert find_api("http://given.example").url == "http://given.example"
    assert find_api().key == "key-of-the-environment"
    assert find_api().url == "http://environment.example"


def test_a_key_file_beside_a_key_in_the_environment_confines(key_file: Path, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()

    assert confine(tmp_path / "workspace", api_key_file=key_file).workspace == tmp_path / "workspace"


def test_the_key_is_not_in_what_is_printed(key_file: Path) -> None:
    assert "key-of-the-file" not in repr(find_api(api_key_file=key_file))


def test_only_the_public_api_lacks_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    assert find_api().lacks_key
    assert not find_api("http://127.0.0.1:9").lacks_key
    assert not find_api(api_key="given").lacks_key


def test_litter_is_removed_where_it_is_empty_and_no_link(tmp_path: Path) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "workspace"
    for folder in (outside / ".cc-writes", *(workspace / name / LITTER for name in ("", "a/b", "full"))):
        folder.mkdir(parents=True)
    (workspace / "full" / ".claude" / "settings.json").touch()
    (workspace / "linked").mkdir()
    (workspace / "linked" / ".claude").symlink_to(outside)

    remove_litter(workspace, [str(Path(name, LITTER)) for name in ("", "a/b", "full", "linked", "gone")])

    left = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*"))
    assert left == ["a", "a/b", "full", "full/.claude", "full/.claude/settings.json", "linked", "linked/.claude"]
    assert (outside / ".cc-writes").is_dir()
