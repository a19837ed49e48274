"""What leases and registers cost three nodes: costs.py BINARY DIR leases|registers KEYS SECONDS. For scripts/costs."""

import atexit
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

binary, directory, what, keys, seconds = sys.argv[1:]
keys, seconds = int(keys), int(seconds)
TICKS = os.sysconf("SC_CLK_TCK")
LEASES, LEASE_SECONDS, RENEWERS = 10_000, 60, 250
CALLERS, DEPTH, PAIRS = 50, 32, 300
# How much of a core leases may cost, a register's lone call in durable changes, its rate, a key's bytes, a restart's seconds.
CORE, RATIO, RATE, KEY_BYTES, RESTART = 0.05, 1.2, 10_000, 100, 2.0
missed = []


def free_port():
    with socket.socket() as claimed:
        claimed.bind(("127.0.0.1", 0))
        return claimed.getsockname()[1]


def judge(name, figure, bound, is_met, unit=""):
    print(f"{name:<46} {figure:>10} {unit:<10} bound {bound}{'' if is_met else '  MISSED'}", flush=True)
    if not is_met:
        missed.append(name)


class Node:
    def __init__(self, number, rafts):
        self.number, self.http, self.resp = number, free_port(), free_port()
        self.data = pathlib.Path(directory, f"data-{number}")
        peers = ",".join(f"{node}=127.0.0.1:{port}" for node, port in rafts.items())
        self.command = [
            binary, "serve", "--node-id", str(number), "--http", f"127.0.0.1:{self.http}",
            "--resp", f"127.0.0.1:{self.resp}", "--raft", f"127.0.0.1:{rafts[number]}", "--data", str(self.data),
            "--peers", peers, "--drain", "0", "--register-keys-max", str(2 * keys + 1_000_000),
        ]
        self.log = open(pathlib.Path(directory, f"node-{number}.log"), "ab")

    def start(self, cores=None):
        def settle():
            if cores:
                os.sched_setaffinity(0, cores)
        self.process = subprocess.Popen(self.command, stderr=self.log, stdout=self.log, preexec_fn=settle)
        atexit.register(self.process.kill)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def ask(self, method, path, body=None, connection=None):
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
        sent = json.dumps(body) if body is not None else None
        connection.request(method, path, sent, {"content-type": "application/json"} if sent else {})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def await_ready(self, limit=120):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.005)
        sys.exit(f"node {self.number} is not ready: see {directory}")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def form(cores=None):
    rafts = {number: free_port() for number in (1, 2, 3)}
    nodes = [Node(number, rafts) for number in rafts]
    for node in nodes:
        node.start(cores)
    for node in nodes:
        node.await_ready()
    return nodes


def view(node):
    return json.loads(node.ask("GET", "/v1/cluster")[1])


def leader(nodes):
    led_by = view(nodes[0])["leader_id"]
    return next(node for node in nodes if node.number == led_by)


def spent(nodes):
    return sum(node.cpu_seconds() for node in nodes)


def entries(node):
    return max(member.get("last_log_index") or 0 for member in view(node)["nodes"])


def every(workers, act):
    threads = [threading.Thread(target=act, args=(at,), daemon=True) for at in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def leases():
    nodes = form()
    time.sleep(5)
    before = spent(nodes)
    time.sleep(seconds)
    rest = (spent(nodes) - before) / seconds
    assert nodes[0].ask("PUT", "/v1/pools/shops", {"workers": f"0-{LEASES - 1}"})[0] == 200
    names, lock = [], threading.Lock()

    def lease(at):
        node = nodes[at % 3]
        connection = http.client.HTTPConnection("127.0.0.1", node.http, timeout=60)
        for _ in range(LEASES // RENEWERS):
            body = {"seconds": 3_600, "holder": f"program-{at}"}
            status, answer = node.ask("POST", "/v1/pools/shops/leases", body, connection)
            assert status == 201, answer
            with lock:
                names.append(json.loads(answer)["lease"])

    every(RENEWERS, lease)
    period = LEASE_SECONDS / 2 / len(names)

    def renewal(number):
        # Without a body, which is 60 s: http.client would send one by itself, behind the head, and wake a node twice.
        return "POST", f"/v1/pools/shops/leases/{names[number % len(names)]}", None

    began = entries(nodes[0])
    cost, took, failed = paced(nodes, period, renewal)
    print(f"{len(names)} leases, {seconds / period / took:.0f} renewals a second for {took:.0f} s in "
          f"{(entries(nodes[0]) - began) / took:.0f} entries a second; at rest {rest:.2%} of a core")
    judge("leases: processor of three nodes, minus rest", f"{cost - rest:.2%}", f"{CORE:.0%}", cost - rest < CORE, "of a core")
    # The machine's own share: what as many requests cost that no entry, no wait and no other node take part in.
    ids, _, _ = paced(nodes, period, lambda number: ("GET", "/v1/snowflake", None))
    print(f"as many requests for one snowflake: {ids - rest:.2%} of a core")
    if failed:
        print(f"{failed} renewals were not answered in time: the machine is too busy")
    return nodes


def paced(nodes, period, request):
    """Makes a request each period, by callers of all nodes: the share of a core that the nodes took, the seconds, and the failures."""
    began, spent_before, failed = time.monotonic(), spent(nodes), []

    def call(at):
        node = nodes[at % 3]
        connection = http.client.HTTPConnection("127.0.0.1", node.http, timeout=60)
        number = at
        while (due := began + number * period) < began + seconds:
            time.sleep(max(0, due - time.monotonic()))
            status, _ = node.ask(*request(number), connection)
            if status != 200:
                failed.append(status)
            number += RENEWERS

    every(RENEWERS, call)
    took = time.monotonic() - began
    return (spent(nodes) - spent_before) / took, took, len(failed)


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def fill(nodes, first, count):
    """Gives `count` keys a number, over the Redis protocol. Returns the keys a second."""
    share, refused = count // CALLERS, []

    def call(at):
        node = nodes[at % 3]
        with socket.create_connection(("127.0.0.1", node.resp), timeout=120) as connection:
            answers, begin = connection.makefile("rb"), first + at * share
            for depth in range(begin, begin + share, DEPTH):
                batch = [b"order-%08d" % key for key in range(depth, min(depth + DEPTH, begin + share))]
                connection.sendall(b"".join(command(b"REGISTER", b"inv", key) for key in batch))
                lines = [answers.readline() for _ in batch]
                refused.extend(key for key, line in zip(batch, lines) if not line.startswith(b":"))

    began = time.monotonic()
    every(CALLERS, call)
    rate = (CALLERS * share - len(refused)) / (time.monotonic() - began)
    # A key that got no answer is asked for again, and has one number all the same.
    for key in refused:
        status, answer = nodes[0].ask("POST", f"/v1/register/inv/{key.decode()}", {})
        assert status in (200, 201), answer
    if refused:
        print(f"{len(refused)} keys were asked for again")
    return rate


def median_pair(node):
    """The medians of a lone caller's new numbers, and of durable changes between them."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http, timeout=60)
    took = {"register": [], "change": []}
    for pair in range(PAIRS):
        for kind in random.sample(sorted(took), 2):
            began = time.perf_counter()
            if kind == "register":
                status, _ = node.ask("POST", f"/v1/register/inv/lone-{pair}", {}, connection)
            else:
                status, _ = node.ask("PATCH", "/v1/tags/plain", {"step": pair % 7 + 1}, connection)
            # 503: a busy machine has nodes elect another leader.
            assert status in (200, 201, 503), status
            if status != 503:
                took[kind].append(time.perf_counter() - began)
    return statistics.median(took["register"]), statistics.median(took["change"])


def snapshot_bytes(node):
    return max((file.stat().st_size for file in (node.data / "snapshot").iterdir()), default=0)


def registers():
    nodes = form({0})
    assert nodes[0].ask("POST", "/v1/tags", {"tag": "inv", "kind": "register"})[0] == 201
    assert nodes[0].ask("POST", "/v1/tags", {"tag": "plain"})[0] == 201
    number, change = median_pair(leader(nodes))
    print(f"a lone caller: a number {number * 1e3:.2f} ms, a durable change {change * 1e3:.2f} ms")
    judge("registers: p50 of a number in durable changes", f"{number / change:.2f}", RATIO, number <= RATIO * change)
    node = nodes[0]
    node.stop()
    node.start({0})
    node.await_ready()
    empty = node.resident()
    rate = fill(nodes, 0, keys)
    judge(f"registers: {CALLERS} callers, nodes on one core", f"{rate:.0f}", RATE, rate >= RATE, "numbers/s")
    node.stop()
    began = time.monotonic()
    node.start({0})
    node.await_ready()
    restart = time.monotonic() - began
    judge(f"registers: restart with {keys} keys", f"{restart:.2f}", RESTART, restart < RESTART, "s")
    memory, snapshot = (node.resident() - empty) / keys, snapshot_bytes(node) / keys
    judge("registers: memory of a key", f"{memory:.0f}", KEY_BYTES, memory <= KEY_BYTES, "bytes")
    judge("registers: a key in the snapshot", f"{snapshot:.0f}", KEY_BYTES, snapshot <= KEY_BYTES, "bytes")
    status, last = node.ask("GET", f"/v1/register/inv/order-{keys - 1:08}")
    assert status == 200, last
    return nodes


for node in {"leases": leases, "registers": registers}[what]():
    node.stop()
sys.exit(1 if missed else 0)
