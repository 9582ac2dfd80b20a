"""What crosses the wire arrives as it was; what must not cross is refused, cheaply and with a typed error."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time
from collections import OrderedDict, UserDict
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from pytest_imaging101.scoring.grader import wire
from pytest_imaging101.scoring.grader.wire import Frame, PeerGone, WireError, decode, encode, receive, send


def round_trip(value: Any) -> Any:
    return decode(*encode(value))


PLAIN = [
    None,
    True,
    0,
    -(2**63),
    2**64,
    -(10**300),
    0.1,
    -0.0,
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    "text \N{SNOWMAN} \ud800 \0",
    b"\0\xff",
    1.5 - 2j,
    complex(math.inf, -0.0),
    [],
    (),
    {},
    [1, (2.0, "three", [None])],
    {"a": (1, 2), 3: [4], (5, "six"): None, 7.5: b""},
    slice(None),
    slice(1, None, -2),
]


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_plain_values_arrive_with_their_type(value: Any) -> None:
    found = round_trip(value)
    assert type(found) is type(value)
    assert found == value
    assert str(found) == str(value)  # tells -0.0 from 0.0


def test_nan_arrives() -> None:
    assert math.isnan(round_trip(math.nan))
    assert math.isnan(round_trip([complex(1, math.nan)])[0].imag)


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(24).reshape(2, 3, 4)[:, ::-1, ::2],
    np.array(3.5),
    np.array([]),
    np.zeros((0, 3), dtype=np.int8),
    np.array([True, False]),
    np.array([1 + 2j, np.nan], dtype=np.complex64),
    np.arange(3, dtype=">i2"),
    np.arange(3, dtype=np.float16),
    np.arange(3, dtype=np.longdouble),
    np.array(["a", "longer", ""]),
    np.array([b"a", b"bc"]),
    np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    np.array([1, 2], dtype="m8[10us]"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{array.shape}")
def test_arrays_arrive_with_dtype_shape_order_and_may_be_written_to(array: np.ndarray) -> None:
    found = round_trip({"a": array})["a"]
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable
    assert found.flags.aligned
    if array.flags.f_contiguous and array.ndim > 1:
        assert found.flags.f_contiguous


@pytest.mark.parametrize(
    "scalar", [np.float32(0.1), np.int8(-3), np.bool_(True), np.complex128(1j), np.str_("ab")]
)
def test_numpy_scalars_stay_numpy_scalars(scalar: Any) -> None:
    found = round_trip(scalar)
    assert type(found) is type(scalar)
    assert found == scalar


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_arrays_and_matrices_arrive(form: str, kind: str) -> None:
    value = getattr(sparse, f"{form}_{kind}")(np.array([[0, 1.5, 0], [2j, 0, 0]]))
    found = round_trip(value)
    assert type(found) is type(value)
    np.testing.assert_array_equal(found.toarray(), value.toarray())


def test_other_sparse_forms_arrive_as_csr() -> None:
    assert round_trip(sparse.dia_array(np.eye(3))).format == "csr"


class Level(IntEnum):
    LOW = 1


class EqualToAll:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class TrickyFloat(float):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class TrickyArray(np.ndarray):
    def __eq__(self, other: object) -> Any:
        return np.True_


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Level.LOW, int),
        (OrderedDict(a=1), dict),
        (UserDict(a=1), dict),
        (TrickyFloat(2.0), float),
        (np.arange(3).view(TrickyArray), np.ndarray),
    ],
)
def test_subclasses_arrive_as_what_they_are_built_on(value: Any, kind: type) -> None:
    assert type(round_trip(value)) is kind


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (EqualToAll(), "a EqualToAll cannot be sent"),
        (lambda: None, "a function cannot be sent"),
        ({1, 2}, "a set cannot be sent"),
        (np.ma.masked_array([1, 2]), "MaskedArray"),
        (np.array([None]), "dtype object"),
        (np.zeros(2, dtype=[("a", "f8")]), "dtype"),
        ([1 << 20_000], "so many digits"),
        (nested(100), "nested too deeply"),
        ([0] * (wire.MAX_NODES + 1), "too many elements"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(value: Any, sentence: str) -> None:
    with pytest.raises(WireError, match=sentence):
        encode(value)


def header(value: Any, blobs: Any = ()) -> bytes:
    return json.dumps({"b": list(blobs), "v": value}).encode()


def array_node(shape: Any, dtype: Any = "<f8", blob: Any = 0, **more: Any) -> dict[str, Any]:
    return {"k": "array", "d": dtype, "s": shape, "f": False, "b": blob, **more}


def sparse_node(shape: Any, form: str = "csr", parts: Any = None) -> dict[str, Any]:
    return {"k": "sparse", "f": form, "a": True, "s": shape, "v": parts}


def csr_parts(data: list[float], indices: list[int], indptr: list[int], shape: Any, form: str = "csr") -> Any:
    vectors = (np.array(data), np.array(indices, dtype="<i8"), np.array(indptr, dtype="<i8"))
    nodes = [array_node([len(v)], v.dtype.str, n) for n, v in enumerate(vectors)]
    body = b"".join(v.tobytes() for v in vectors)
    return header(sparse_node(shape, form, nodes), [v.nbytes for v in vectors]), body


EIGHT = b"\0" * 8
HOSTILE = {
    "not JSON": (b"{", b""),
    "not ASCII": ("{'é'}".encode(), b""),
    "no object": (b"[]", b""),
    "no value": (b'{"b": []}', b""),
    "more than its value": (b'{"b": [], "v": 1, "w": 2}', b""),
    "deep JSON": (b'{"b": [], "v": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b""),
    "deep nodes": (header(nested(60)), b""),
    "a million nodes": (header([0] * 1_000_000), b""),
    "million-digit integer": (b'{"b": [], "v": ' + b"9" * 1_000_000 + b"}", b""),
    "million-digit hex integer": (header({"k": "int", "v": "0x" + "f" * 1_000_000}), b""),
    "NaN in JSON": (b'{"b": [], "v": NaN}', b""),
    "unknown kind": (header({"k": "pickle", "v": "x"}), b""),
    "kind that is no text": (header({"k": ["array"]}), b""),
    "float that is none": (header({"k": "float", "v": "1e5"}), b""),
    "complex of one part": (header({"k": "complex", "v": [1.0]}), b""),
    "complex of text": (header({"k": "complex", "v": ["a", 1.0]}), b""),
    "pair of three": (header({"k": "dict", "v": [[1, 2, 3]]}), b""),
    "unhashable key": (header({"k": "dict", "v": [[[1], 2]]}), b""),
    "keys that collide": (
        header({"k": "dict", "v": [[{"k": "int", "v": hex(n * (2**61 - 1))}, 0] for n in range(50_000)]}),
        b"",
    ),
    "items that are none": (header({"k": "tuple", "v": 7}), b""),
    "blob of negative length": (header(array_node([1]), [-8]), EIGHT),
    "blob longer than the body": (header(array_node([1]), [2**60]), EIGHT),
    "blob length that is none": (header(array_node([1]), [True]), EIGHT),
    "body longer than its blobs": (header(1), EIGHT),
    "blobs without an owner": (header(1, [8]), EIGHT),
    "too many blobs": (header(1, [0] * 20_000), b""),
    "negative blob index": (header(array_node([1], blob=-1), [8]), EIGHT),
    "blob index out of range": (header(array_node([1], blob=1), [8]), EIGHT),
    "blob index that is none": (header(array_node([1], blob="0"), [8]), EIGHT),
    "one blob used twice": (header([array_node([1])] * 2, [8]), EIGHT),
    "object dtype": (header(array_node([1], "|O"), [8]), EIGHT),
    "void dtype": (header(array_node([1], "|V8"), [8]), EIGHT),
    "structured dtype": (header(array_node([1], "f8,f8"), [8]), EIGHT),
    "dtype that is none": (header(array_node([1], "<f7"), [8]), EIGHT),
    "dtype that is no text": (header(array_node([1], ["<f8"]), [8]), EIGHT),
    "dtype of no bytes": (header(array_node([1], "<U0"), [0]), b""),
    "shape beyond the bytes": (header(array_node([2**40]), [8]), EIGHT),
    "shape whose product overflows": (header(array_node([2**62, 4]), [8]), EIGHT),
    "empty shape that overflows": (header(array_node([0, 2**62, 2**62]), [0]), b""),
    "negative shape": (header(array_node([-1]), [8]), EIGHT),
    "shape of text": (header(array_node("1"), [8]), EIGHT),
    "too many axes": (header(array_node([1] * 65), [8]), EIGHT),
    "boolean of two": (header(array_node([1], "|b1"), [1]), b"\2"),
    "scalar with a shape": (header({**array_node([1]), "k": "scalar"}, [8]), EIGHT),
    "index beyond the columns": csr_parts([1.0], [5], [0, 1], [1, 2]),
    "negative index": csr_parts([1.0], [-1], [0, 1], [1, 2]),
    "pointers that fall": csr_parts([1.0, 1.0], [0, 1], [0, 2, 1], [2, 2]),
    "pointers beyond the data": csr_parts([1.0], [0], [0, 9], [1, 2]),
    "too few pointers": csr_parts([1.0], [0], [0, 1], [9, 2]),
    "sparse of 2^40 rows": csr_parts([1.0], [0], [0], [2**40, 2], "coo"),
    "coordinates outside": csr_parts([1.0], [0], [9], [2, 2], "coo"),
    "sparse of one axis": csr_parts([1.0], [0], [0, 1], [1]),
    "sparse form of another kind": csr_parts([1.0], [0], [0, 1], [1, 2], "bsr"),
    "sparse parts that are none": (header(sparse_node([1, 2], "csr", [1, 2, 3])), b""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_frames_are_refused_with_a_typed_error(name: str) -> None:
    with pytest.raises(WireError):
        decode(*HOSTILE[name])


@pytest.fixture
def pair() -> Any:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def soon() -> float:
    return time.monotonic() + 30


def test_a_frame_crosses_a_socket(pair: Any) -> None:
    ours, theirs = pair
    value = {"x": np.arange(2_000_000.0)}
    sender = threading.Thread(target=send, args=(theirs, Frame.of(7, 1.5, value), soon()))
    sender.start()
    frame = receive(ours, soon())
    sender.join()
    assert (frame.id, frame.seconds) == (7, 1.5)
    np.testing.assert_array_equal(frame.value()["x"], value["x"])


def test_a_peer_that_answers_and_leaves_at_once_is_heard(pair: Any) -> None:
    class LeavesWhenAllIsSaid(socket.socket):
        def sendall(self, data: Any, *options: Any) -> None:
            super().sendall(data, *options)
            send(theirs, Frame.of(1, 0.0, "answer"), soon())
            theirs.close()

    ours, theirs = pair
    with LeavesWhenAllIsSaid(fileno=ours.detach()) as asker:
        send(asker, Frame.of(1, 0.0, "question without a body"), soon())
        assert receive(asker, soon()).value() == "answer"


PREFIX = struct.Struct("!4sQdIQ")


@pytest.mark.parametrize(
    "prefix",
    [
        PREFIX.pack(b"HTTP", 1, 0.0, 2, 0),
        PREFIX.pack(b"i101", 1, 0.0, 2**32 - 1, 0),
        PREFIX.pack(b"i101", 1, 0.0, 2, 2**63),
    ],
)
def test_absurd_prefixes_are_refused_before_anything_is_read(pair: Any, prefix: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(prefix)
    with pytest.raises(WireError):
        receive(ours, soon())


@pytest.mark.parametrize("sent", [b"", b"i101", PREFIX.pack(b"i101", 1, 0.0, 10, 2**20) + b"{}"])
def test_a_closed_channel_is_told_as_such(pair: Any, sent: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(sent)
    theirs.close()
    with pytest.raises(PeerGone):
        receive(ours, soon())
    with pytest.raises(PeerGone):
        send(ours, Frame.of(1, 0.0, np.zeros(1_000_000)), soon())


def test_waiting_ends_at_the_deadline(pair: Any) -> None:
    ours, theirs = pair
    with pytest.raises(TimeoutError):
        receive(ours, time.monotonic() - 1)
    theirs.sendall(b"i1")
    with pytest.raises(TimeoutError):
        receive(ours, time.monotonic() + 0.05)
