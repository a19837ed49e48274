"""Ids a second in one process, beside snowflake generators from PyPI that are installed.

MINTLEAF_URL=http://127.0.0.1:8080 python benchmarks/ids.py     (pip install snowflake-id cyksuid)
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
import time

import mintleaf

URL = os.environ.get("MINTLEAF_URL", "http://127.0.0.1:8080")
SECONDS = 3.0
BATCH = 100_000


def rate(take, ids: int = 1) -> float:
    """Millions of ids a second; the best of a few seconds, because other processes take turns."""
    end, best = time.perf_counter() + SECONDS, 0.0
    turns = range(max(BATCH // ids, 1))
    while time.perf_counter() < end:
        began = time.perf_counter()
        for _ in turns:
            take()
        best = max(best, len(turns) * ids / (time.perf_counter() - began))
    return best / 1e6


def threads_rate(take, count: int) -> float:
    began = time.perf_counter()
    threads = [threading.Thread(target=lambda: [take() for _ in range(10 * BATCH)]) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count * 10 * BATCH / (time.perf_counter() - began) / 1e6


async def async_rate(client: mintleaf.AsyncClient) -> float:
    next_id, end, best = client.next_id, time.perf_counter() + SECONDS, 0.0
    while time.perf_counter() < end:
        began = time.perf_counter()
        for _ in range(BATCH):
            await next_id("bench-async")
        best = max(best, BATCH / (time.perf_counter() - began))
    return best / 1e6


async def with_async_client() -> None:
    async with mintleaf.AsyncClient([URL]) as client:
        show("AsyncClient.next_id", await async_rate(client))


def show(name: str, millions: float) -> None:
    print(f"{name:42} {millions:8.2f} M ids/s")


def others() -> None:
    try:
        from snowflake import SnowflakeGenerator  # snowflake-id

        generator = SnowflakeGenerator(1)
        show("snowflake-id (None where it is too fast)", rate(generator.__next__))
    except ImportError:
        print("SKIPPED: pip install snowflake-id")
    try:
        import uuid_utils

        show("uuid-utils uuid7 (128 bits, Rust)", rate(uuid_utils.uuid7))
    except ImportError:
        print("SKIPPED: pip install uuid-utils")


def main() -> None:
    print(platform.python_implementation(), platform.python_version())
    with mintleaf.Client([URL]) as client:
        show("Client.next_id", rate(lambda take=client.next_id: take("bench")))
        next_id = client.next_id
        show("Client.next_id, 1 thread", threads_rate(lambda: next_id("bench-t"), 1))
        show("Client.next_id, 2 threads", threads_rate(lambda: next_id("bench-t"), 2))
        show("Client.next_ids of 10,000", rate(lambda: client.next_ids("bench-many", 10_000), 10_000))
        show("Client.next_snowflake", rate(client.next_snowflake))
    asyncio.run(with_async_client())
    others()


if __name__ == "__main__":
    main()
