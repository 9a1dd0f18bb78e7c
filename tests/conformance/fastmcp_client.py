"""fastmcp's client, run in an environment of its own: `python fastmcp_client.py URL` prints what it was told, as JSON."""

from __future__ import annotations

import asyncio
import json
import sys


async def main(url: str) -> None:
    from fastmcp import Client  # type: ignore[import-not-found]

    async def answer(message, response_type, params, context):  # type: ignore[no-untyped-def]
        return {"name": "Ada"} if response_type is None else response_type(name="Ada")

    async with Client(url, elicitation_handler=answer) as client:
        told = {
            "tools": len(await client.list_tools()),
            "text": (await client.call_tool("test_simple_text", {})).content[0].text,
            "resource": (await client.read_resource("test://template/7/data"))[0].text,
            "prompt": (await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}))
            .messages[0]
            .content.text,
            "asked": (await client.call_tool("test_input_required_result_elicitation", {})).content[0].text,
        }
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
