"""Three nodes behind a load balancer with the configuration of deploy/, under load while each node is rolled and one is
killed: balanced.py haproxy|nginx BINARY. Exit code 1 if a request over HTTP fails, a command of the Redis protocol gets an
error, or an id comes twice. For scripts/deploy-check."""

import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

kind, binary = sys.argv[1:]
deploy = pathlib.Path(__file__).resolve().parents[2] / "deploy"
CLIENTS = 8


def free_port():
    with socket.socket() as claimed:
        claimed.bind(("127.0.0.1", 0))
        return claimed.getsockname()[1]


class Node:
    def __init__(self, number, nodes_raft, directory):
        self.http, self.resp = free_port(), free_port()
        self.command = [
            binary, "serve", "--node-id", str(number), "--http", f"127.0.0.1:{self.http}",
            "--resp", f"127.0.0.1:{self.resp}", "--raft", f"127.0.0.1:{nodes_raft[number]}",
            "--data", f"{directory}/data-{number}", "--cluster-secret-file", f"{directory}/secret",
            "--peers", ",".join(f"{node}=127.0.0.1:{port}" for node, port in nodes_raft.items()),
        ]
        self.log = open(f"{directory}/node-{number}.log", "ab")

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log, stdout=self.log)

    def is_ready(self):
        try:
            asked = http.client.HTTPConnection("127.0.0.1", self.http, timeout=2)
            asked.request("GET", "/readyz")
            return asked.getresponse().status == 200
        except OSError:
            return False


def await_true(what, is_so, seconds=60):
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            sys.exit(f"{kind}: not {what} within {seconds} s")
        time.sleep(0.1)


class Client(threading.Thread):
    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ids, self.failures, self.slowest, self.cut = port, [], [], 0.0, 0

    def run(self):
        while not ended.is_set():
            begun = time.monotonic()
            try:
                self.ask()
            except Exception as error:
                self.failures.append(repr(error))
                self.connection = None
            self.slowest = max(self.slowest, time.monotonic() - begun)


class HttpClient(Client):
    connection = None

    def ask(self):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        self.connection.request("GET", "/api/segment/get/orders")
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {body}")
        if answer.getheader("connection") == "close":
            self.connection = None
        self.ids.append(int(body))


class RedisClient(Client):
    """As the libraries do it: a connection that ended is opened anew, and the command is sent again."""

    connection = None

    def ask(self):
        for _ in range(3):
            try:
                if self.connection is None:
                    self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
                    self.answers = self.connection.makefile("rb")
                self.connection.sendall(b"*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n")
                line = self.answers.readline()
            except ConnectionError:
                line = b""
            if line:
                break
            self.connection = None
            self.cut += 1
        if not line.startswith(b":"):
            raise RuntimeError(line)
        self.ids.append(int(line[1:]))


def configured(nodes, http_port, resp_port, directory):
    """The file of deploy/, with the addresses of these nodes."""
    text = (deploy / f"{kind}.{'cfg' if kind == 'haproxy' else 'conf'}").read_text()
    for number, node in nodes.items():
        text = text.replace(f"10.0.0.{number}:6379 port 8080", f"127.0.0.1:{node.resp} port {node.http}")
        text = text.replace(f"10.0.0.{number}:8080", f"127.0.0.1:{node.http}")
    for before, after in [("bind :8080", f"bind 127.0.0.1:{http_port}"),
                          ("bind :6379", f"bind 127.0.0.1:{resp_port}"),
                          ("listen 8080", f"listen 127.0.0.1:{http_port}")]:
        text = text.replace(before, after)
    text = re.sub("(?m)^ *log .*\n", "", text)
    assert not re.search("(?m)^ *server 10[.]", text), text
    path = f"{directory}/{kind}.conf"
    if kind == "nginx":
        text = f"pid {directory}/pid; error_log {directory}/nginx.log; daemon off;\n{text}"
    pathlib.Path(path).write_text(text)
    return ["haproxy", "-db", "-f", path] if kind == "haproxy" else ["nginx", "-p", directory, "-c", path]


def roll(nodes):
    for node in nodes.values():
        node.process.send_signal(signal.SIGTERM)
        code = node.process.wait(30)
        if code != 0:
            sys.exit(f"{kind}: a node that was stopped ended with {code}")
        node.start()
        await_true("ready again", node.is_ready)
        time.sleep(2)
    killed = nodes[2]
    killed.process.kill()
    killed.process.wait(10)
    time.sleep(3)
    killed.start()
    await_true("ready after a kill", killed.is_ready)
    time.sleep(2)


ended = threading.Event()
with tempfile.TemporaryDirectory() as directory:
    with open(os.open(f"{directory}/secret", os.O_CREAT | os.O_WRONLY, 0o600), "w") as secret:
        subprocess.run([binary, "secret", "new"], stdout=secret, check=True)
    nodes_raft = {number: free_port() for number in (1, 2, 3)}
    nodes = {number: Node(number, nodes_raft, directory) for number in nodes_raft}
    balancer = None
    try:
        for node in nodes.values():
            node.start()
        for node in nodes.values():
            await_true("ready", node.is_ready)
        url = f"http://127.0.0.1:{nodes[1].http}"
        subprocess.run([binary, "tag", "create", "orders", "--url", url], check=True, stdout=subprocess.DEVNULL)
        http_port, resp_port = free_port(), free_port()
        with open(f"{directory}/balancer.log", "wb") as log:
            command = configured(nodes, http_port, resp_port, directory)
            balancer = subprocess.Popen(command, stdout=log, stderr=log)
        time.sleep(3)
        if balancer.poll() is not None:
            sys.exit(f"{kind}: {pathlib.Path(directory, 'balancer.log').read_text()}")
        clients = [HttpClient(http_port) for _ in range(CLIENTS)]
        if kind == "haproxy":
            clients += [RedisClient(resp_port) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        roll(nodes)
        ended.set()
        for client in clients:
            client.join(30)
    finally:
        for process in [balancer, *(node.process for node in nodes.values() if hasattr(node, "process"))]:
            if process is not None:
                process.kill()
                process.wait(10)

ids = [id for client in clients for id in client.ids]
failures = [failure for client in clients for failure in client.failures]
slowest_ms = 1000 * max(client.slowest for client in clients)
cut = sum(client.cut for client in clients)
print(f"{kind}: {len(ids)} ids while three nodes were rolled and one was killed; {len(failures)} failures; "
      f"{cut} connections of the Redis protocol opened anew; slowest {slowest_ms:.0f} ms")
if failures or len(set(ids)) != len(ids) or len(ids) < 1000:
    sys.exit(f"{kind}: {len(ids) - len(set(ids))} ids came twice; {failures[:5]}")
