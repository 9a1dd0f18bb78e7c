"""The ready-made files, reading: listing, searching, ranges, media, bounds."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from tests.ready._client import refused, said
from toolkit import Toolbox
from toolkit_servers.ready.files import files

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("def f():\n    return 1\n\nprint(f())\n")
    (tmp_path / "src" / "deep" / "util.py").write_text("import main\n")
    (tmp_path / "src" / "deep" / "deeper" / "x.ts").write_text("let x = 1\n")
    (tmp_path / "README.md").write_text("# A project\n")
    (tmp_path / "picture.bin").write_bytes(PNG)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.py").write_text("import main\n")
    return tmp_path


@pytest.fixture
def box(tree: Path) -> Toolbox:
    return files(tree)


async def test_a_folder_is_listed_by_name(box: Toolbox) -> None:
    text = await said(box, "list_directory")
    assert text.splitlines() == [".git/", "README.md", "picture.bin", "src/", "[2 folders, 2 files]"]


async def test_a_folder_is_listed_by_size_with_a_total(box: Toolbox, tree: Path) -> None:
    (tree / "large").write_bytes(bytes(5_000))
    lines = (await said(box, "list_directory", sort="size")).splitlines()
    assert lines[0].endswith("large")
    assert lines[0].split()[:2] == ["5.0", "kB"]
    assert lines[-1] == "[2 folders, 3 files, 5.0 kB]"


async def test_the_newest_comes_first_when_asked(box: Toolbox, tree: Path) -> None:
    for age, name in enumerate(["src", "picture.bin", ".git", "README.md"]):
        os.utime(tree / name, (1_000_000 - age, 1_000_000 - age))
    lines = (await said(box, "list_directory", sort="modified")).splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == ["src/", "picture.bin", ".git/", "README.md"]


async def test_a_tree_is_indented_and_stops_at_its_depth(box: Toolbox) -> None:
    text = await said(box, "tree", depth=2, exclude=["*.md"])
    assert text.splitlines() == [
        "./",
        "  .git/",
        "  picture.bin",
        "  src/",
        "    deep/",
        "    main.py",
        "[2 folders not opened: too deep, or .git]",
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/deep/util.py", "src/main.py"]),
        ("/*.py", []),
        ("src/*.py", ["src/main.py"]),
        ("src/**/*.{py,ts}", ["src/deep/deeper/x.ts", "src/deep/util.py", "src/main.py"]),
        ("deep/", ["src/deep/"]),
        ("**", [".git/", "README.md", "picture.bin", "src/"]),
        ("{a,b{c,d}}*", []),
    ],
)
async def test_globs_are_gitignore_patterns_with_alternatives(box: Toolbox, pattern: str, found: list[str]) -> None:
    lines = (await said(box, "glob", pattern=pattern)).splitlines()
    assert set(found) <= set(lines)
    if pattern != "**":
        assert lines == (found or ["Nothing matches."])


async def test_a_glob_is_relative_to_its_folder_and_answers_with_whole_paths(box: Toolbox) -> None:
    assert await said(box, "glob", pattern="/*.py", path="src/deep") == "src/deep/util.py"
    assert await said(box, "glob", pattern="*.py", exclude=["deep"]) == "src/main.py"


@pytest.mark.parametrize("pattern", ["!x", "", "/", "[a", "{a,b}" * 7])
async def test_a_pattern_that_is_none_is_refused(box: Toolbox, pattern: str) -> None:
    await refused(box, "glob", pattern=pattern)


async def test_grep_shows_file_line_and_text(box: Toolbox) -> None:
    assert await said(box, "grep", pattern=r"f\(\)") == "src/main.py:1:def f():\nsrc/main.py:4:print(f())"
    assert await said(box, "grep", pattern="IMPORT", ignore_case=True) == "src/deep/util.py:1:import main"
    assert await said(box, "grep", pattern="f()", literal=True, show="count") == "src/main.py: 2"
    assert await said(box, "grep", pattern="1", show="files", include="*.ts") == "src/deep/deeper/x.ts"
    assert await said(box, "grep", pattern="return", path="src/main.py", around=1) == "\n".join(
        ["src/main.py:1-def f():", "src/main.py:2:    return 1", "src/main.py:3-"]
    )


@pytest.mark.parametrize("pattern", ["^", "$", "x*", r"\d?"])
async def test_a_pattern_that_matches_nothing_at_all_matches_every_line_once(box: Toolbox, pattern: str) -> None:
    assert await said(box, "grep", pattern=pattern, path="src/main.py", show="count") == "src/main.py: 4"


async def test_grep_matches_within_a_line_whatever_the_line_ends(box: Toolbox, tree: Path) -> None:
    (tree / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    assert await said(box, "grep", pattern="^two$") == "dos.txt:2:two"
    assert await said(box, "grep", pattern=r"one\s+two") == "No matches."


async def test_grep_passes_over_binary_files_and_names_those_too_large(box: Toolbox, tree: Path) -> None:
    (tree / "large.txt").write_bytes(b"needle\n" * 3_000_000)
    (tree / "bin").write_bytes(b"needle\0")
    text = await said(box, "grep", pattern="needle")
    assert text.splitlines() == ["No matches.", "[1 file over 16 MB not searched]"]


async def test_an_expression_that_would_run_for_ever_elsewhere_is_quick(box: Toolbox, tree: Path) -> None:
    (tree / "evil.txt").write_text("a" * 50_000 + "!\n")
    assert await said(box, "grep", pattern="(a+)+$", path="evil.txt") == "No matches."


async def test_a_wrong_expression_is_explained(box: Toolbox) -> None:
    assert await refused(box, "grep", pattern="(") == "( is not a regular expression: missing ): ("
    assert "look-around" in await refused(box, "grep", pattern="(?<=x)y")


async def test_grep_stops_at_its_limit_and_says_so(box: Toolbox, tree: Path) -> None:
    (tree / "many.txt").write_text("x\n" * 1_000)
    lines = (await said(box, "grep", pattern="x", path="many.txt", limit=5)).splitlines()
    assert len(lines) == 6
    assert "more was found" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "1\n2\n3\n4\n5"),
        ({"lines": 2}, "1\n2\n[lines 1 to 2 of 5; go on with start=3]"),
        ({"start": 4}, "4\n5\n[lines 4 to 5 of 5]"),
        ({"start": 2, "lines": 1}, "2\n[lines 2 to 2 of 5; go on with start=3]"),
        ({"start": -2}, "4\n5\n[lines 4 to 5 of 5]"),
        ({"start": -99}, "1\n2\n3\n4\n5"),
        ({"start": 6}, "[no lines there: the file has 5]"),
        ({"start": 99}, "[no lines there: the file has 5]"),
        ({"start": 4, "numbers": True}, "     4  4\n     5  5\n[lines 4 to 5 of 5]"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n"], ids=["no last newline", "last newline"])
async def test_a_file_is_read_in_ranges(
    box: Toolbox, tree: Path, arguments: dict[str, Any], text: str, end: str
) -> None:
    (tree / "five").write_text("1\n2\n3\n4\n5" + end)
    assert await said(box, "read_file", path="five", **arguments) == text


@pytest.mark.parametrize("max_chars", [12, 13, 14, 15, 29, 30, 31, 500])
async def test_a_long_file_comes_in_pieces_that_join_without_a_gap(tree: Path, max_chars: int) -> None:
    whole = "".join(f"{number} {'é' * (number % 10)}\n" for number in range(100))
    (tree / "long").write_text(whole)
    box = files(tree, max_chars=max_chars)
    got, start = "", 1
    for _ in range(101):
        text, _, note = (await said(box, "read_file", path="long", start=start)).rpartition("\n")
        assert len(text) <= max_chars
        got += text + "\n"
        if "go on" not in note:
            break
        start = int(note.rpartition("start=")[2].rstrip("]"))
    assert got == whole


async def test_a_line_longer_than_a_result_is_cut_and_said_to_be(tree: Path) -> None:
    (tree / "wide").write_text("é" * 100_000 + "\nnext\n")
    text = await said(files(tree, max_chars=1_000), "read_file", path="wide")
    assert text == "é" * 1_000 + "\n[line 1 is cut here: it is longer than a result may be]"


async def test_the_end_of_a_very_large_file_is_read_without_reading_all(box: Toolbox, tree: Path) -> None:
    with (tree / "huge").open("wb") as file:
        file.write(b"first\n" * 2_000)
        file.seek(200 << 20)
        file.write(b"\nlast but one\nlast\n")
    assert (
        await said(box, "read_file", path="huge", start=-2) == "last but one\nlast\n[the last 2 lines of a large file]"
    )


async def test_odd_encodings_are_said_and_do_no_harm(box: Toolbox, tree: Path) -> None:
    (tree / "latin").write_bytes(b"caf\xe9\n")
    (tree / "dos").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (tree / "empty").write_bytes(b"")
    assert await said(box, "read_file", path="latin") == "caf�\n[not all of it is UTF-8: � stands for other bytes]"
    assert await said(box, "read_file", path="dos") == "one\ntwo\n[line ends are CRLF]"
    assert await said(box, "read_file", path="empty") == "[the file is empty]"


async def test_a_binary_file_is_recognised(box: Toolbox) -> None:
    assert "binary" in await refused(box, "read_file", path="picture.bin")


async def test_several_files_are_read_at_once_and_one_failure_stops_nothing(box: Toolbox) -> None:
    text = await said(box, "read_files", paths=["README.md", "missing", "src/deep/util.py"])
    assert "==> README.md <==\n# A project" in text
    assert "missing does not exist" in text
    assert "==> src/deep/util.py <==\nimport main" in text


async def test_several_files_share_the_room_of_one_result(tree: Path) -> None:
    for number in range(10):
        (tree / f"f{number}").write_text("word\n" * 5_000)
    text = await said(files(tree, max_chars=10_000), "read_files", paths=[f"f{number}" for number in range(10)])
    assert len(text) < 11_000
    assert text.count("go on with start=") == 10


async def test_a_picture_is_told_by_its_bytes_not_its_name(box: Toolbox) -> None:
    reply = await box.call("read_media", {"path": "picture.bin"})
    assert reply.content == [{"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}]


async def test_sounds_and_other_binary_files_are_sent_as_what_they_are(box: Toolbox, tree: Path) -> None:
    (tree / "s.wav").write_bytes(b"RIFF\0\0\0\0WAVEfmt ")
    (tree / "odd.aac").write_bytes(b"\0\1\2")
    (tree / "doc.pdf").write_bytes(b"%PDF-1.7\n\0\xff")
    kinds = {}
    for name in ("s.wav", "odd.aac", "doc.pdf"):
        block = (await box.call("read_media", {"path": name})).content[0]
        kinds[name] = (block["type"], block.get("mimeType") or block["resource"]["mimeType"])
    assert kinds["s.wav"] == ("audio", "audio/wav")
    assert kinds["odd.aac"][0] == "audio"
    assert kinds["doc.pdf"] == ("resource", "application/pdf")


async def test_media_are_bounded_and_text_is_sent_back_to_read_file(box: Toolbox, tree: Path) -> None:
    (tree / "big.png").write_bytes(PNG + bytes(10_000_000))
    (tree / "big.dat").write_bytes(bytes(1_000_001))
    assert "10 MB" in await refused(box, "read_media", path="big.png")
    assert "1.0 MB" in await refused(box, "read_media", path="big.dat")
    assert "read_file" in await refused(box, "read_media", path="README.md")


async def test_info_tells_what_stat_tells(box: Toolbox, tree: Path) -> None:
    (tree / "README.md").chmod(0o640)
    os.utime(tree / "README.md", (0, 1_000_000_000))
    facts = dict(line.split(": ", 1) for line in (await said(box, "info", path="README.md")).splitlines())
    assert facts["kind"] == "file"
    assert facts["size"] == "12 bytes"
    assert facts["permissions"] == "rw-r----- (0640)"
    assert facts["modified"] == "2001-09-09 01:46:40 UTC"


async def test_info_of_the_root_says_what_is_allowed(tree: Path) -> None:
    assert "these tools: read and write" in await said(files(tree), "info")
    assert "these tools: read only" in await said(files(tree, read_only=True), "info")


async def test_a_large_folder_is_listed_in_part_and_said_to_be(box: Toolbox, tree: Path) -> None:
    for number in range(1_005):
        (tree / "src" / f"{number:04}.txt").touch()
    lines = (await said(box, "list_directory", path="src")).splitlines()
    assert len(lines) == 1_001
    assert "the first 1,000 are shown" in lines[-1]
    assert "1,000 of 1,005 are shown" in await said(box, "glob", pattern="*.txt")


async def test_no_result_is_longer_than_the_box_allows(tree: Path) -> None:
    for number in range(300):
        (tree / f"{number:03}{'x' * 200}").write_text("needle\n" * 20)
    box = files(tree, max_chars=5_000)
    calls: dict[str, dict[str, Any]] = {
        "list_directory": {},
        "tree": {},
        "glob": {"pattern": "*"},
        "grep": {"pattern": "needle"},
        "read_files": {"paths": [f"{number:03}{'x' * 200}" for number in range(10)]},
    }
    for tool, arguments in calls.items():
        assert len(await said(box, tool, **arguments)) < 6_000
    for show in ("files", "count"):
        assert len(await said(box, "grep", pattern="needle", show=show)) < 6_000


async def test_a_missing_path_suggests_the_nearest_one(box: Toolbox) -> None:
    assert "did you mean 'main.py'" in await refused(box, "read_file", path="src/mian.py")
    assert "README.md, picture.bin, src" in await refused(box, "read_file", path="zzz/y/x")


async def test_a_path_below_the_root_may_be_written_in_full(box: Toolbox, tree: Path) -> None:
    assert await said(box, "read_file", path=str(tree / "README.md")) == "# A project"
    assert await said(box, "read_file", path="./src/../README.md") == "# A project"
