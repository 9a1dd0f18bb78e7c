"""Why a run ended as it did: one safe line beside the fixed sentence, in every place that tells of the end."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.errors import RunError
from toolkit.runs import InPlace, RunFailedError, load_run, run, run_many, start
from toolkit.runs.outcome import detail_lines, result_of
from toolkit.testing import FakeCLI, ScriptedAPI, Status, Turn, text

MISTYPED = (
    "There's an issue with the selected model (claude-mistyped). It may not exist or you may not have access to it."
)


async def test_the_cause_of_an_api_error_is_in_the_result_the_event_the_file_and_the_exception() -> None:
    async with start("go", transport=FakeCLI(Status(400, message="tools.0: too odd")), run_id="run-c") as live:
        result = await live.result()
    assert result.code == "api_error"
    assert result.cause is not None
    assert "tools.0: too odd" in result.cause
    assert "too odd" not in result.message
    events = [event async for event in live]
    assert events[-1].data["cause"] == result.cause
    assert load_run("run-c").result().cause == result_of("run-c", events).cause == result.cause
    with pytest.raises(RunFailedError, match="too odd"):
        result.raise_for_status()


async def test_what_the_gate_refused_is_not_blamed_on_the_credentials() -> None:
    with ScriptedAPI(Status(403, message="refused by the sandbox gate: the field 'odd' is not known")) as api:
        real = await run("go", api_url=api.url, api_key="none")
    fake = await run("go", transport=FakeCLI(Status(403, message="refused by the sandbox gate: no")))
    assert (real.code, fake.code) == ("api_error", "api_error")
    assert "the field 'odd' is not known" in (real.cause or "")


async def test_a_run_that_is_ok_has_no_cause() -> None:
    assert (await run("go", transport=FakeCLI([text("done")]))).cause is None


@pytest.mark.parametrize(
    ("raw", "left_out"),
    [
        ("\x1b[2J\x1b]0;owned\x07 it broke", ["\x1b", "\x07"]),
        ("it broke with sk-ant-api03-secretsecret", ["sk-ant-api03-secretsecret", "secretsecret"]),
        ("it broke: Authorization: Bearer abc.def.ghi", ["abc.def.ghi"]),
        ("it broke: connect ECONNREFUSED 127.0.0.1:40213", ["127.0.0.1", "40213"]),
        ("it broke at http://localhost:8123/v1/messages", ["localhost", "8123"]),
        ("it broke: [::1]:8080 is closed", ["::1", "8080"]),
        ("it broke\nover\r\nlines\u2028and more", ["\n", "\r", "\u2028"]),
        ("it broke " + "x" * 5000, ["x" * 400]),
    ],
)
async def test_a_cause_is_one_line_without_codes_keys_or_addresses(raw: str, left_out: list[str]) -> None:
    result = await run("go", transport=FakeCLI(Status(400, message=raw)))
    assert result.cause is not None
    assert "it broke" in result.cause
    assert not any(bad in result.cause for bad in left_out)
    assert raw.strip()[-20:] in result.debug["result"]
    if len(raw) < 400:
        assert not any(bad in line for line in detail_lines(result.debug) for bad in left_out)


async def test_a_refusal_before_the_start_is_the_cause_in_a_stored_run_and_among_many() -> None:
    with pytest.raises(RunError):
        await run("go", transport=FakeCLI(), workspace=InPlace("/proc/nowhere/at-all"), run_id="run-r")
    stored = load_run("run-r").result()
    assert stored.code == "bad_request"
    assert "/proc/nowhere/at-all" in str(stored.cause)
    [among] = await run_many([""])
    assert (among.code, among.cause and "the prompt is empty" in among.cause) == ("bad_request", True)


async def test_a_prompt_hook_that_raises_is_told() -> None:
    def before(spec: Any) -> str:
        raise ValueError("no such template")

    result = await run("go", transport=FakeCLI(), before_run=before)
    assert (result.code, result.cause) == ("internal", "before_run failed: ValueError: no such template")


async def test_output_of_another_form_is_told() -> None:
    cli = FakeCLI([text("no")], [text("no")], strict=False)
    result = await run("go", transport=cli, output=int)
    assert (result.code, result.cause) == ("bad_output", "the model called no StructuredOutput")


async def test_a_mistyped_model_is_named_by_the_real_cli() -> None:
    with ScriptedAPI(Status(404)) as api:
        result = await run("go", api_url=api.url, api_key="none", model="claude-mistyped")
    assert (result.code, result.cause, result.stop) == ("api_error", MISTYPED, None)
    assert result.debug["stderr"]


async def test_a_crash_in_a_turn_tells_what_the_process_said() -> None:
    cli = FakeCLI(Turn([text("half"), text("never")], chunk=100), dies_after=8, exit_code=-9)
    result = await run("go", transport=cli)
    assert result.code == "crashed"
    assert "exit code" in str(result.cause)


async def test_what_the_real_cli_says_of_a_schema_that_only_it_can_judge_is_kept() -> None:
    with ScriptedAPI(otherwise=[text("never")]) as api:
        schema = {"type": "object", "$id": "https://x.example/y", "properties": {"a": {"$ref": "absent"}}}
        result = await run("go", api_url=api.url, api_key="none", output=schema)
    assert (result.code, result.cost) == ("crashed", 0.0)
    assert "schema" in result.debug["stderr"]
    assert "schema" in str(result.cause)
    assert "Check stderr" not in str(result.cause)
