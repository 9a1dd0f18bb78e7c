"""The mutation bench finds its modules, changes what decides something, and believes only real test results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench._mutating import mutants_of
from tests.bench.mutants import EXPLAINED, ROOMS, ROOT, Kept, Room, Tried, chosen

SOURCE = b'''"""Says nothing that is 1."""

from typing import Literal

Kind = Literal["a", "b"]
NAMES = frozenset({"host"})


def most(count: int, limit: int = 7, *, strict: bool = False) -> str | None:
    """Not 5."""
    if count < 0:
        raise ValueError(f"less than {0}")
    if strict and count not in (limit, 9):
        return None
    return "few" if not strict else "many"
'''


def test_what_decides_something_is_changed_and_what_only_speaks_is_not() -> None:
    changed = {str(mutant) for mutant in mutants_of(SOURCE)}
    for expected in (
        "count < 0 → (count <= 0)",
        "count < 0 → (not count < 0)",
        "0 → 1",
        "7 → 8",
        "7 → 6",
        "False → True",
        "\"host\" → 'hostx'",
        'raise ValueError(f"less than {0}") → pass',
        "count not in (limit, 9) → (count in (limit, 9))",
        "strict and count not in (limit, 9) → (strict or count not in (limit, 9))",
        "if strict and count not in (limit, 9): return None → pass",
        "not strict → (strict)",
        'return "few" if not strict else "many" → return None',
    ):
        assert expected in changed
    assert not [one for one in changed if "Not 5" in one or "nothing" in one or "Literal" in one or '"a"' in one]


def test_a_mutant_changes_its_own_place_only() -> None:
    for mutant in mutants_of(SOURCE):
        before, after = SOURCE.splitlines(), mutant.text(SOURCE).splitlines()
        assert before[: mutant.line - 1] == after[: mutant.line - 1]
        assert before != after


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_its_module_and_its_tests(room: str) -> None:
    assert mutants_of(ROOMS[room].module().read_bytes())
    for test in (*ROOMS[room].nearest, ROOMS[room].tests):
        assert (ROOT / test).exists()


def test_a_module_that_was_moved_away_is_missed(tmp_path: Path) -> None:
    room = Room(".", "Policy", (), "tests")
    with pytest.raises(LookupError):
        room.module(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Policy: ...\n", encoding="utf-8")
    with pytest.raises(LookupError, match="2 modules"):
        room.module(tmp_path)


def test_the_sample_is_the_same_each_time_and_spread_over_the_rooms() -> None:
    picked = chosen(list(ROOMS), 80)
    assert picked == chosen(list(ROOMS), 80)
    assert len(picked) == 80
    assert {room for room, _, _ in picked} == set(ROOMS)


def test_what_was_noticed_is_remembered_until_the_source_changes_and_a_survivor_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.bench.mutants.ROOT", tmp_path)
    (tmp_path / "a.py").write_bytes(SOURCE)
    first, second, *_ = mutants_of(SOURCE)
    Kept(tmp_path / "kept").keep(Tried("policy", "a.py", first, "tests/test_a.py::test_it"))
    Kept(tmp_path / "kept").keep(Tried("policy", "a.py", second, ""))
    kept = Kept(tmp_path / "kept")
    assert kept.noticed_by("policy", Path("a.py"), first) == "tests/test_a.py::test_it"
    assert kept.noticed_by("policy", Path("a.py"), second) == ""
    assert kept.noticed_by("guard", Path("a.py"), first) == ""
    (tmp_path / "a.py").write_bytes(SOURCE + b"\n")
    assert kept.noticed_by("policy", Path("a.py"), first) == ""


def test_every_explanation_is_about_a_mutant_that_there_is() -> None:
    every = {(one.code, str(one)) for room in ROOMS.values() for one in mutants_of(room.module().read_bytes())}
    assert EXPLAINED.keys() - every == set()
