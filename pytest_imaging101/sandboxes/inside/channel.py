"""Gives a command its channel to the harness, as a descriptor that a variable names.

``connect``: the harness hands its own socket over through a Unix socket of a mounted folder, so that nothing stands
between the two ends. ``relay``: for an engine elsewhere, where the harness speaks with this program's own stdio; the
command reaches that by an abstract socket, which only this container has.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys

_CHUNK = 2**16


def connect(kind: str, address: str, variable: str, command: list[str]) -> None:
    """Become the command, with the channel open."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect("\0" + address if kind == "relay" else address)
    if kind == "relay":
        descriptor = line.detach()
    else:
        _, (descriptor, *_), _, _ = socket.recv_fds(line, 1, 1)
        line.close()
    os.set_inheritable(descriptor, True)
    os.environ[variable] = str(descriptor)
    os.execvp(command[0], command)


def relay(address: str) -> None:
    """Carry bytes between this program's stdio and whoever connects first, until both have said their last."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("\0" + address)
        server.listen(1)
        os.write(1, b"+")
        peer, _ = server.accept()
    with peer, selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(peer, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if key.fileobj == 0:
                    if chunk := os.read(0, _CHUNK):
                        peer.sendall(chunk)
                        continue
                    peer.shutdown(socket.SHUT_WR)
                elif chunk := peer.recv(_CHUNK):
                    write_all(1, chunk)
                    continue
                else:  # the command's end: nobody is left to hear more
                    return
                selector.unregister(key.fileobj)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        relay(sys.argv[2])
    else:
        connect(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
