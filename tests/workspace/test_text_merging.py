"""Merging and line comparison, with git as the judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from toolkit_workspace.applying.merge import mark_differences, merge
from toolkit_workspace.changes.lines import matching_blocks, split_lines

BASE = b"".join(b"line %d\n" % n for n in range(12))


def edited(**replaced: bytes) -> bytes:
    lines = split_lines(BASE)
    for number, text in replaced.items():
        lines[int(number[1:])] = text
    return b"".join(lines)


def test_changes_in_different_places_are_both_taken() -> None:
    merged = merge(BASE, edited(n1=b"host\n"), edited(n9=b"agent\nagent too\n"))
    assert merged.conflicts == 0
    assert merged.data == edited(n1=b"host\n", n9=b"agent\nagent too\n")


def test_the_same_change_on_both_sides_is_taken_once() -> None:
    both = edited(n4=b"")
    assert merge(BASE, both, both).data == both


def test_different_changes_of_one_line_are_marked_with_both_sides() -> None:
    merged = merge(BASE, edited(n4=b"host\n"), edited(n4=b"agent\n"))
    assert merged.conflicts == 1
    assert b"<<<<<<< host\nhost\n=======\nagent\n>>>>>>> workspace\n" in merged.data


def test_changes_of_neighbouring_lines_are_a_conflict() -> None:
    assert merge(BASE, edited(n4=b"host\n"), edited(n5=b"agent\n")).conflicts == 1


def test_a_marker_starts_a_line_also_where_the_last_newline_is_missing() -> None:
    merged = merge(b"a\nb", b"a\nhost", b"a\nagent")
    assert merged.data == b"a\n<<<<<<< host\nhost\n=======\nagent\n>>>>>>> workspace\n"


def test_without_a_base_every_difference_is_marked() -> None:
    merged = mark_differences(b"same\nhost\nend\n", b"same\nagent\nend\n")
    assert merged.data == b"same\n<<<<<<< host\nhost\n=======\nagent\n>>>>>>> workspace\nend\n"


few_lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d"]), max_size=12)


@given(left=few_lines, right=few_lines)
@settings(max_examples=300, deadline=None)
def test_matching_blocks_are_equal_lines_in_order(left: list[bytes], right: list[bytes]) -> None:
    i = j = 0
    for at_left, at_right, length in matching_blocks(left, right):
        assert at_left >= i
        assert at_right >= j
        assert left[at_left : at_left + length] == right[at_right : at_right + length]
        i, j = at_left + length, at_right + length
    assert (i, j) == (len(left), len(right))


def test_a_large_file_of_repeated_lines_is_compared_without_hanging() -> None:
    left = [b"same\n", b"\n"] * 20_000
    right = [b"\n", b"other\n"] * 20_000
    assert matching_blocks(left, right)[-1] == (40_000, 40_000, 0)


edits = st.dictionaries(st.integers(0, 19), st.sampled_from(["delete", "change", "insert"]), max_size=5)


def apply_edits(lines: list[bytes], chosen: dict[int, str], who: bytes) -> bytes:
    out = []
    for number, line in enumerate(lines):
        match chosen.get(number):
            case "delete":
                continue
            case "change":
                out.append(b"%s changed %d\n" % (who, number))
            case "insert":
                out += [b"%s added %d\n" % (who, number), line]
            case _:
                out.append(line)
    return b"".join(out)


@given(ours=edits, theirs=edits)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_merges_the_same_texts_to_the_same_result(
    tmp_path: Path, ours: dict[int, str], theirs: dict[int, str]
) -> None:
    lines = [b"line %d\n" % n for n in range(20)]
    base, host, agent = b"".join(lines), apply_edits(lines, ours, b"host"), apply_edits(lines, theirs, b"agent")
    for name, data in (("base", base), ("host", host), ("agent", agent)):
        (tmp_path / name).write_bytes(data)
    judge = subprocess.run(
        ["git", "merge-file", "-p", "host", "base", "agent"], cwd=tmp_path, capture_output=True, timeout=30, check=False
    )

    merged = merge(base, host, agent)

    assert (merged.conflicts == 0) == (judge.returncode == 0)
    if judge.returncode == 0:
        assert merged.data == judge.stdout
