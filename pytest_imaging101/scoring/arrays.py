"""Reads an untrusted ``.npy`` file as plain numbers: header before content, no pickles, no surprises."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["real", "complex"]

# A plain header has some 100 bytes; a longer one is an attempt to keep the parser busy.
_MAX_HEADER_BYTES = 4096


class NotComparable(Exception):
    """A submitted array cannot be compared with the truth; the sentence says why. A miss, never a fault."""


def kind_of(dtype: str) -> Kind:
    """The kind of array that a dtype's name stands for. Raises ValueError for a dtype that is no number."""
    import numpy as np

    try:
        kind: str = np.dtype(dtype).kind
    except TypeError:
        kind = ""
    if kind not in set("fiubc"):
        raise ValueError(f"{dtype!r} is not a numeric dtype")
    return "complex" if kind == "c" else "real"


def load_array(
    data: bytes, expected_shape: Sequence[int | None] | None, kind: Kind
) -> NDArray[np.float64 | np.complex128]:
    """The array in an ``.npy`` file as float64 or complex128.

    Parameters
    ----------
    data : bytes
        The whole file; at most these many bytes are ever made into an array, whatever the header claims.
    expected_shape : sequence of int or None
        Exact shape; None in it stands for any length of that axis, None for it for any shape.
    kind : "real" or "complex"
        Integers, booleans and any float are real; a real array is not taken for a complex one or the reverse.

    Raises
    ------
    NotComparable
        With the reason: not an ``.npy`` file, a pickle, not numeric, cut short, not finite, wrong in shape
        or kind.
    """
    import numpy as np

    shape, fortran_order, dtype, offset = _header(data)
    if dtype.kind not in set("fiubc"):
        raise NotComparable(f"the array's dtype {_short(dtype)} is not a number")
    if expected_shape is not None and not _fits(shape, expected_shape):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in expected_shape) + ")"
        raise NotComparable(f"the array's shape is {_short(shape)} instead of {wanted}")
    if (dtype.kind == "c") != (kind == "complex"):
        found = "complex" if dtype.kind == "c" else "real"
        raise NotComparable(f"the array is {found} ({dtype}) where a {kind} one is expected")
    count = math.prod(shape)
    if count == 0:
        raise NotComparable(f"the array is empty (shape {_short(shape)})")
    if count * dtype.itemsize > len(data) - offset:
        raise NotComparable(
            f"the file is cut short: its header promises {count * dtype.itemsize} bytes of values and "
            f"{len(data) - offset} are there"
        )
    values = np.frombuffer(data, dtype=dtype, count=count, offset=offset)
    array = values.reshape(shape, order="F" if fortran_order else "C")
    with np.errstate(over="ignore"):
        converted: NDArray[np.float64 | np.complex128] = array.astype(
            np.complex128 if kind == "complex" else np.float64, order="C"
        )
    finite = np.isfinite(converted)
    if not finite.all():
        raise NotComparable(f"{int(count - finite.sum())} of the array's {count} values are not finite")
    return converted


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[np.generic], int]:
    """Shape, order, dtype and where the values start."""
    import numpy as np

    if not data:
        raise NotComparable("the file is empty")
    if data[:2] == b"PK":
        raise NotComparable("the file is a zip archive (.npz), not an .npy file")
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
    except ValueError as error:
        raise NotComparable("the file is not an .npy file") from error
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise NotComparable(
            f"the file has .npy format {version[0]}.{version[1]}, which plain arrays do not use"
        )
    try:
        shape, fortran_order, dtype = readers[version](stream, max_header_size=_MAX_HEADER_BYTES)
    # The header is Python text: parser, tokenizer and dtype each have exceptions of their own for a hostile one.
    except Exception as error:
        raise NotComparable("the file's .npy header cannot be read") from error
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise NotComparable(f"the .npy header claims the impossible shape {_short(shape)}")
    return tuple(shape), fortran_order, dtype, stream.tell()


def _fits(shape: tuple[int, ...], expected: Sequence[int | None]) -> bool:
    return len(shape) == len(expected) and all(
        want is None or have == want for have, want in zip(shape, expected, strict=True)
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."
