"""Every operation of the MCP project's reference filesystem server has one here that does its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolkit_servers.ready.files import files

# Their tool, with the arguments it takes → our tool, called to the same end, and what its answer must hold.
OPERATIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "read_file(path)": ("read_file", {"path": "a.txt"}, "one\ntwo\nthree"),
    "read_text_file(path)": ("read_file", {"path": "a.txt"}, "one\ntwo\nthree"),
    "read_text_file(path, head)": ("read_file", {"path": "a.txt", "lines": 1}, "one\n[lines 1 to 1 of 3"),
    "read_text_file(path, tail)": ("read_file", {"path": "a.txt", "start": -1}, "three\n[lines 3 to 3 of 3"),
    "read_media_file(path)": ("read_media", {"path": "p.gif"}, "image/gif"),
    "read_multiple_files(paths)": ("read_files", {"paths": ["a.txt", "no"]}, "no does not exist"),
    "write_file(path, content)": ("write_file", {"path": "n.txt", "content": "x"}, "Wrote n.txt"),
    "edit_file(path, edits)": ("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}, "-two\n+2"),
    "edit_file(path, edits, dryRun)": (
        "edit_file",
        {"path": "a.txt", "edits": [{"old": "two", "new": "2"}], "dry_run": True},
        "Would edit",
    ),
    "create_directory(path)": ("make_directory", {"path": "x/y"}, "Made x/y/"),
    "list_directory(path)": ("list_directory", {"path": "."}, "a.txt\nd/"),
    "list_directory_with_sizes(path)": ("list_directory", {"path": ".", "details": True}, "14 B"),
    "list_directory_with_sizes(path, sortBy)": ("list_directory", {"path": ".", "sort": "size"}, "2 files, 23 B"),
    "directory_tree(path)": ("tree", {"path": "."}, "d/\n    b.py"),
    "directory_tree(path, excludePatterns)": ("tree", {"path": ".", "exclude": ["*.py"]}, "d/\n  p.gif"),
    "move_file(source, destination)": ("move", {"source": "a.txt", "destination": "d/c"}, "Moved"),
    "search_files(path, pattern)": ("glob", {"path": ".", "pattern": "**/*.py"}, "d/b.py"),
    "search_files(path, pattern, excludePatterns)": ("glob", {"path": ".", "pattern": "*", "exclude": ["d"]}, "a.txt"),
    "get_file_info(path)": ("info", {"path": "a.txt"}, "size: 14 bytes"),
    "list_allowed_directories()": ("info", {}, "everything below the root"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_the_operation_exists_and_works(operation: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "b.py").write_text("pass\n")
    (tmp_path / "p.gif").write_bytes(b"GIF89a\0\0\0")
    tool, arguments, answer = OPERATIONS[operation]
    reply = await files(tmp_path).call(tool, arguments)
    assert not reply.is_error, reply.text
    assert answer in reply.text or answer in str(reply.content)


def test_the_table_names_all_fourteen_of_their_tools() -> None:
    theirs = {operation.partition("(")[0] for operation in OPERATIONS}
    assert len(theirs) == 14
