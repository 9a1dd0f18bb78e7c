"""Whatever call fails, however a process ends: every promise holds, but for those that are known not to yet."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase

import pytest

from tests.faults import OPERATIONS, operations
from tests.faults.known import KNOWN
from tests.faults.player import Played, Player, faults_of, playable, player
from tests.faults.preload import COMPILER, FAULTS, calls_in
from tests.needs import needs

pytestmark = needs(COMPILER, "there is no C compiler to build the preloaded library with")

POINTS = 2
"""How many points of each operation and fault are tried here; `./dev bench faults` tries all."""
Sampled = Callable[[str], list[Played]]
_PLAYABLE = playable()


def _each(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test for each of these operations that can be played here."""
    reason = "no overlay can be mounted where this is played"
    return pytest.mark.parametrize(
        "operation", [pytest.param(one, marks=needs(one in _PLAYABLE, reason)) for one in names]
    )


@pytest.fixture(scope="module")
def playing() -> Iterator[Player]:
    with player() as one:
        yield one


@pytest.fixture(scope="module")
def sampled(playing: Player) -> Sampled:
    """Some rounds of an operation, played when they are asked for first."""

    @functools.cache
    def rounds(operation: str) -> list[Played]:
        return [
            playing.play(operation, fault, point)
            for fault in faults_of(operation)
            for point in playing.sample(operation, fault, POINTS)
        ]

    return rounds


@_each(OPERATIONS)
def test_no_promise_is_broken_but_the_known_ones(operation: str, sampled: Sampled) -> None:
    unknown = [str(one) for one in sampled(operation) if one.breaks - KNOWN.keys()]
    assert unknown == []


def test_what_is_known_to_be_broken_still_is(playing: Player, sampled: Sampled) -> None:
    """Fails as soon as one is mended: then its line in known.py goes."""
    kept = [known for known in KNOWN if not _is_broken(known, playing, sampled)]
    assert kept == [], "these promises are kept now: remove them from tests/faults/known.py"


def _is_broken(known: tuple[str, str, str], playing: Player, sampled: Sampled) -> bool:
    operation, fault, _ = known
    if any(known in one.breaks for one in sampled(operation)):
        return True
    hint = KNOWN[known]
    points = sorted(playing.points(operation, fault), key=lambda point: not _suits(playing, operation, point, hint))
    return any(known in playing.play(operation, fault, point).breaks for point in points)


def _suits(playing: Player, operation: str, point: int, hint: str) -> bool:
    calls = playing.calls(operation)
    return point <= len(calls) and fnmatchcase(f"{calls[point - 1].name} {calls[point - 1].path}", hint)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_comes_to_the_call_it_was_meant_for(fault: str, playing: Player) -> None:
    point = playing.points("apply", fault)[-1]
    call = playing.calls("apply")[point - 1]
    played = playing.play("apply", fault, point)
    assert played.hit.startswith(f"call {point} {call.name} ")
    assert (played.end == "killed") == (fault == "kill")


def test_every_kind_of_call_is_counted(playing: Player) -> None:
    names = {call.name.removesuffix("64") for operation in operations.OPERATIONS for call in playing.calls(operation)}
    wanted = "open openat openat2 read pread write rename linkat unlinkat mkdir mkdirat rmdir fsync fchmod stat fstat"
    assert not {*wanted.split(), "fstatat", "lstat", "readdir", "flock", "symlinkat", "readlinkat"} - names


@_each(["overlay-again"])
def test_hiding_what_lies_below_is_counted(operation: str, playing: Player) -> None:
    assert "mknodat" in {call.name for call in playing.calls(operation)}


@_each(OPERATIONS)
def test_an_undisturbed_operation_breaks_nothing(operation: str, playing: Player) -> None:
    played = playing.play(operation, "EIO", len(playing.calls(operation)) + 1000)
    assert (played.hit, played.end, played.broken) == ("nothing", "done", ())


def test_a_trace_is_read_back_as_calls() -> None:
    (call,) = calls_in("cai\tfsync\t/a b\n")
    assert (call.name, call.path) == ("fsync", "/a b")
    assert [fault for fault in FAULTS if call.suits(fault)] == ["kill", "EIO", "ENOSPC", "EINTR"]


@pytest.mark.parametrize("fault", ["EIO", "EMFILE"])
def test_a_run_whose_folder_takes_no_socket_is_refused_in_words(fault: str, playing: Player) -> None:
    calls = enumerate(playing.calls("log"), 1)
    points = {number for number, call in calls if call.path.endswith(("/run-1", "/run.sock"))}
    tried = [playing.play("log", fault, point) for point in points.intersection(playing.points("log", fault))]
    assert tried
    assert [str(one) for one in tried if one.broken] == []


@_each(["overlay-first", "overlay-again", "overlay-whole"])
def test_a_kill_before_something_new_comes_into_its_place_breaks_nothing(operation: str, playing: Player) -> None:
    calls = playing.calls(operation)
    points = [point for point in playing.points(operation, "kill") if calls[point - 1].name.startswith("rename")]
    assert points
    assert [str(one) for point in points if (one := playing.play(operation, "kill", point)).broken] == []


@_each(["overlay-first", "overlay-again"])
def test_a_kept_copy_is_not_in_use_by_one_who_was_killed_before(operation: str, playing: Player) -> None:
    calls = playing.calls(operation)
    points = [point for point in playing.points(operation, "kill") if "/users/." in calls[point - 1].path]
    assert points
    assert [str(one) for point in points if (one := playing.play(operation, "kill", point)).broken] == []
