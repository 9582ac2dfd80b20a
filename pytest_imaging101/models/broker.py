"""The one process that holds keys: a thread with its own event loop that makes the calls of all workers."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shutil
import socket
import tempfile
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_imaging101.budget import Usage
from pytest_imaging101.faults import EndpointFault, Fault, StorageFault, UsageError
from pytest_imaging101.models.address import normalised
from pytest_imaging101.models.base import ContextOverflow, ModelSettings, OutOfTime, Refused
from pytest_imaging101.models.endpoint import Endpoint
from pytest_imaging101.models.limiter import Limiter
from pytest_imaging101.models.retries import RetryPolicy
from pytest_imaging101.models.wire import (
    LONGEST_LINE,
    BrokerAddress,
    decode,
    encode,
    error_as_dict,
    reply_as_dict,
)

_LONGEST_SOCKET_PATH = 100  # sun_path holds 104 to 108 bytes
_QUEUE = 1024


class Broker:
    """Makes every model call of a machine. Started by the controller; workers reach it with a BrokerClient.

    The SDK is imported when the first call comes. A client that disconnects (a killed worker) cancels its call.
    """

    def __init__(self, models: Mapping[str, ModelSettings], *, policy: RetryPolicy | None = None) -> None:
        limiters: dict[str, Limiter] = {}
        self._endpoints = {
            name: Endpoint(
                settings,
                limiter=limiters.setdefault(_place(settings), Limiter()),
                policy=policy,
            )
            for name, settings in models.items()
        }
        self._token = secrets.token_hex(16)
        self._calls: set[asyncio.Task[dict[str, Any]]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._folder: Path | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> BrokerAddress:
        """Listen, in a thread of its own. Raises StorageFault if no socket can be made."""
        started: Future[str] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="imaging101-broker", daemon=True
        )
        self._thread.start()
        try:
            return BrokerAddress(socket_path=started.result(), token=self._token)
        except StorageFault:
            self._thread.join()
            self.close()
            raise

    def close(self) -> None:
        """Cancel what is under way, stop listening and remove the socket; may be called twice."""
        if self._loop is not None and self._closing is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def usage(self) -> dict[str, Usage]:
        """The meter: what each model's answers used so far, those that no caller lived to see included."""
        return {name: endpoint.usage for name, endpoint in self._endpoints.items()}

    def __enter__(self) -> BrokerAddress:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _serve(self, started: Future[str]) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        try:
            server, place = await self._listen()
        except OSError as error:
            started.set_exception(
                StorageFault(
                    f"the model broker cannot make its socket in {tempfile.gettempdir()} ({error}); "
                    "set TMPDIR to a folder on a local disk that can be written"
                )
            )
            return
        started.set_result(place)
        try:
            await self._closing.wait()
        finally:
            server.close()
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)
            for endpoint in self._endpoints.values():
                await endpoint.close()

    async def _listen(self) -> tuple[asyncio.Server, str]:
        """A Unix socket in a folder of this user's alone; loopback TCP where there are none."""
        self._folder = Path(tempfile.mkdtemp(prefix="imaging101-"))
        path = str(self._folder / "broker")
        if hasattr(socket, "AF_UNIX") and len(path.encode()) <= _LONGEST_SOCKET_PATH:
            unix = await asyncio.start_unix_server(self._connected, path, limit=LONGEST_LINE, backlog=_QUEUE)
            return unix, path
        tcp = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=LONGEST_LINE, backlog=_QUEUE)
        return tcp, f"127.0.0.1:{tcp.sockets[0].getsockname()[1]}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a request, and its response if the client is still there for it."""
        try:
            request = decode(await reader.readline())
            call = asyncio.ensure_future(self._response(request))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            hung_up = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({call, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            hung_up.cancel()
            if call.done() and not call.cancelled():
                writer.write(encode(call.result()))
                await writer.drain()
            else:
                call.cancel()
        except (OSError, ValueError):
            pass  # gone, or not one of ours: there is nobody to answer
        finally:
            writer.close()

    async def _response(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._result(request)
        except (Fault, Refused, ContextOverflow, OutOfTime) as error:
            return {"error": error_as_dict(error)}
        except Exception as error:  # a mistake of ours must reach the worker as a fault, not end the broker
            seen = "".join(traceback.format_exception(error))
            for endpoint in self._endpoints.values():
                seen = endpoint.scrub(seen)
            fault = Fault(f"the model broker failed by itself ({type(error).__name__})", evidence=seen)
            return {"error": error_as_dict(fault)}

    async def _result(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if not hmac.compare_digest(str(request.get("token")).encode(), self._token.encode()):
            raise EndpointFault("the model broker refuses the token: it belongs to another run")
        name, deadline = request["model"], request["deadline_seconds"]
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            known = ", ".join(self._endpoints) or "none"
            raise EndpointFault(f"the model broker knows no model {name!r}; it knows {known}")
        if request["ask"] == "probe":
            return {"probe": asdict(await endpoint.probe(deadline_seconds=deadline))}
        reply = await endpoint.complete(request["messages"], deadline_seconds=deadline, stop=request["stop"])
        return {"reply": reply_as_dict(reply)}


def _place(settings: ModelSettings) -> str:
    """What a limiter is shared by: the address, however it is spelled; unusable ones are found at the first call."""
    try:
        return normalised(settings.base_url)
    except UsageError:
        return settings.name
