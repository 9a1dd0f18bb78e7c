"""Foreign text cannot steer a terminal, and numbers read as people write them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings, strategies as st

from toolkit._base.words import (
    count_text,
    did_you_mean,
    duration_text,
    hidden_in,
    read_size,
    safe_line,
    safe_name,
    safe_text,
    size_text,
)

# Lone surrogates stand for the bytes of a file name that is not UTF-8.
ANY_TEXT = st.text(st.characters(), max_size=200)


@settings(deadline=None)
@given(ANY_TEXT | st.binary(max_size=200))
@example("")
@example("a\nb")
@example("\x1b[2J")
@example("\u202egpj.exe")
@example("no\u00a0break")
@example("a\u2028b")
@example(b"\xff\xfe")
def test_a_safe_name_is_one_printable_line_of_bounded_length(name: str | bytes) -> None:
    safe = safe_name(name)
    assert safe.isprintable()
    assert 0 < len(safe) <= 122


SEEN = st.characters(exclude_categories=["C", "Z"], exclude_characters='\\"`<>').filter(lambda one: not hidden_in(one))
"""Characters that people see, and that quote nothing."""


@settings(deadline=None)
@given(st.text(SEEN, min_size=1, max_size=120))
def test_a_harmless_name_is_left_as_it_is(name: str) -> None:
    assert safe_name(name) == name


def test_a_name_that_could_be_taken_for_more_than_a_name_stands_in_quotes() -> None:
    assert safe_name("two words") == '"two words"'
    assert safe_name("") == '""'
    assert safe_name('a"b') == '"a\\"b"'
    assert safe_name(b"caf\xe9") == '"caf\\xe9"'


@settings(deadline=None)
@given(ANY_TEXT, st.integers(1, 60))
def test_a_safe_line_is_printable_and_no_wider_than_asked(text: str, width: int) -> None:
    line = safe_line(text, width)
    assert line.isprintable()
    assert len(line) <= width


@settings(deadline=None)
@given(ANY_TEXT)
def test_a_safe_text_keeps_its_line_breaks_and_nothing_else_that_moves_the_cursor(text: str) -> None:
    safe = safe_text(text)
    assert safe.count("\n") == text.count("\n")
    assert all(char.isprintable() or char in "\n\t" for char in safe)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1536, "1.5 kB"),
        (9_949, "9.9 kB"),
        (9_951, "10 kB"),
        (999_600, "1.0 MB"),
    ],
)
def test_a_size_is_told_in_powers_of_a_thousand(size: int, words: str) -> None:
    assert size_text(size) == words


@settings(deadline=None)
@given(st.integers(0, 10**17))
def test_a_size_never_needs_more_than_three_digits(size: int) -> None:
    number = size_text(size).split()[0]
    assert len(number.replace(".", "")) <= 3
    assert float(number) < 1000


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (340.4, "340 ms"),
        (999.7, "1.0 s"),
        (2_100, "2.1 s"),
        (59_940, "59.9 s"),
        (59_960, "1 m 0 s"),
        (200_000, "3 m 20 s"),
    ],
)
def test_a_duration_is_told_as_people_say_it(ms: float, words: str) -> None:
    assert duration_text(ms) == words


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "file", "1 file"),
        (0, "file", "0 files"),
        (2000, "file", "2,000 files"),
        (3, "entry", "3 entries"),
        (2, "day", "2 days"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, noun: str, words: str) -> None:
    assert count_text(count, noun) == words


def test_an_unknown_name_is_answered_with_the_nearest_one_or_with_all() -> None:
    assert did_you_mean("serach", ["search", "write"]) == "; did you mean 'search'?"
    assert did_you_mean("claude.md", [".claude", "CLAUDE.md"]) == "; did you mean 'CLAUDE.md'?"
    assert did_you_mean("zzz", ["search", "write"]) == "; there are: search, write"
    assert did_you_mean("zzz", []) == "; there are none"


def test_a_size_is_read_as_people_write_it_also_as_our_own_help_does() -> None:
    written = {"5000": 5000, "5_000": 5000, "5MB": 5_000_000, "1.5GB": 1_500_000_000, "4GiB": 4 << 30, "1 kib": 1024}
    assert {text: read_size(text) for text in written} == written
    assert [read_size(text) for text in ("", "MiB", "4 GiBs", "1ib", "i", "-")] == [None] * 6
