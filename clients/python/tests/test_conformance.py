"""Every case of clients/conformance/cases.json, with both faces.

MINTLEAF_CONFORMANCE names the server; MINTLEAF_CASES the file, if it is elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import mintleaf

BINARY = os.environ.get("MINTLEAF_CONFORMANCE")
CASES = Path(os.environ.get("MINTLEAF_CASES") or Path(__file__).resolve().parents[2] / "conformance" / "cases.json")
FIELDS = {
    *("do", "tag", "key", "count", "pool", "seconds", "as", "of", "ms", "times", "to", "call"),
    *("gives", "fails", "beside", "after_ms", "within_ms", "note"),
}
EPOCH_MS = 1_288_834_974_657
#: A call that has not ended after this long has hung.
HANGS_S = 60


class Face:
    """A client behind one face for both: every call is a coroutine, which runs on a thread for `Client`."""

    def __init__(self, settings: dict, is_async: bool) -> None:
        self.is_async = is_async
        self.first = settings["endpoints"][0].removeprefix("http://")
        self.client = mintleaf.AsyncClient(**settings) if is_async else mintleaf.Client(**settings)

    async def do(self, what, *arguments, **named):
        if self.is_async:
            return await what(*arguments, **named)
        loop, done = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def run() -> None:
            try:
                set_result, value = "set_result", what(*arguments, **named)
            except BaseException as error:
                set_result, value = "set_exception", error
            loop.call_soon_threadsafe(getattr(done, set_result), value)

        threading.Thread(target=run, daemon=True).start()
        return await done


class Player:
    """Plays the steps of one case."""

    def __init__(self, case: dict, face: Face, control: str) -> None:
        self.case, self.face, self.control = case, face, control
        self.seen: set = set()
        self.named: dict = {}
        self.generators: dict = {}
        self.last: dict = {}

    async def play(self) -> None:
        for step in self.case["steps"]:
            await asyncio.wait_for(self.step(step), HANGS_S)

    async def step(self, step: dict):
        unknown = set(step) - FIELDS
        assert not unknown, f"unknown fields {unknown} in {step}"
        began = time.monotonic()
        value = None
        try:
            if "beside" in step:
                await asyncio.gather(*(self.call(step) for _ in range(step["beside"])))
            else:
                for _ in range(1 if step["do"] == "generate" else step.get("times", 1)):
                    value = await self.call(step)
        finally:
            took = (time.monotonic() - began) * 1_000
        assert took >= step.get("after_ms", 0), f"{step} took {took:.0f} ms"
        assert took <= step.get("within_ms", 1e9), f"{step} took {took:.0f} ms"
        return value

    async def call(self, step: dict) -> None:
        fails = step.get("fails")
        try:
            value = await self.carry_out(step)
        except mintleaf.MintleafError as error:
            assert fails is not None, f"{step} failed: {error!r}"
            if "code" in fails:
                assert error.code == fails["code"], f"{step} failed with {error!r}"
            if "status" in fails:
                assert getattr(error, "status", None) == fails["status"], f"{step} failed with {error!r}"
            detail = fails.get("detail", "").replace("{endpoint}", self.face.first)
            assert detail in str(error), f"{step} failed with {error}"
            return
        assert fails is None, f"{step} gave {value}"
        gives = step.get("gives")
        if step["do"] == "generate" or "gives" not in step:
            return
        if isinstance(gives, dict):
            value = {name: value[name] for name in gives}
        assert value == gives, f"{step} gave {value}"

    async def carry_out(self, step: dict):
        do, client, what = self.face.do, self.face.client, step["do"]
        if what in ("next_id", "next_text", "next_snowflake"):
            arguments = () if what == "next_snowflake" else (step["tag"],)
            return self.note(arguments, str(await do(getattr(client, what), *arguments)))
        if what == "next_ids":
            ids = await do(client.next_ids, step["tag"], step["count"])
            return [self.note((step["tag"],), str(id)) for id in ids]
        if what == "next_number":
            return self.note((step["tag"], step["key"]), str(await do(client.next_number, step["tag"], step["key"])))
        if what == "register":
            entry = await do(client.register, step["tag"], step["key"])
            return {"id": str(entry.id), "text": entry.text, "period": entry.period, "new": entry.new}
        if what == "sleep":
            return await asyncio.sleep(step["ms"] / 1_000)
        if what == "phase":
            return await asyncio.to_thread(control, "POST", f"{self.control}/phases/{step['to']}") and None
        if what == "close":
            return await do(client.close)
        if what == "start":
            self.named[step["as"]] = asyncio.ensure_future(self.carry_out(step["call"]))
            return await asyncio.sleep(0)
        if what == "await":
            return await self.named[step["as"]]
        return await self.carry_out_lease(step)

    async def carry_out_lease(self, step: dict):
        do, client, what = self.face.do, self.face.client, step["do"]
        if what == "lease_worker":
            named = {"seconds": step["seconds"]} if "seconds" in step else {}
            lease = self.named[step["as"]] = await do(client.lease_worker, step["pool"], **named)
            return {"worker_id": lease.worker_id, "from_ms": str(lease.from_ms), "until_ms": str(lease.until_ms)}
        lease = self.named[step["of"]]
        if what == "may_stamp":
            return lease.may_stamp(int(step["ms"]))
        if what == "is_lost":
            return lease.is_lost
        if what == "close_lease":
            return await do(lease.close)
        if what == "generate":
            return await self.generate(lease, step)
        raise AssertionError(f"there is no step {what}")

    async def generate(self, lease, step: dict) -> None:
        of, gives = step["of"], step.get("gives", {})
        if of not in self.generators:
            self.generators[of] = lease.generator()
        generator, times = self.generators[of], step.get("times", 1)
        if self.face.is_async:
            ids = [await generator.next_id() for _ in range(times)]
        else:
            ids = await self.face.do(lambda: [generator.next_id() for _ in range(times)])
        for id in ids:
            self.note(("generated",), str(id))
            assert id > self.last.get(of, 0), f"{step}: {id} after {self.last[of]}"
            self.last[of] = id
            worker, ms = id >> 12 & 1023, (id >> 22) + EPOCH_MS
            assert worker == gives.get("worker_id", worker), f"{step}: worker id {worker}"
            assert int(gives.get("from_ms", ms)) <= ms < int(gives.get("until_ms", ms + 1)), f"{step}: {ms}"

    def note(self, of: tuple, id: str) -> str:
        assert (of, id) not in self.seen, f"{id} of {of} twice"
        self.seen.add((of, id))
        return id


def control(method: str, url: str) -> dict:
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def settings(case: dict, endpoints: list) -> dict:
    client = case.get("client", {})
    unknown = set(client) - {"attempt_ms", "connect_ms", "call_ms", "lease_max", "zone", "token"}
    assert not unknown, f"unknown settings {unknown}"
    names = {"attempt_ms": "attempt_timeout", "connect_ms": "connect_timeout", "call_ms": "timeout"}
    taken = {names[name]: client[name] / 1_000 for name in names if name in client}
    taken.update((name, client[name]) for name in ("lease_max", "zone", "token") if name in client)
    return {"endpoints": endpoints, **taken}


async def run_case(case: dict, url: str, is_async: bool) -> None:
    started = await asyncio.to_thread(control, "POST", f"{url}/cases/{case['name']}")
    face = Face(settings(case, started["endpoints"]), is_async)
    try:
        await Player(case, face, url).play()
        verdict = await asyncio.to_thread(control, "GET", f"{url}/verdict")
        assert verdict["ok"], json.dumps(verdict, indent=1)[:6_000]
    finally:
        with contextlib.suppress(mintleaf.Closed):
            await face.do(face.client.close)


class Conformance(unittest.TestCase):
    """One test for each case and face, made below."""

    server: subprocess.Popen
    url: str

    @classmethod
    def setUpClass(cls) -> None:
        if not BINARY:
            raise unittest.SkipTest("SKIPPED: MINTLEAF_CONFORMANCE names no server")
        cls.server = subprocess.Popen([BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.url = json.loads(cls.server.stdout.readline())["control"]

    def test_there_are_cases(self) -> None:
        self.assertGreater(len([name for name in dir(self) if name.endswith(("_async", "_threads"))]), 50)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.stdin.close()
        cls.server.wait(10)
        cls.server.stdout.close()


def add_cases() -> None:
    for case in json.loads(CASES.read_text())["cases"] if CASES.exists() else []:
        for is_async in (False, True):

            def test(self, case=case, is_async=is_async) -> None:
                threads = threading.active_count()
                asyncio.run(run_case(case, self.url, is_async))
                end = time.monotonic() + 5
                while threading.active_count() > threads and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertLessEqual(threading.active_count(), threads, "a thread is left")

            test.__doc__ = case["about"]
            setattr(Conformance, f"test_{case['name']}_{'async' if is_async else 'threads'}", test)


add_cases()

if __name__ == "__main__":
    unittest.main()
