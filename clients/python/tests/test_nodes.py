"""Three real nodes, killed and rolled under calls. MINTLEAF_BINARY names the node, MINTLEAF_SECONDS how long."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import mintleaf

BINARY = os.environ.get("MINTLEAF_BINARY")
SECONDS = float(os.environ.get("MINTLEAF_SECONDS", "15"))
CALLERS = 16
READY_S = 60


def free_ports(count: int) -> list:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Nodes:
    """A cluster of three processes."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.http, self.raft = free_ports(3), free_ports(3)
        self.running: list = [None] * 3
        for node in range(3):
            self.start(node)
        for node in range(3):
            self.wait_ready(node)

    def endpoints(self) -> list:
        return [f"http://127.0.0.1:{port}" for port in self.http]

    def start(self, node: int) -> None:
        peers = ",".join(f"{number + 1}=127.0.0.1:{port}" for number, port in enumerate(self.raft))
        command = [BINARY, "serve", "--node-id", str(node + 1), "--peers", peers, "--auto-create-tags"]
        command += ["--http", f"127.0.0.1:{self.http[node]}", "--raft", f"127.0.0.1:{self.raft[node]}"]
        command += ["--data", f"{self.directory}/{node + 1}"]
        with open(f"{self.directory}/{node + 1}.log", "ab") as log:
            self.running[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_ready(self, node: int) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.http[node]}/readyz", timeout=2).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"node {node + 1} is not ready after {READY_S} s")

    def end(self, node: int, by: int) -> None:
        self.running[node].send_signal(by)
        self.running[node].wait(30)

    def send(self, method: str, path: str, body: dict) -> None:
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.endpoints()[0] + path, json.dumps(body).encode(), head, method=method)
        urllib.request.urlopen(request, timeout=10).close()

    def disturb(self) -> None:
        """Kills each node in turn, then rolls them, again and again until the time is over."""
        end, turn = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            self.end(turn % 3, signal.SIGKILL if turn // 3 % 2 == 0 else signal.SIGTERM)
            self.start(turn % 3)
            self.wait_ready(turn % 3)
            turn += 1


def in_child(client, ids) -> None:
    ids.put([client.next_id("forked") for _ in range(1_000)])
    client.close()


@unittest.skipUnless(BINARY, "SKIPPED: MINTLEAF_BINARY names no node")
class RealNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.nodes = Nodes(cls.directory.name)

    @classmethod
    def tearDownClass(cls) -> None:
        for node in range(3):
            cls.nodes.running[node].kill()
            cls.nodes.running[node].wait()
        cls.directory.cleanup()

    def test_threads_fail_no_call_while_nodes_are_killed_and_rolled(self) -> None:
        ids, failures, stop = [[] for _ in range(CALLERS)], [], threading.Event()

        def call(caller: int) -> None:
            try:
                while not stop.is_set():
                    if caller % 4 == 3:
                        ids[caller].append(("snowflake", client.next_snowflake()))
                    elif caller % 4 == 2:
                        ids[caller] += [("a", id) for id in client.next_ids("a", 50)]
                    else:
                        ids[caller].append(("ab"[caller % 2], client.next_id("ab"[caller % 2])))
                    time.sleep(0.002)
            except Exception as error:
                failures.append(error)

        with mintleaf.Client(self.nodes.endpoints()) as client:
            threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
            for thread in threads:
                thread.start()
            self.nodes.disturb()
            stop.set()
            for thread in threads:
                thread.join()
        self.judge([id for each in ids for id in each], failures)

    def test_tasks_fail_no_call_while_nodes_are_killed_and_rolled(self) -> None:
        ids, failures = [], []

        async def call(client, caller: int, stop: asyncio.Event) -> None:
            try:
                while not stop.is_set():
                    if caller % 4 == 3:
                        ids.append(("snowflake", await client.next_snowflake()))
                    else:
                        ids.append(("tasks", await client.next_id("tasks")))
                    await asyncio.sleep(0.002)
            except Exception as error:
                failures.append(error)

        async def run() -> None:
            stop = asyncio.Event()
            async with mintleaf.AsyncClient(self.nodes.endpoints()) as client:
                tasks = [asyncio.ensure_future(call(client, caller, stop)) for caller in range(CALLERS)]
                await asyncio.get_running_loop().run_in_executor(None, self.nodes.disturb)
                stop.set()
                await asyncio.gather(*tasks)

        asyncio.run(run())
        self.judge(ids, failures)

    def judge(self, ids: list, failures: list) -> None:
        self.assertEqual(failures, [])
        self.assertGreater(len(ids), 1_000)
        self.assertEqual(len(set(ids)), len(ids), "an id was given twice")
        print(f"{len(ids)} ids, all distinct")

    @unittest.skipUnless(hasattr(os, "fork"), "SKIPPED: there is no fork")
    def test_a_forked_child_holds_nothing_and_works(self) -> None:
        context = multiprocessing.get_context("fork")
        with mintleaf.Client(self.nodes.endpoints()) as client:
            seen = [client.next_id("forked") for _ in range(300)]
            queue = context.Queue()
            children = [context.Process(target=in_child, args=(client, queue)) for _ in range(3)]
            for child in children:
                child.start()
            for _ in children:
                seen += queue.get(timeout=30)
            for child in children:
                child.join(30)
                self.assertEqual(child.exitcode, 0)
            seen += [client.next_id("forked") for _ in range(3_000)]
        self.assertEqual(len(set(seen)), len(seen))

    @unittest.skipUnless(hasattr(os, "fork"), "SKIPPED: there is no fork")
    def test_a_forked_child_of_an_async_program_holds_nothing_and_works(self) -> None:
        client = mintleaf.AsyncClient(self.nodes.endpoints())

        async def take(count: int, last: bool) -> list:
            ids = [await client.next_id("forked-async") for _ in range(count)]
            if last:
                await client.close()
            return ids

        loop = asyncio.new_event_loop()
        seen = loop.run_until_complete(take(300, False))
        inlet, outlet = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(outlet, json.dumps(asyncio.run(take(1_000, True))).encode())
                os._exit(0)
            finally:
                os._exit(1)
        os.close(outlet)
        with os.fdopen(inlet, "rb") as pipe:
            seen += json.load(pipe)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        seen += loop.run_until_complete(take(3_000, True))
        loop.close()
        self.assertEqual(len(set(seen)), len(seen))

    def test_memory_is_flat_over_ten_million_ids(self) -> None:
        def resident_kib() -> int:
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

        with mintleaf.Client(self.nodes.endpoints()) as client:
            for _ in range(200):
                client.next_ids("memory", 10_000)
            before = resident_kib()
            for _ in range(500):
                client.next_ids("memory", 10_000)
            for _ in range(5_000_000):
                client.next_id("memory")
            self.assertLess(resident_kib() - before, 8 * 1024)

    @unittest.skipUnless(hasattr(os, "fork"), "SKIPPED: there is no fork")
    def test_a_worker_lease_stays_with_the_parent(self) -> None:
        self.nodes.send("PUT", "/v1/pools/forks", {"workers": "0-15"})
        with mintleaf.Client(self.nodes.endpoints()) as client, client.lease_worker("forks") as lease:
            child = os.fork()
            if child == 0:
                os._exit(0 if not lease.may_stamp(lease.from_ms) else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(lease.may_stamp(lease.from_ms))

    def test_worker_ids_are_leased(self) -> None:
        self.nodes.send("PUT", "/v1/pools/shops", {"workers": "0-15"})
        with mintleaf.Client(self.nodes.endpoints()) as client, client.lease_worker("shops", seconds=5) as lease:
            generator = lease.generator()
            ids = [generator.next_id() for _ in range(10_000)]
            until_ms = lease.until_ms
            time.sleep(3.5)
            self.assertGreater(lease.until_ms, until_ms)
            ids += [generator.next_id() for _ in range(10_000)]
        self.assertEqual(sorted(set(ids)), ids)
        self.assertRaises(mintleaf.Closed, generator.next_id)


if __name__ == "__main__":
    unittest.main()
