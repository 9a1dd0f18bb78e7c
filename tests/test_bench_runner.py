"""The bench runner says no when a bound is broken."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import __main__ as runner
from tests.bench._common import Pair, Row, end_of, first_missing, interleave, left_open, run_to_end


def test_a_ratio_over_its_bound_is_named_and_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.run_bench("x", lambda: [Row("quick", 1, 4, 0.3)])
    assert not runner.run_bench("x", lambda: [Row("slow", 2, 4, 0.3), Row("quick", 1, 4, 0.3)])
    quick, slow, _ = capsys.readouterr().out.splitlines()
    assert quick.split()[-5:] == ["0.25x", "-", "≤", "0.3x", "ok"]
    assert slow.split()[-5:] == ["0.50x", "-", "≤", "0.3x", "OVER"]


def test_a_median_over_its_bound_is_noise_where_the_spread_reaches_it(capsys: pytest.CaptureFixture[str]) -> None:
    noisy = Pair([1.0, 1.0, 4.0, 5.0, 6.0], [10.0] * 5).row("noisy", 0.3)
    assert (noisy.verdict, noisy.ok) == ("noise", True)
    slow = Pair([4.0, 4.0, 4.0, 5.0, 6.0], [10.0] * 5).row("slow", 0.3)
    assert (slow.verdict, slow.ok) == ("OVER", False)
    assert runner.run_bench("x", lambda: [noisy])
    assert "0.10–0.55" in capsys.readouterr().out


def test_a_contender_that_is_missing_is_named_and_its_row_left_open(capsys: pytest.CaptureFixture[str]) -> None:
    assert first_missing("python3", "no-such-program") == "no-such-program"
    assert runner.run_bench("x", lambda: [left_open("copy / rsync", 1.0, "rsync")])
    assert "open: rsync is not installed" in capsys.readouterr().out

    def starts_it() -> Iterator[Row]:
        yield Row("quick", 1, 4, 0.3)
        subprocess.run(["no-such-program"], check=True)

    assert runner.run_bench("x", starts_it)
    assert "bench x: no-such-program is not installed" in capsys.readouterr().out


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


def test_a_process_that_does_not_end_is_killed_and_named() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        end_of(subprocess.Popen(["sleep", "60"]), 0.05)


def test_a_command_that_fails_is_an_error_unless_its_code_is_an_answer(tmp_path: Path) -> None:
    run_to_end(["false"], cwd=tmp_path, env=os.environ, check=False)
    with pytest.raises(subprocess.CalledProcessError):
        run_to_end(["false"], cwd=tmp_path, env=os.environ)
