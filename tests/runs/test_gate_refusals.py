"""What the gate refuses is told: an event, a line while it happens, and a line with the way to allow it at the end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli._running import Desk
from toolkit.runs import Event, RefusedRequest, run
from toolkit.runs.outcome import result_of
from toolkit.runs.turn.refusals import MOST_TOLD, GateRefusals
from toolkit.sandbox import Refusal
from toolkit.testing import ScriptedAPI, text, tool_use

# The nested proxy of Bash leads to the gate.
COMMAND = """
for n in 1 2 3; do curl -s -m 10 -o out https://files.example.org/; done
curl -s -m 10 -o out http://docs.example.com/
curl -s -m 10 --noproxy '*' -o out http://localhost:3128/v1/messages -H 'content-type: application/json' -d '{}'
true
"""


def refusal(request: str, code: str = "domain") -> Refusal:
    return Refusal(time.time(), code, 403, request, "no")


@pytest.mark.parametrize("target", ["files.example.org", "files.example.org:22", "files.example.org:"])
def test_a_tunnel_to_another_port_or_to_none_is_told_as_that(target: str) -> None:
    assert refusal(f"CONNECT {target}").fix == "This cannot be allowed: tunnels lead to port 443 of a host only"


def test_a_refusal_a_person_reads_about_says_what_to_write(tmp_path: Path) -> None:
    with ScriptedAPI([tool_use("Bash", command=COMMAND)], [text("done")]) as api:
        desk = Desk(tmp_path, api)
        done = desk.toolkit("run", "go", "--allow-domain", "docs.example.com")
        shown = desk.toolkit("runs", "show", "last").out
        told = desk.toolkit("runs", "events", "last").out
        stored = json.loads(desk.toolkit("runs", "show", "last", "--json").out)["result"]["refused"]

    assert done.code == 0, done.err
    refused = "refused by the gate: CONNECT files.example.org:443: files.example.org is not an allowed domain"
    allow = (
        '  To allow it: --allow-domain files.example.org, in Python profile="allowlist", domains=["files.example.org"]'
    )
    assert done.err.count(f"{refused}\n") == 1  # while it happened, once
    for page in (done.err, shown):
        assert f"{refused} (3 times)\n{allow}\n" in page
        assert "refused by the gate: GET http://docs.example.com/: " in page
        assert "refused by the gate: POST /v1/messages: the model API is not reached from here" in page
    assert told.count(refused) == 1
    assert [(one["rule"], one["times"]) for one in stored] == [("domain", 3), ("method", 1), ("no_api", 1)]


def test_an_offline_agents_way_to_a_host_ends_at_the_gate_and_both_are_told(tmp_path: Path) -> None:
    tries = (
        "curl -s -m 10 -o out https://files.example.org/; curl -sS -m 10 --proxy $FTP_PROXY https://a.example.org 2>&1",
        "python3 -c 'import urllib.request as u; u.urlopen(\"https://docs.example.com/\", timeout=10)' 2>&1; env",
    )
    with ScriptedAPI(*([tool_use("Bash", command=command)] for command in tries), [text("done")]) as api:
        desk = Desk(tmp_path, api)
        done = desk.toolkit("run", "go")
        stored = json.loads(desk.toolkit("runs", "show", "last", "--json").out)["result"]

    assert done.code == 0, done.err
    offline = "CONNECT is not allowed: the agent is offline"
    for host in ("files.example.org", "docs.example.com"):
        assert f"refused by the gate: CONNECT {host}:443: {offline}\n" in done.err
        assert f"  To allow it: --allow-domain {host}, in Python" in done.err
    assert [one["rule"] for one in stored["refused"]] == ["method", "socks", "method"]
    printed = str(api.requests[-1]["messages"])
    assert f"403 Forbidden ({offline})" in printed
    assert "HTTPS_PROXY=http://localhost:3128" in printed  # with no word in it that would open more


def test_what_is_repeated_is_counted_and_ever_new_requests_are_bounded() -> None:
    told: list[dict[str, Any]] = []
    refusals = GateRefusals(lambda **data: told.append(data))
    refusals.take(refusal("CONNECT early:443"))
    assert told == []  # there is no turn yet for it to belong to

    refusals.begin()
    for number in range(MOST_TOLD + 20):
        for _ in range(2):
            refusals.take(refusal(f"CONNECT host{number}:443"))
    refusals.end()

    assert [data["what"] for data in told[:2]] == ["CONNECT early:443", "CONNECT host0:443"]
    assert len(told) <= 2 * MOST_TOLD + 2
    latest = {data["what"]: data["times"] for data in told}
    assert (latest["CONNECT early:443"], latest["CONNECT host0:443"], latest["further requests"]) == (1, 2, 42)
    assert sum(latest.values()) == 1 + 2 * (MOST_TOLD + 20)

    told.clear()
    refusals.begin()
    refusals.take(refusal("CONNECT early:443"))
    assert [data["times"] for data in told] == [1]  # a new turn counts anew


def test_a_result_has_each_refusal_once_with_the_sum_of_its_turns() -> None:
    facts = {"what": "CONNECT a.com:443", "rule": "domain", "why": "no", "fix": "allow it"}
    end = {"code": "ok", "ms": 1, "cost": 0.0, "total": {}, "unattributed": {}}
    events = [
        Event("gate", "refused", 1.0, "r", "r", None, {**facts, "times": 1}),
        Event("gate", "refused", 2.0, "r", "r", None, {**facts, "times": 4}),
        Event("lifecycle", "finished", 3.0, "r", "r", None, end),
        Event("gate", "refused", 4.0, "r", "r", None, {**facts, "times": 2}),
        Event("lifecycle", "finished", 5.0, "r", "r", None, end),
    ]
    result = result_of("r", events)
    assert result.refused == (RefusedRequest(**facts, times=6),)
    assert type(result).from_data(json.loads(json.dumps(result.to_data()))).refused == result.refused


@pytest.mark.parametrize(
    ("request_line", "code", "fix"),
    [
        ("CONNECT a.example.org:443", "domain", "--allow-domain a.example.org,"),
        ("CONNECT a.example.org:443", "method", "--allow-domain a.example.org,"),
        ("CONNECT a.example.org:80", "domain", "port 443"),
        ("CONNECT 10.0.0.1:443", "domain", "is an address"),
        ("CONNECT localhost:443", "domain", "not a public name"),
        ("GET http://a.example.org/", "method", "over https only"),
        ("POST /v1/messages", "server_side", "cannot be allowed"),
        ("POST /v1/messages", "spend", "--max-tokens"),
        ("", "malformed", "cannot be allowed"),
    ],
)
def test_the_way_to_allow_a_refusal_is_one_that_works(request_line: str, code: str, fix: str) -> None:
    assert fix in refusal(request_line, code).fix


async def test_a_plan_is_made_without_a_false_alarm_of_the_gate() -> None:
    with ScriptedAPI([text("I would do this.")]) as api:
        result = await run("Plan it.", api_url=api.url, api_key="k", mode="plan")
    assert (result.code, result.refused) == ("ok", ())
