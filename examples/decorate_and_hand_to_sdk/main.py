"""Hand the tools to the Claude Agent SDK and ask something that needs them."""

import asyncio
import sys

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, TextBlock, query
from notes import box

options = ClaudeAgentOptions(
    mcp_servers={box.name: box.in_process()},
    allowed_tools=box.allowed_tools,
    tools=[],
    setting_sources=[],
)


async def main(prompt: str) -> None:
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, TextBlock):
                    print(block.text)


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1] if len(sys.argv) > 1 else "Keep a note about milk, tagged shopping. What is there to buy?")
    )
