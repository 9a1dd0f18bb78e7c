"""A run that asks before it changes anything, and takes the answers from anywhere."""

import asyncio

from toolkit import run


async def main() -> None:
    result = await run(
        "Write a haiku about locks into haiku.txt.",
        mode="normal",  # tools that may change things ask first
        approve="wait",  # the answer comes from elsewhere
        approval_timeout=600,
        run_id="haiku",
    )
    print(result.code, result.text)
    for denied in result.denied:
        print(f"refused: {denied.name}: {denied.reason}")


if __name__ == "__main__":
    asyncio.run(main())
