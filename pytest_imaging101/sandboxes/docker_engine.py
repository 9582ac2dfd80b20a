"""The container engine: how it is reached, and its failures as faults of the sandbox.

It is the engine of DOCKER_HOST, Docker's own or one that speaks its language, such as Podman's service.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_imaging101.faults import SandboxFault

# A call that takes longer has met an engine that hangs. Starting a container on a busy machine takes seconds.
CALL_SECONDS = 60
_TRIES = 3
_CHUNK = 2**16
_STDIN, _HEADER_BYTES = 0, 8


class Engine:
    """A connection to the engine; ``api`` is the docker SDK's. Raises SandboxFault if nothing answers."""

    def __init__(self, seconds: int = CALL_SECONDS) -> None:
        import docker

        with engine_faults("connecting (DOCKER_HOST says where it is)"):
            client = docker.from_env(timeout=seconds)
        self.api: Any = client.api

    def close(self) -> None:
        with suppress(Exception):  # whatever it says, it is over
            self.api.close()

    def ask(self, doing: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call something that can be called again without harm; an engine that hangs gets a second chance."""
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                with engine_faults(doing):
                    return call(*arguments, **options)
            except EngineHung:
                if last:
                    raise
        raise AssertionError("the last try returns or raises")

    def kill_container(self, name: str) -> None:
        """Kill everything in a container; that it does not run, or is not there, is fine."""
        self._end("killing a container", self.api.kill, name, fine=(404, 409))

    def remove_container(self, name: str) -> None:
        """Kill and remove a container with its anonymous volumes; that it is not there is fine.

        So is that another, a cleaner say, is removing it at this moment.
        """
        self._end(
            "removing a container", self.api.remove_container, name, fine=(404, 409), force=True, v=True
        )

    def remove_volume(self, name: str) -> None:
        """Remove a volume; that it is not there is fine."""
        self._end("removing a volume", self.api.remove_volume, name, fine=(404,), force=True)

    def _end(
        self, doing: str, call: Callable[..., Any], name: str, *, fine: tuple[int, ...], **options: bool
    ) -> None:
        try:
            self.ask(doing, call, name, **options)
        except SandboxFault as fault:
            if getattr(fault.__cause__, "status_code", None) not in fine:
                raise


class EngineHung(SandboxFault):
    """The engine did not answer in time."""


@contextmanager
def engine_faults(doing: str) -> Iterator[None]:
    """Turn whatever the SDK raises into a fault that says at what."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException, Timeout
    from urllib3.exceptions import HTTPError

    try:
        yield
    except Timeout as error:
        raise EngineHung(
            f"the container engine did not answer within its time while {doing}: {error}"
        ) from error
    except (DockerException, RequestException, HTTPError, OSError, ValueError) as error:
        raise SandboxFault(f"the container engine failed while {doing}: {error}") from error


class Stream:
    """A connection that carries a process's streams, read by a thread of its own until it ends.

    ``receive`` gets what the process printed, chunk by chunk, in that thread; ``ended`` is called there at the end.
    """

    def __init__(self, connection: Any, receive: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._connection = connection
        self._socket = getattr(connection, "_sock", connection)
        self._socket.settimeout(None)
        self._receive = receive
        self._ended = ended
        self._reader = threading.Thread(target=self._read_all, name="container stream", daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> None:
        """Pass data to the process's stdin. Raises OSError if it is gone."""
        self._socket.sendall(data)

    def end_input(self) -> None:
        """Let the process see the end of its stdin."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def join(self, seconds: float) -> None:
        """Wait for the end of what the process prints."""
        self._reader.join(seconds)

    def close(self) -> None:
        """End the connection and the thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._connection.close()

    def _read_all(self) -> None:
        try:
            with suppress(OSError, ValueError):  # closed by either side
                self._read_frames()
        finally:
            self._ended()

    def _read_frames(self) -> None:
        # What came right behind the answer's head is in the SDK's buffer already: reading the socket would lose it.
        reader = self._connection._response.raw._fp.fp
        read_some = getattr(reader, "read1", reader.read)
        while len(header := reader.read(_HEADER_BYTES)) == _HEADER_BYTES:
            (size,) = struct.unpack(">L", header[4:])
            while size:
                if not (chunk := read_some(min(size, _CHUNK))):
                    return
                size -= len(chunk)
                if header[0] != _STDIN:
                    self._receive(chunk)
