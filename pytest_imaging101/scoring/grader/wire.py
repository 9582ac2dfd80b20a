"""Plain values as bytes between two sandboxes that do not trust each other.

Runs inside sandboxes: standard library and numpy only (scipy.sparse where it is already there).

A frame is a fixed prefix (call id, seconds allowed, two lengths), a JSON header and the raw bytes of its blobs::

    magic 4s | id u64 | seconds f64 | header bytes u32 | body bytes u64 | header | body

The header is ``{"b": [blob lengths], "v": node}``. A node is a JSON scalar, a JSON list (a list), or an object
``{"k": kind, ...}`` for everything that JSON has no word for. Whatever a hostile peer sends is refused with a
WireError before it costs more memory than it had to send.
"""

from __future__ import annotations

import json
import math
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

MAX_HEADER_BYTES = 4 * 2**20
MAX_BODY_BYTES = 128 * 2**20
MAX_NODES = 200_000
MAX_DEPTH = 50
MAX_BLOBS = 10_000
# Of all mappings of a value together: keys can be made to collide, and each then costs as much as all before it.
MAX_KEYS = 5_000
MAX_INTEGER_DIGITS = 4_000
MAX_SPARSE_SIDE = 2**31 - 1

_MAGIC = b"i101"
_PREFIX = struct.Struct("!4sQdIQ")
_PLAIN_DTYPE = re.compile(r"[<>|=][biufcSUmM]\d{1,7}(\[\d{0,6}[A-Za-z]{1,7}\])?\Z")
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}


class WireError(Exception):
    """A value cannot be sent, or what came is not a value that may be sent."""


class PeerGone(WireError):
    """The other side closed the channel."""


@dataclass(frozen=True)
class Frame:
    """One message: whose question it belongs to, how long its answer may take, and the value's bytes."""

    id: int
    seconds: float
    header: bytes | bytearray
    body: bytes | bytearray

    @classmethod
    def of(cls, id: int, seconds: float, value: Any) -> Frame:
        """The frame of a value. Raises WireError if the value cannot be sent."""
        return cls(id, seconds, *encode(value))

    def value(self) -> Any:
        """The value in the frame. Raises WireError if there is none."""
        return decode(self.header, self.body)


def send(channel: socket.socket, frame: Frame, deadline: float) -> None:
    """Write a frame before a monotonic deadline. Raises PeerGone, TimeoutError."""
    prefix = _PREFIX.pack(_MAGIC, frame.id, frame.seconds, len(frame.header), len(frame.body))
    try:
        for part in (prefix + frame.header, frame.body):
            # A peer that has all it needs may have answered and gone: not even nothing may be sent to it then.
            if part:
                channel.settimeout(_seconds_until(deadline))
                channel.sendall(part)
    except (BrokenPipeError, ConnectionError) as error:
        raise PeerGone("the other side closed the channel") from error


def receive(channel: socket.socket, deadline: float | None) -> Frame:
    """Read a frame before a monotonic deadline (None: whenever). Raises PeerGone, TimeoutError, WireError."""
    prefix = _read(channel, _PREFIX.size, deadline)
    magic, id, seconds, header_bytes, body_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise WireError("not a frame")
    if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
        raise WireError(f"a frame of {header_bytes} + {body_bytes} bytes is too large")
    return Frame(id, seconds, _read(channel, header_bytes, deadline), _read(channel, body_bytes, deadline))


def encode(value: Any) -> tuple[bytes, bytes]:
    """Header and body of a value. Raises WireError, naming the type, for one that cannot be sent."""
    encoder = _Encoder()
    node = encoder.node(value, 0)
    header = json.dumps({"b": [len(blob) for blob in encoder.blobs], "v": node}, separators=(",", ":"))
    body = b"".join(encoder.blobs)
    if len(header) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES:
        raise WireError(f"a value of {len(header) + len(body)} bytes is too large to be sent")
    return header.encode("ascii"), body


def decode(header: bytes | bytearray, body: bytes | bytearray) -> Any:
    """The value of a header and a body; arrays in it own their memory. Raises WireError for anything odd."""
    try:
        return _Decoder(header, body).value()
    except WireError:
        raise
    # The input may be hostile, and what json, numpy and scipy make of it is every kind of exception.
    except Exception as error:
        raise WireError(f"cannot be decoded: {type(error).__name__}: {error!s:.200}") from error


def _read(channel: socket.socket, count: int, deadline: float | None) -> bytearray:
    # Grows with what arrives, so that a claim of a long frame costs nothing.
    data = bytearray()
    while len(data) < count:
        channel.settimeout(None if deadline is None else _seconds_until(deadline))
        try:
            chunk = channel.recv(min(count - len(data), 2**20))
        except ConnectionError as error:
            raise PeerGone("the other side closed the channel") from error
        if not chunk:
            raise PeerGone("the other side closed the channel")
        data += chunk
    return data


def _seconds_until(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("deadline passed")
    return min(seconds, 1e6)


class _Encoder:
    """Turns values into nodes and collects their blobs."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.nodes = 0
        self.keys = 0

    def node(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("nested too deeply or too many elements; send arrays instead of lists")
        if value is None or value is True or value is False:
            return value
        numpy_node = self._numpy(value)
        if numpy_node is not None:
            return numpy_node
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return _integer_node(int(value))
        if isinstance(value, float):
            return _float_node(float(value))
        if isinstance(value, complex):
            return {"k": "complex", "v": [_float_node(value.real), _float_node(value.imag)]}
        if isinstance(value, bytes | bytearray):
            return {"k": "bytes", "b": self._blob(bytes(value))}
        if isinstance(value, slice):
            return {"k": "slice", "v": self._items((value.start, value.stop, value.step), depth)}
        if isinstance(value, list):
            return self._items(value, depth)
        if isinstance(value, tuple):
            return {"k": "tuple", "v": self._items(value, depth)}
        if isinstance(value, Mapping):
            return {"k": "dict", "v": [self._pair(pair, depth) for pair in value.items()]}
        return self._sparse(value, depth)

    def _items(self, values: Any, depth: int) -> list[Any]:
        return [self.node(value, depth + 1) for value in values]

    def _pair(self, pair: tuple[Any, Any], depth: int) -> list[Any]:
        self.keys += 1
        if self.keys > MAX_KEYS:
            raise WireError("too many keys in one value; send arrays instead of mappings")
        return self._items(pair, depth)

    def _blob(self, data: bytes) -> int:
        if len(self.blobs) >= MAX_BLOBS:
            raise WireError("too many arrays in one value")
        self.blobs.append(data)
        return len(self.blobs) - 1

    def _numpy(self, value: Any) -> dict[str, Any] | None:
        import numpy as np

        if isinstance(value, np.generic):
            array, kind = np.asarray(value), "scalar"
        elif isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            array, kind = np.asarray(value), "array"
        else:
            return None
        if not _PLAIN_DTYPE.match(array.dtype.str):
            raise WireError(f"an array of dtype {array.dtype} cannot be sent")
        fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        if array.nbytes > MAX_BODY_BYTES:
            raise WireError(f"an array of {array.nbytes} bytes is too large to be sent")
        blob = self._blob(array.tobytes(order="F" if fortran else "C"))
        return {"k": kind, "d": array.dtype.str, "s": list(array.shape), "f": fortran, "b": blob}

    def _sparse(self, value: Any, depth: int) -> dict[str, Any]:
        sparse = sys.modules.get("scipy.sparse")
        if sparse is None or not sparse.issparse(value) or value.ndim != 2:
            raise WireError(
                f"a {type(value).__name__} cannot be sent; only numbers, strings, bytes, None, numpy arrays, "
                "scipy sparse arrays, and lists, tuples and mappings of these can"
            )
        matrix = value if value.format in _SPARSE_PARTS else value.tocsr()
        parts = [getattr(matrix, name) for name in _SPARSE_PARTS[matrix.format]]
        return {
            "k": "sparse",
            "f": matrix.format,
            "a": isinstance(matrix, sparse.sparray),
            "s": [int(side) for side in matrix.shape],
            "v": self._items(parts, depth),
        }


def _integer_node(value: int) -> Any:
    if -(2**63) <= value < 2**63:
        return value
    text = hex(value)
    if len(text) > MAX_INTEGER_DIGITS:
        raise WireError("an integer of so many digits cannot be sent")
    return {"k": "int", "v": text}


def _float_node(value: float) -> Any:
    return value if math.isfinite(value) else {"k": "float", "v": str(value)}


def _json_integer(text: str) -> int:
    if len(text) > 20:
        raise WireError("an integer has too many digits")
    return int(text)


def _json_constant(text: str) -> float:
    raise WireError(f"{text} is not JSON")


class _Decoder:
    """Turns nodes into values, trusting nothing."""

    def __init__(self, header: bytes | bytearray, body: bytes | bytearray) -> None:
        loaded = json.loads(
            bytes(header).decode("ascii"), parse_int=_json_integer, parse_constant=_json_constant
        )
        if not isinstance(loaded, dict) or set(loaded) != {"b", "v"} or not isinstance(loaded["b"], list):
            raise WireError("a header needs exactly its blobs and its value")
        self.blobs = self._cut(loaded["b"], memoryview(body))
        self.unused = set(range(len(self.blobs)))
        self.root = loaded["v"]
        self.nodes = 0
        self.keys = 0

    def value(self) -> Any:
        value = self._node(self.root, 0)
        if self.unused:
            raise WireError("a blob belongs to nothing")
        return value

    @staticmethod
    def _cut(lengths: list[Any], body: memoryview) -> list[memoryview]:
        if len(lengths) > MAX_BLOBS:
            raise WireError("too many blobs")
        blobs, start = [], 0
        for length in lengths:
            if not _is_size(length) or start + length > len(body):
                raise WireError("a blob's length does not fit the body")
            blobs.append(body[start : start + length])
            start += length
        if start != len(body):
            raise WireError("the body is longer than its blobs")
        return blobs

    def _node(self, node: Any, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("nested too deeply or too many elements")
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self._node(item, depth + 1) for item in node]
        read = self._READERS.get(node.get("k"))
        if read is None:
            raise WireError("a node of unknown kind")
        return read(self, node, depth)

    def _items(self, node: dict[str, Any], depth: int, count: int | None = None) -> list[Any]:
        items = node["v"]
        if not isinstance(items, list) or count not in (None, len(items)):
            raise WireError("a node has not the items that its kind needs")
        return [self._node(item, depth + 1) for item in items]

    def _blob(self, node: dict[str, Any]) -> memoryview:
        index: object = node["b"]
        if not _is_size(index) or index not in self.unused:
            raise WireError("a blob is missing or used twice")
        self.unused.remove(index)
        return self.blobs[index]

    def _int(self, node: dict[str, Any], depth: int) -> int:
        text = node["v"]
        if not isinstance(text, str) or len(text) > MAX_INTEGER_DIGITS:
            raise WireError("an integer has too many digits")
        return int(text, 16)

    def _float(self, node: dict[str, Any], depth: int) -> float:
        return _NON_FINITE[node["v"]]

    def _complex(self, node: dict[str, Any], depth: int) -> complex:
        real, imaginary = self._items(node, depth, 2)
        if not isinstance(real, float) or not isinstance(imaginary, float):
            raise WireError("a complex number needs two floats")
        return complex(real, imaginary)

    def _bytes(self, node: dict[str, Any], depth: int) -> bytes:
        return bytes(self._blob(node))

    def _slice(self, node: dict[str, Any], depth: int) -> slice:
        return slice(*self._items(node, depth, 3))

    def _tuple(self, node: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self._items(node, depth))

    def _dict(self, node: dict[str, Any], depth: int) -> dict[Any, Any]:
        pairs = self._items(node, depth)
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise WireError("a mapping needs pairs")
        self.keys += len(pairs)
        if self.keys > MAX_KEYS:
            raise WireError("too many keys")
        return dict(pairs)

    def _array(self, node: dict[str, Any], depth: int) -> Any:
        import numpy as np

        name, shape, blob = node["d"], node["s"], self._blob(node)
        if not isinstance(name, str) or not _PLAIN_DTYPE.match(name):
            raise WireError("an array's dtype is not plain")
        dtype = np.dtype(name)
        if not isinstance(shape, list) or len(shape) > 32 or not all(_is_size(side) for side in shape):
            raise WireError("an array's shape is none")
        if math.prod(shape) * dtype.itemsize != len(blob):
            raise WireError("an array's shape does not fit its bytes")
        # Copied, so that it is aligned, writable and keeps no other blob alive.
        flat = np.frombuffer(blob, dtype=dtype).copy()
        if dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
            raise WireError("a boolean is neither true nor false")
        return flat.reshape(shape, order="F" if node["f"] is True else "C")

    def _scalar(self, node: dict[str, Any], depth: int) -> Any:
        if node["s"] != []:
            raise WireError("a scalar has no shape")
        return self._array(node, depth)[()]

    def _sparse(self, node: dict[str, Any], depth: int) -> Any:
        import numpy as np
        import scipy.sparse

        form, shape = node["f"], node["s"]
        plain = isinstance(shape, list) and len(shape) == 2 and all(_is_size(side) for side in shape)
        if form not in _SPARSE_PARTS or not plain or max(shape) > MAX_SPARSE_SIDE:
            raise WireError("a sparse array's form or shape is none")
        parts = self._items(node, depth, 3)
        for part, kinds in zip(parts, ("biufc", "iu", "iu"), strict=True):
            if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in kinds:
                raise WireError("a sparse array's parts are not vectors of numbers")
        data, first, second = parts
        build = getattr(scipy.sparse, f"{form}_{'array' if node['a'] is True else 'matrix'}")
        content = (data, (first, second)) if form == "coo" else (data, first, second)
        matrix = build(content, shape=tuple(shape))
        if form != "coo":  # the constructor of a coo array checks its indices
            matrix.check_format(full_check=True)
        return matrix

    _READERS: ClassVar[dict[str, Callable[[_Decoder, dict[str, Any], int], Any]]] = {
        "int": _int,
        "float": _float,
        "complex": _complex,
        "bytes": _bytes,
        "slice": _slice,
        "tuple": _tuple,
        "dict": _dict,
        "array": _array,
        "scalar": _scalar,
        "sparse": _sparse,
    }


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
