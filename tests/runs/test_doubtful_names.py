"""Names that the model API refuses: at the top of an output before anything starts, further inside with a warning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from toolkit import Toolbox, tool
from toolkit.runs import OptionError, RunSpec, load_run, run
from toolkit.testing import FakeCLI, text, tool_use


@dataclass
class Size:
    größe: int


@dataclass
class Order:
    size: Size


@tool
def order(size: Size) -> str:
    """Order one."""
    return str(size)


@pytest.mark.parametrize("output", [Size, {"type": "object", "properties": {"größe": {"type": "integer"}}}], ids=str)
def test_an_output_that_the_model_api_would_refuse_is_refused_before(output: Any) -> None:
    with pytest.raises(OptionError, match="takes no field called 'größe'") as caught:
        RunSpec("go", output=output)
    assert caught.value.option == "output"


async def test_a_run_warns_of_odd_names_further_inside_its_tools_and_its_output() -> None:
    cli = FakeCLI([tool_use("StructuredOutput", size={"größe": 1})])
    result = await run("go", tools=[Toolbox("shop", [order])], output=Order, transport=cli)
    assert result.output == Order(Size(1))
    told = [event.data["what"] for event in load_run(result.run).events() if event.name == "lifecycle.warning"]
    assert [one.partition(":")[0] for one in told] == ["tool 'order'", "output"]
    assert all("the field 'größe' in size has a name that the model API may not take" in one for one in told)
    assert all("\n" not in one and "Give it a name" in one for one in told)


async def test_a_list_of_odd_names_is_cut_short() -> None:
    inner = {"type": "object", "properties": {f"n {number}": {"type": "string"} for number in range(30)}}
    output = {"type": "object", "properties": {"inner": inner}}
    result = await run("go", output=output, transport=FakeCLI([text("no"), tool_use("StructuredOutput", inner={})]))
    told = [event.data["what"] for event in load_run(result.run).events() if event.name == "lifecycle.warning"]
    assert (len(told), told[-1]) == (11, "20 more names of that kind")


async def test_usual_names_are_no_warning() -> None:
    result = await run("go", tools=[Toolbox("shop", [tool(say_size)])], transport=FakeCLI([text("done")]))
    assert not [event for event in load_run(result.run).events() if event.name == "lifecycle.warning"]


def say_size(size: int) -> str:
    """Say a size."""
    return str(size)
