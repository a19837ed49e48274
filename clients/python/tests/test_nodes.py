"""Three real nodes, killed, hung and rolled under calls. MINTLEAF_BINARY names the node, MINTLEAF_SECONDS how long.

Three minutes are more than 10^8 ids. The memory of this process is read after each turn, and must not grow.
"""

from __future__ import annotations

import asyncio
import hashlib
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
import urllib.error
import urllib.request
from array import array
from typing import Callable

import mintleaf

BINARY = os.environ.get("MINTLEAF_BINARY")
SECONDS = float(os.environ.get("MINTLEAF_SECONDS", "15"))
CALLERS = 16
READY_S = 60
#: Longer than an attempt lasts.
HANG_S = 3.5
#: On a loaded machine a new leader may take longer than a caller would wait.
CALL_S = 60.0
#: What memory may grow by, beside the ids that a test keeps. 10^8 ids that a client kept would be a hundred times more.
GROWTH_MAX_MIB = 32


def free_ports(count: int) -> list:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def token(number: int) -> str:
    return f"mlt_{number:064x}"


def replace(file: str, text: str) -> None:
    with open(f"{file}.new", "w") as new:
        new.write(text)
    os.chmod(f"{file}.new", 0o600)
    os.replace(f"{file}.new", file)


class Nodes:
    """A cluster of three processes."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.http, self.raft = free_ports(3), free_ports(3)
        self.running: list = [None] * 3
        self.auth_file, self.token_file, self.turn = f"{directory}/auth.toml", f"{directory}/token", 0
        self.admit(0)
        replace(self.token_file, token(0))
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
        command += ["--data", f"{self.directory}/{node + 1}", "--drain", "1s"]
        command += ["--auth-file", self.auth_file, "--insecure"]
        with open(f"{self.directory}/{node + 1}.log", "ab") as log:
            self.running[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_ready(self, node: int) -> None:
        self.wait_for(200, node, "/readyz", {})

    def wait_for(self, status: int, node: int, path: str, head: dict) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            request = urllib.request.Request(self.endpoints()[node] + path, headers=head)
            try:
                urllib.request.urlopen(request, timeout=5).close()
                found = 200
            except urllib.error.HTTPError as error:
                found = error.code
            except OSError:
                found = 0
            if found == status:
                return
            time.sleep(0.1)
        raise AssertionError(f"node {node + 1} does not answer {path} with {status} after {READY_S} s")

    def admit(self, *numbers: int) -> None:
        """Puts the tokens of these numbers, and no others, into the auth file of all nodes."""
        text = 'anonymous = "admin"\n'
        for number in numbers:
            digest = hashlib.sha256(token(number).encode()).hexdigest()
            text += f'[[token]]\nname = "t{number}"\nrole = "issue"\nhash = "sha256:{digest}"\n'
        replace(self.auth_file, text)
        for node in self.running:
            if node is not None:
                node.send_signal(signal.SIGHUP)

    def change_token(self) -> None:
        """Replaces the token by the next one while calls go on. All nodes are up."""
        old, new = self.turn, self.turn + 1
        self.admit(old, new)
        for node in range(3):
            self.wait_for(200, node, "/v1/snowflake", {"Authorization": f"Bearer {token(new)}"})
        replace(self.token_file, token(new))
        time.sleep(2)  # Requests under way still carry the old one.
        self.admit(new)
        for node in range(3):
            self.wait_for(401, node, "/v1/snowflake", {"Authorization": f"Bearer {token(old)}"})
        self.turn = new

    def hang(self, node: int) -> None:
        self.running[node].send_signal(signal.SIGSTOP)
        time.sleep(HANG_S)
        self.running[node].send_signal(signal.SIGCONT)

    def end(self, node: int, by: int) -> None:
        self.running[node].send_signal(by)
        self.running[node].wait(30)

    def send(self, method: str, path: str, body: dict) -> None:
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.endpoints()[0] + path, json.dumps(body).encode(), head, method=method)
        urllib.request.urlopen(request, timeout=10).close()

    def disturb(self, look: Callable[[], None]) -> None:
        """Kills one node, hangs the next, rolls the third, and replaces the token each time, until the time is over.

        Looks after each turn.
        """
        end, turn = time.monotonic() + SECONDS, 0
        while time.monotonic() < end or turn < 3:
            node = (turn + turn // 3) % 3
            if turn % 3 == 1:
                self.hang(node)
            else:
                self.end(node, signal.SIGKILL if turn % 3 == 0 else signal.SIGTERM)
                self.start(node)
            self.wait_ready(node)
            self.change_token()
            look()
            turn += 1
        print(f"{turn} turns")


class IdRuns:
    """Ids in the order of their arrival, as runs of consecutive ones."""

    def __init__(self) -> None:
        self.runs: list = []
        self.count = 0

    def add(self, ids: list) -> None:
        self.count += len(ids)
        if ids == list(range(ids[0], ids[0] + len(ids))):
            self._add(ids[0], ids[-1] + 1)
        else:
            for id in ids:
                self._add(id, id + 1)

    def _add(self, start: int, end: int) -> None:
        if self.runs and self.runs[-1][1] == start:
            start, _ = self.runs.pop()
        self.runs.append((start, end))

    def has_repeated(self) -> bool:
        self.runs.sort()
        return any(start < end for (_, end), (start, _) in zip(self.runs, self.runs[1:]))


def resident_mib() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Taken:
    """The ids that a test was given: those of `many` as runs, the others of each kind one by one."""

    def __init__(self) -> None:
        self.many, self.kinds, self.failures = IdRuns(), {}, []
        self.looks: list = []
        self.lock = threading.Lock()

    def add(self, kind: str, *ids: int) -> None:
        with self.lock:
            self.kinds.setdefault(kind, array("Q")).extend(ids)

    def look(self) -> None:
        self.looks.append((self.many.count + self.kept(), resident_mib()))

    def kept(self) -> int:
        with self.lock:
            return sum(map(len, self.kinds.values()))

    def judge(self, test: unittest.TestCase) -> None:
        test.assertEqual(self.failures, [])
        kept = self.kept()
        test.assertGreater(kept, 1_000)
        for kind, ids in self.kinds.items():
            test.assertEqual(len(set(ids)), len(ids), f"an id of {kind} was given twice")
        test.assertFalse(self.many.has_repeated(), "an id was given twice")
        first, middle, last = self.looks[0], self.looks[len(self.looks) // 2], self.looks[-1]
        print(f"{self.many.count} ids in {len(self.many.runs)} runs, {kept} more, all distinct")
        for count, mib in (first, middle, last):
            print(f"after {count} ids: {mib:.0f} MiB")
        # An array takes up to twice its items while it grows.
        test.assertLess(last[1] - first[1], GROWTH_MAX_MIB + 16 * kept / 2**20)


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

    def test_threads_fail_no_call_while_nodes_are_killed_hung_and_rolled(self) -> None:
        taken, stop = Taken(), threading.Event()

        def take_many() -> None:
            try:
                while not stop.is_set():
                    taken.many.add(client.next_ids("many", 10_000))
                    time.sleep(0.001)
            except Exception as error:
                taken.failures.append(error)

        def call(caller: int) -> None:
            try:
                while not stop.is_set():
                    if caller % 4 == 3:
                        taken.add("snowflake", client.next_snowflake())
                    elif caller % 4 == 2:
                        taken.add("a", *client.next_ids("a", 50))
                    else:
                        taken.add("ab"[caller % 2], client.next_id("ab"[caller % 2]))
                    time.sleep(0.005)
            except Exception as error:
                taken.failures.append(error)

        with mintleaf.Client(self.nodes.endpoints(), token_file=self.nodes.token_file, timeout=CALL_S) as client:
            threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
            threads.append(threading.Thread(target=take_many))
            for thread in threads:
                thread.start()
            self.nodes.disturb(taken.look)
            stop.set()
            for thread in threads:
                thread.join()
        taken.judge(self)

    def test_tasks_fail_no_call_while_nodes_are_killed_hung_and_rolled(self) -> None:
        taken = Taken()

        async def call(client, caller: int, stop: asyncio.Event) -> None:
            try:
                while not stop.is_set():
                    if caller == CALLERS:
                        taken.many.add(await client.next_ids("many-tasks", 10_000))
                    elif caller % 4 == 3:
                        taken.add("snowflake", await client.next_snowflake())
                    else:
                        taken.add("tasks", await client.next_id("tasks"))
                    await asyncio.sleep(0.001 if caller == CALLERS else 0.005)
            except Exception as error:
                taken.failures.append(error)

        async def run() -> None:
            stop = asyncio.Event()
            options = {"token_file": self.nodes.token_file, "timeout": CALL_S}
            async with mintleaf.AsyncClient(self.nodes.endpoints(), **options) as client:
                tasks = [asyncio.ensure_future(call(client, caller, stop)) for caller in range(CALLERS + 1)]
                await asyncio.get_running_loop().run_in_executor(None, self.nodes.disturb, taken.look)
                stop.set()
                await asyncio.gather(*tasks)

        asyncio.run(run())
        taken.judge(self)

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
        with mintleaf.Client(self.nodes.endpoints()) as client:
            for _ in range(200):
                client.next_ids("memory", 10_000)
            before = resident_mib()
            for _ in range(500):
                client.next_ids("memory", 10_000)
            for _ in range(5_000_000):
                client.next_id("memory")
            self.assertLess(resident_mib() - before, 8)

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
        with mintleaf.Client(self.nodes.endpoints()) as client, client.lease_worker("shops", seconds=8) as lease:
            generator = lease.generator()
            ids = [generator.next_id() for _ in range(10_000)]
            until_ms, end = lease.until_ms, time.monotonic() + 7
            while lease.until_ms == until_ms and time.monotonic() < end:
                time.sleep(0.1)
            self.assertGreater(lease.until_ms, until_ms)
            ids += [generator.next_id() for _ in range(10_000)]
        self.assertEqual(sorted(set(ids)), ids)
        self.assertRaises(mintleaf.Closed, generator.next_id)


if __name__ == "__main__":
    unittest.main()
