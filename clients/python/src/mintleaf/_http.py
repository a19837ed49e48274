"""Connections over HTTP/1.1, with or without TLS, and the ones that are kept.

A request is sent once, with one exception: when a kept connection ends before the head of an answer, it is sent once
more on a new one. That second request gets other ids. If the first was answered too, its answer is lost with the
connection.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ._wire import Answer, Request
from .errors import InvalidArgument

ANSWER_BYTES_MAX = 1 << 20
HEAD_BYTES_MAX = 1 << 16
#: A connection that was idle longer is not used again. Nodes close idle connections after 75 s.
IDLE_MAX_S = 60.0
#: The largest number of kept connections to one endpoint.
KEPT_MAX = 64
NAME = "mintleaf-client-python"

T = TypeVar("T")

_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)


class Fault(Exception):
    """Why an attempt has no whole answer."""


class NoHead(Fault):
    """The connection ended before the head of an answer."""


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. After this time, or when the waiting task is cancelled, `work` is cancelled and has ended.

    Before Python 3.12, `asyncio.wait_for` loses a cancellation that comes with the end of `work`, and a failure of
    `work` that comes with a cancellation is reported as one that no code has seen.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


@dataclass(frozen=True)
class Address:
    """Where an endpoint is."""

    host: str
    port: int
    is_https: bool
    authority: str

    @staticmethod
    def parse(text: object) -> Address:
        """The address that a user wrote, `http://HOST:PORT` or `https://HOST:PORT`."""
        fault = InvalidArgument(f"an endpoint must be http://HOST:PORT or https://HOST:PORT, not {text!r}")
        if not isinstance(text, str) or not text.isprintable() or " " in text:
            raise fault
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise fault from None
        if parts.scheme not in ("http", "https") or not host or parts.username is not None:
            raise fault
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise fault
        is_https = parts.scheme == "https"
        return Address(host, port or (443 if is_https else 80), is_https, parts.netloc)


class Token:
    """The token that requests carry. That of a file is read again when the file changes."""

    def __init__(self, token: str | None, file: str | None) -> None:
        if token is not None and file is not None:
            raise InvalidArgument("token and token_file exclude each other")
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._token = None if token is None else self._checked(token, "token must be")
        if file is not None:
            try:
                self.current()
            except OSError as error:
                raise InvalidArgument(f"token_file {file!r} cannot be read: {error.strerror or error}") from None

    def current(self) -> str | None:
        if self._file is not None:
            status = os.stat(self._file)
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                with open(self._file, encoding="utf-8", errors="replace") as file:
                    self._token = self._checked(file.read(4_096).strip(), f"token_file {self._file!r} must hold")
                self._seen = seen
        return self._token

    def latest(self) -> str | None:
        """The current token, or the last one while its file is being replaced."""
        try:
            return self.current()
        except (OSError, InvalidArgument):
            return self._token

    @staticmethod
    def _checked(token: object, rule: str) -> str:
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise InvalidArgument(f"{rule} visible ASCII characters")
        return token


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.idle_since = 0.0

    def is_open(self) -> bool:
        return not (self.reader.at_eof() or self.writer.is_closing())

    def close(self) -> None:
        # `close` of a TLS connection waits for the peer's goodbye, and this client has no use for it.
        self.writer.transport.abort()


class Http:
    """All endpoints, and the connections to them. It is used on one event loop."""

    def __init__(
        self, addresses: list[Address], tls: ssl.SSLContext | None, token: Token, connect_timeout: float
    ) -> None:
        self.addresses = addresses
        self._tls = tls
        self._token = token
        self._connect_timeout = connect_timeout
        self._kept: list[list[_Connection]] = [[] for _ in addresses]
        self._open: set[_Connection] = set()

    async def ask(self, endpoint: int, request: Request) -> Answer:
        """One request to one endpoint, and its whole answer."""
        message = self._message(self.addresses[endpoint], request)
        kept = self._take_kept(endpoint)
        if kept is not None:
            try:
                return await self._exchange(endpoint, kept, request, message)
            except NoHead:
                self._close_kept(endpoint)
        connection = await self._connect(self.addresses[endpoint])
        return await self._exchange(endpoint, connection, request, message)

    def close(self) -> None:
        """Closes the connections that no request is on."""
        for endpoint in range(len(self.addresses)):
            self._close_kept(endpoint)

    def abandon(self) -> None:
        """Lets go of the parent's connections in a forked child. Their numbers stay taken, because the parent's
        objects are still here; closing these would change the parent's event loop, which the child shares."""
        with open(os.devnull, "rb") as nothing:
            for connection in self._open:
                held = connection.writer.get_extra_info("socket")
                if held is not None and held.fileno() >= 0:
                    os.dup2(nothing.fileno(), held.fileno())

    def _message(self, address: Address, request: Request) -> bytes:
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            f"Host: {address.authority}",
            "Accept: application/json",
            "Cache-Control: no-store",
            f"User-Agent: {NAME}",
        ]
        token = self._token.latest()
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if request.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
        elif request.method != "GET":
            lines.append("Content-Length: 0")
        return "\r\n".join([*lines, "", ""]).encode() + (request.body or b"")

    async def _connect(self, address: Address) -> _Connection:
        tls = self._tls if address.is_https else None
        opening = asyncio.open_connection(address.host, address.port, ssl=tls, limit=HEAD_BYTES_MAX)
        try:
            reader, writer = await within(self._connect_timeout, opening)
        except asyncio.TimeoutError:
            raise Fault(f"no connection within {self._connect_timeout} s") from None
        except (OSError, ValueError) as error:
            raise Fault(f"no connection: {error}") from None
        connection = _Connection(reader, writer)
        self._open.add(connection)
        return connection

    async def _exchange(self, endpoint: int, on: _Connection, request: Request, message: bytes) -> Answer:
        is_reusable = False
        try:
            on.writer.write(message)
            status, headers = await self._head(on.reader)
            body = await _body(on.reader, status, headers)
            is_reusable = headers.get("connection", "").lower() != "close"
            return Answer(status, headers.get("retry-after"), body)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Fault(f"the answer broke off: {error or type(error).__name__}") from None
        finally:
            # Also after a cancellation: the answer of a request that was given up has nowhere to arrive.
            if is_reusable and len(self._kept[endpoint]) < KEPT_MAX:
                on.idle_since = time.monotonic()
                self._kept[endpoint].append(on)
            else:
                self._drop(on)

    def _drop(self, connection: _Connection) -> None:
        self._open.discard(connection)
        connection.close()

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (OSError, EOFError) as error:
                raise NoHead(f"the connection ended before an answer: {error}") from None
            first, *lines = head.decode("latin-1").split("\r\n")
            parts = first.split(" ", 2)
            if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not re.fullmatch("[1-5][0-9][0-9]", parts[1]):
                raise Fault("the answer is not HTTP/1.1")
            status = int(parts[1])
            if status >= 200:
                named = (line.partition(":") for line in lines if line)
                return status, {name.strip().lower(): value.strip() for name, _, value in named}

    def _take_kept(self, endpoint: int) -> _Connection | None:
        kept, now = self._kept[endpoint], time.monotonic()
        while kept:
            connection = kept.pop()
            if connection.is_open() and now - connection.idle_since < IDLE_MAX_S:
                return connection
            self._drop(connection)
        return None

    def _close_kept(self, endpoint: int) -> None:
        while self._kept[endpoint]:
            self._drop(self._kept[endpoint].pop())


async def _body(reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> bytes:
    if status == 204 or status == 304:
        return b""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    length = headers.get("content-length", "")
    if not re.fullmatch("[0-9]{1,18}", length):
        raise Fault("the answer names no length")
    if int(length) > ANSWER_BYTES_MAX:
        raise Fault(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
        if not re.fullmatch(b"[0-9a-fA-F]{1,8}", line):
            raise Fault("the answer has a malformed chunk")
        size = int(line, 16)
        if len(body) + size > ANSWER_BYTES_MAX:
            raise Fault(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        if size == 0:
            break
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise Fault("the answer has a malformed chunk")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return bytes(body)
