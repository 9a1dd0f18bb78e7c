"""Whatever is lost, cut off or doubled: every task is done once, the limit holds, and the API's rate is used.

The same with 100,000 runs on 500 machines: `./dev bench scale`.
"""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tests.scale.fleet import Faults, Figures, SimulatedFleet
from tests.scale.full import full_size
from tests.scale.model_api import TOKENS_A_CALL

MACHINES = 8
when = st.floats(1.0, 120.0)
faults = st.builds(
    Faults,
    lost=st.lists(st.tuples(when, st.integers(0, MACHINES - 1)), max_size=5).map(tuple),
    cuts=st.lists(
        st.tuples(when, st.floats(1.0, 150.0), st.integers(0, MACHINES - 1), st.integers(1, MACHINES)), max_size=3
    ).map(tuple),
    storms=st.lists(st.tuples(when, st.floats(1.0, 40.0), st.sampled_from([0.0, 0.3, 0.7])), max_size=2).map(tuple),
    lost_answers=st.sampled_from([0.0, 0.005, 0.02]),
    overtaken=st.sampled_from([0.0, 0.05, 0.3]),
    doubled_orders=st.sampled_from([0.0, 0.1, 0.5]),
    says_when=st.booleans(),
)


def check(figures: Figures) -> None:
    """What holds in every case."""
    assert figures.doubled == []
    assert figures.ok + figures.out_of_budget + figures.aside + figures.waiting == figures.tasks
    assert figures.most_over <= TOKENS_A_CALL
    assert figures.over <= (figures.out_of_budget + 1) * TOKENS_A_CALL


@given(faults, st.integers(0, 5))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_every_task_is_done_once_whatever_is_lost_or_cut_off(drawn: Faults, seed: int) -> None:
    figures = SimulatedFleet(seed=seed, runs=250, machines=MACHINES, places=4, per_second=6.0, faults=drawn).run(
        20_000.0
    )
    check(figures)
    assert figures.waiting == 0


@given(faults, st.integers(0, 5), st.floats(0.05, 0.9))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_a_limit_is_passed_by_one_call_a_run_at_most(drawn: Faults, seed: int, part: float) -> None:
    fleet = SimulatedFleet(
        seed=seed, runs=250, machines=MACHINES, places=4, per_second=6.0, limit=int(part * 750_000), faults=drawn
    )
    figures = fleet.run(20_000.0)
    check(figures)
    assert figures.waiting + figures.out_of_budget + figures.aside > 0


def test_a_fleet_with_faults_uses_nine_tenths_of_the_rate_and_machines_get_the_same() -> None:
    figures = full_size(runs=4000, machines=20, per_second=14.0).run()
    check(figures)
    assert figures.waiting == 0
    assert figures.utilisation >= 0.9, figures.lines()
    assert figures.fairness > 0.95
    assert figures.refused < figures.requests * 0.1
    assert figures.ended_at[5] < figures.ended_at[0] / 2


def test_the_same_seed_gives_the_same_figures() -> None:
    one, other = (full_size(runs=300, machines=5, per_second=4.0).run() for _ in range(2))
    assert one == other
