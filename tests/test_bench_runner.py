"""The bench runner says no when a bound is broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench import __main__ as runner
from tests.bench._common import Row, interleave


def test_a_ratio_over_its_bound_is_named_and_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.run_bench("x", lambda: [Row("quick", 1, 4, 0.3)])
    assert not runner.run_bench("x", lambda: [Row("slow", 2, 4, 0.3), Row("quick", 1, 4, 0.3)])
    quick, slow, _ = capsys.readouterr().out.splitlines()
    assert quick.split()[-4:] == ["0.25x", "≤", "0.3x", "ok"]
    assert slow.split()[-4:] == ["0.50x", "≤", "0.3x", "OVER"]


def test_an_absolute_bound_needs_no_other_side() -> None:
    assert Row("growth", 4.9, None, 5, "MB").ok
    assert not Row("growth", 5.1, None, 5, "MB").ok


def test_a_bench_that_raises_or_measures_nothing_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Iterator[Row]:
        yield Row("quick", 1, 4, 0.3)
        raise RuntimeError("no server")

    assert not runner.run_bench("broken", broken)
    assert not runner.run_bench("empty", list)
    assert "bench broken failed" in capsys.readouterr().out


def test_an_unknown_bench_is_a_usage_error_that_lists_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["no-such-bench"]) == 2
    assert "no bench called no-such-bench" in capsys.readouterr().err


def test_both_sides_are_timed_alternately_after_the_warmup() -> None:
    order: list[str] = []
    pair = interleave(lambda: order.append("o"), lambda: order.append("t"), rounds=2, warmup=1)
    assert (len(pair.ours), len(pair.theirs)) == (2, 2)
    assert sorted(order[2:4]) == ["o", "t"]
    assert order[2:4] == order[4:6][::-1]
