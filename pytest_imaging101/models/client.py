"""A model as workers see it: the broker's socket and the standard library, no key, no SDK."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_imaging101.faults import EndpointFault
from pytest_imaging101.models.base import Message, OutOfTime, Reply
from pytest_imaging101.models.wire import (
    BrokerAddress,
    Probe,
    decode,
    encode,
    error_from_dict,
    reply_from_dict,
)

# The broker keeps deadlines; a client that waits this much longer has lost the broker, not the race. It covers the
# SDK's import at the first call and a machine under load.
_GRACE_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 8 * 86400.0
_CONNECT_SECONDS = 30.0
_RETRY_SECONDS = 0.02


class BrokerClient:
    """A ``Model`` whose calls the broker makes. Each call has a connection of its own, so threads may share one."""

    def __init__(self, address: BrokerAddress, model_name: str) -> None:
        self.name = model_name
        self._address = address

    def complete(
        self, messages: Sequence[Message], *, deadline_seconds: float, stop: Sequence[str] = ()
    ) -> Reply:
        """As ``Model.complete``; a broker that is gone is an EndpointFault."""
        if deadline_seconds <= 0:
            raise OutOfTime(f"no time is left for a call of {self.name}")
        request = {"messages": list(messages), "stop": list(stop)}
        return reply_from_dict(self._ask("complete", request, deadline_seconds)["reply"])

    def probe(self, *, deadline_seconds: float = 20.0) -> Probe:
        """Whether the model's endpoint answers and takes the key. Raises an EndpointFault that says what is wrong."""
        return Probe(**self._ask("probe", {}, deadline_seconds)["probe"])

    def _ask(self, what: str, fields: Mapping[str, Any], deadline_seconds: float) -> dict[str, Any]:
        request = {
            "token": self._address.token,
            "ask": what,
            "model": self.name,
            "deadline_seconds": deadline_seconds,
            **fields,
        }
        try:
            with _connected(self._address) as connection:
                connection.settimeout(min(deadline_seconds + _GRACE_SECONDS, _LONGEST_WAIT_SECONDS))
                connection.sendall(encode(request))
                with connection.makefile("rb") as stream:
                    response = decode(stream.readline())
        except (OSError, ValueError) as error:
            raise EndpointFault(
                f"the model broker of this run is gone ({type(error).__name__}: {error}); "
                "its process has ended or was killed: start the run again with --resume"
            ) from error
        if "error" in response:
            raise error_from_dict(response["error"])
        return response


def _connected(address: BrokerAddress) -> socket.socket:
    """A connection to the broker. A full queue of connections is waited for, a broker that is gone is not."""
    host, _, port = address.socket_path.rpartition(":")
    is_tcp = port.isdigit() and "/" not in host
    give_up_at = time.monotonic() + _CONNECT_SECONDS
    while True:
        connection = socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect((host, int(port)) if is_tcp else address.socket_path)
        except BlockingIOError:
            connection.close()
            if time.monotonic() > give_up_at:
                raise
            time.sleep(_RETRY_SECONDS)
        except BaseException:
            connection.close()
            raise
        else:
            return connection
