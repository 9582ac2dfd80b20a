"""A real HTTP server on loopback that plays an OpenAI-compatible endpoint by script."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Request:
    """One request as it came; header names are in small letters."""

    path: str
    headers: Mapping[str, str]
    json: dict[str, Any]


class Wire:
    """The client's connection, for replies that no HTTP library would send."""

    def __init__(self, connection: socket.socket, closing: threading.Event) -> None:
        self.connection = connection
        self._closing = closing

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def wait_for_hang_up(self) -> None:
        """Wait until the client closes its end, or the server is closed."""
        while not self._closing.is_set() and not self.is_hung_up():
            pass

    def is_hung_up(self) -> bool:
        """Whether the client has closed its end, looking for a moment."""
        readable, _, _ = select.select([self.connection], [], [], _POLL_SECONDS)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except ConnectionError:
            return True

    def reset(self) -> None:
        """End the connection with a reset in place of an orderly close."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@dataclass(frozen=True)
class Scripted:
    """A reply: status, headers and body, or ``raw``, which writes to the connection as it likes."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: Callable[[Wire], None] | None = None


Script = Sequence[Scripted] | Callable[[dict[str, Any], Mapping[str, str]], Scripted]


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Scripted:
    """A body as JSON, or as it is where it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Scripted(status, content, {"Content-Type": "application/json", **(headers or {})})


def page(text: str = "<!DOCTYPE html><html><body>Log in</body></html>", status: int = 200) -> Scripted:
    """A web page."""
    return Scripted(status, text.encode(), {"Content-Type": "text/html"})


def completion(content: Any = "hello", finish_reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    """The body of a chat completion; further fields go into its message."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": finish_reason,
    }
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "created": 1,
        "choices": [choice],
        "usage": usage,
    }


def says(content: Any = "hello", finish_reason: str | None = "stop", **message: Any) -> Scripted:
    """A chat completion."""
    return answer(completion(content, finish_reason, **message))


def refuses(
    status: int, message: str, *, headers: Mapping[str, str] | None = None, **fields: Any
) -> Scripted:
    """An error in OpenAI's own shape."""
    return answer(
        {"error": {"message": message, "type": None, "param": None, "code": None, **fields}}, status, headers
    )


def hangs() -> Scripted:
    """Never answers; returns when the client hangs up."""
    return Scripted(raw=Wire.wait_for_hang_up)


def trickles(byte: bytes = b" ") -> Scripted:
    """A reply whose body never ends: one chunk at a time until the client hangs up."""

    def write(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not wire.is_hung_up():
            wire.send(b"1\r\n" + byte + b"\r\n")

    return Scripted(raw=write)


def resets_in_body(sent: bytes = b'{"id": "c1", "choices": [{"message": {"c') -> Scripted:
    """A reply that ends with a reset long before its Content-Length."""

    def write(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300\r\n\r\n" + sent)
        wire.reset()

    return Scripted(raw=write)


class FakeEndpoint:
    """Serves ``POST */chat/completions`` from a script, and ``GET */models`` where ``models`` are given.

    A list is served in its order and must not run out; a callable sees the request's JSON and headers.
    """

    def __init__(self, script: Script = (), *, models: Sequence[str] | None = None) -> None:
        self.requests: list[Request] = []
        self.hang_ups = threading.Event()
        self.arrived = threading.Event()
        self._script = script
        self._models = models
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of every request so far."""
        return [request.json for request in self.requests]

    def __enter__(self) -> FakeEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next(self, request: Request) -> Scripted:
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
        self.arrived.set()
        if callable(self._script):
            return self._script(request.json, request.headers)
        if place >= len(self._script):
            return refuses(418, f"the script holds {len(self._script)} replies and was asked for one more")
        return self._script[place]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if not self.path.endswith("/chat/completions"):
                    return self._write(refuses(404, "Not Found"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = fake._next(Request(self.path, headers, json.loads(content)))
                if reply.raw is None:
                    return self._write(reply)
                self.close_connection = True
                wire = Wire(self.connection, fake._closing)
                try:
                    reply.raw(wire)
                except ConnectionError:
                    fake.hang_ups.set()
                else:
                    if wire.connection.fileno() >= 0 and wire.is_hung_up():
                        fake.hang_ups.set()
                return None

            def do_GET(self) -> None:
                if fake._models is None or not self.path.endswith("/models"):
                    return self._write(refuses(404, "Not Found"))
                listed = [{"id": name, "object": "model"} for name in fake._models]
                return self._write(answer({"object": "list", "data": listed}))

            def _write(self, reply: Scripted) -> None:
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, format: str, *args: Any) -> None:
                """Requests are recorded, not printed."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""
