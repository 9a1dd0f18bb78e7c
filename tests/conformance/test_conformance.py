"""Both columns of the official MCP conformance suite are full."""

from __future__ import annotations

import pytest

from tests.conformance.suite import ERAS, KNOWN, Row, node, run_all
from tests.needs import needs

pytestmark = needs(node() is not None, "the conformance suite is not fetched: ./dev test does it")


@pytest.fixture(scope="module")
def results() -> dict[str, list[Row]]:
    return run_all()


@pytest.mark.parametrize("era", ERAS)
def test_every_scenario_passes_without_a_warning(results: dict[str, list[Row]], era: str) -> None:
    assert {row.scenario: row.problems for row in results[era] if not row.passed} == {}


@pytest.mark.parametrize(("era", "count"), [("2025-11-25", 33), ("2026-07-28", 40)])
def test_a_scenario_that_a_new_version_adds_is_named(results: dict[str, list[Row]], era: str, count: int) -> None:
    assert [row.scenario for row in results[era]] == KNOWN[era]
    assert len(KNOWN[era]) == count
