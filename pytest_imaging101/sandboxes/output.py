"""What a command prints, kept in bounded memory: the head, the tail and how much there was."""

from __future__ import annotations

import codecs


class HeadAndTail:
    """Collects bytes and keeps the first and the last half of ``limit`` of them."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Take what came next."""
        self.total += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-self._tail_limit :] if self._tail_limit else b""
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self.total > len(self._head) + len(self._tail)

    def text(self) -> str:
        """Everything, or head and tail with a line between them that says how much is missing."""
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = _without_cut_end(self._head), _without_cut_start(self._tail)
        missing = self.total - len(self._head) - len(self._tail)
        return f"{head}\n[... {missing:,} bytes left out ...]\n{tail}"


def _without_cut_end(head: bytearray) -> str:
    """The text, less a character of which the cut left only the first bytes."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(head))


def _without_cut_start(tail: bytearray) -> str:
    """The text, less the last bytes of a character whose first ones were cut off (at most three)."""
    start = 0
    while start < min(3, len(tail)) and 0x80 <= tail[start] < 0xC0:
        start += 1
    return tail[start:].decode("utf-8", "replace")
