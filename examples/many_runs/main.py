"""The same question about many things, a few at a time, under one spend limit."""

import asyncio
import sys

from toolkit import Limits, RunSpec, run_many

TOPICS = ["locks", "queues", "clocks"]


async def main() -> None:
    specs = [RunSpec(f"Explain {topic} in one sentence.", limits=Limits(seconds=120)) for topic in TOPICS]
    results = await run_many(specs, concurrency=2, usd=1.0)
    for topic, result in zip(TOPICS, results, strict=True):
        print(f"{topic}: {result.code}: {result.text}")
    is_known = all(result.cost is not None for result in results)
    print(f"{'' if is_known else 'at least '}${sum(result.known_cost for result in results):.4f} in all")
    sys.exit(not all(result.ok for result in results))


if __name__ == "__main__":
    asyncio.run(main())
