"""Print how every scenario of the official MCP conformance suite went: `./dev conformance`."""

from __future__ import annotations

import sys

from tests.conformance.suite import KNOWN, node, run_all


def main() -> int:
    """Run both eras; 1 where a scenario fails."""
    if node() is None:
        print("the suite is not there; npm fetches it: ./dev conformance", file=sys.stderr)
        return 1
    code = 0
    for era, rows in run_all().items():
        passed = sum(row.passed for row in rows)
        print(f"{era}: {passed} of {len(rows)} scenarios passed")
        for row in rows:
            new = "" if row.scenario in KNOWN[era] else "  (new in this version: add it to scenarios.json)"
            print(f"  {'ok  ' if row.passed else 'FAIL'} {row.scenario}{new}")
            for problem in row.problems:
                print(f"         {problem}")
            code |= not row.passed or bool(new)
    return code


if __name__ == "__main__":
    sys.exit(main())
