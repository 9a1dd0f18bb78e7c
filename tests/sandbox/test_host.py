"""What the CLI leaves on the host is taken away, and nothing else."""

from __future__ import annotations

from pathlib import Path

from toolkit.sandbox import LITTER, remove_litter


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
