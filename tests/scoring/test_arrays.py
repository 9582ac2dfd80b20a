"""Submitted files are hostile until they are plain numbers."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

from pytest_imaging101.scoring.arrays import Kind, NotComparable, kind_of, load_array


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def forged(header: str, content: bytes = b"") -> bytes:
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def described(shape: str, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "f4", "f2", "i4", "u1", "bool", "longdouble"])
def test_every_real_type_becomes_float64(dtype: str) -> None:
    array = np.array([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    loaded = load_array(npy(array), (2, 3), "real")
    assert loaded.dtype == np.float64
    np.testing.assert_array_equal(loaded, array)


def test_fortran_order_and_complex_arrays_keep_their_values() -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3) * (1 + 2j)).astype(np.complex64)
    loaded = load_array(npy(array), (2, 3), "complex")
    assert loaded.dtype == np.complex128
    np.testing.assert_array_equal(loaded, array)


def test_an_axis_may_have_any_length() -> None:
    assert load_array(npy(np.ones((7, 2))), (None, 2), "real").shape == (7, 2)
    assert load_array(npy(np.ones((7, 2))), None, "real").shape == (7, 2)


def zip_file() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", b"x")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "kind", "sentence"),
    [
        (b"", "real", "is empty"),
        (b"hello", "real", "not an .npy file"),
        (zip_file(), "real", "zip archive"),
        (npy(np.array([{}, 1], dtype=object), allow_pickle=True), "real", "is not a number"),
        (npy(np.zeros(2, dtype=[("a", "f8"), ("b", "i4")])), "real", "is not a number"),
        (npy(np.array(["a", "b"])), "real", "is not a number"),
        (npy(np.array([1, 2], dtype="M8[s]")), "real", "is not a number"),
        (npy(np.ones(3)), "real", r"shape is \(3,\) instead of \(2\)"),
        (npy(np.ones((2, 1))), "real", "shape"),
        (npy(np.ones(2) * 1j), "real", "is complex .* where a real one is expected"),
        (npy(np.ones(2)), "complex", "is real .* where a complex one is expected"),
        (npy(np.array([1.0, np.nan])), "real", "1 of the array's 2 values are not finite"),
        (npy(np.array([1.0, np.inf * 1j])), "complex", "not finite"),
        (npy(np.ones(2))[:-1], "real", "cut short"),
        (forged(described("(2,)")), "real", "cut short"),
        (forged(described("(-2,)")), "real", "impossible shape"),
        (forged(described("(True,)")), "real", "impossible shape"),
        (forged("{" * 3000), "real", "header cannot be read"),
        (forged("(" * 3000), "real", "header cannot be read"),
        (forged("0" * 60_000), "real", "header cannot be read"),
        (forged(described("(2,)", "'|O'"), b"cos\nsystem\n(S'true'\ntR."), "real", "is not a number"),
        (b"\x93NUMPY\x09\x00" + b"x" * 100, "real", "header|format"),
    ],
)
def test_what_is_no_plain_array_is_a_miss_with_its_reason(data: bytes, kind: Kind, sentence: str) -> None:
    with pytest.raises(NotComparable, match=sentence):
        load_array(data, (2,), kind)


def test_a_claim_of_petabytes_allocates_nothing() -> None:
    huge = (2**20, 2**30)
    with pytest.raises(NotComparable, match="cut short"):
        load_array(forged(described(str(huge)), b"\0" * 64), huge, "real")
    with pytest.raises(NotComparable, match="shape"):
        load_array(forged(described(str(huge)), b"\0" * 64), (4,), "real")


def test_a_value_too_large_for_float64_is_not_finite() -> None:
    huge = np.array(["1e400", "1"], dtype=np.longdouble)
    with pytest.raises(NotComparable, match="not finite"):
        load_array(npy(huge), (2,), "real")


def test_an_empty_array_is_a_miss() -> None:
    with pytest.raises(NotComparable, match="empty"):
        load_array(npy(np.ones((0, 3))), (None, 3), "real")


def test_kind_of_a_dtype() -> None:
    assert [kind_of(name) for name in ("float64", "int32", "complex64")] == ["real", "real", "complex"]
    for name in ("object", "str", "nonsense"):
        with pytest.raises(ValueError, match="not a numeric dtype"):
            kind_of(name)
