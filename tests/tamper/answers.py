"""Attacks by what a function returns or raises: each is a function of one module, with a test of its own.

One attempt examines them all. Every check of it must fail, on the visible and on the hidden fixtures.
"""

from __future__ import annotations

from pathlib import Path

ANSWERS = '''"""Functions that try to pass without being right."""

import datetime
import os
import sys
import time
import unittest

import numpy as np


class AlwaysEqual:
    __array_priority__ = 1e9
    __eq__ = __ge__ = __le__ = __contains__ = __bool__ = __call__ = lambda *args, **kwargs: True
    __ne__ = __lt__ = __gt__ = lambda *args, **kwargs: False
    __sub__ = __rsub__ = __abs__ = __getitem__ = __getattr__ = lambda self, *args: self
    __float__ = lambda self: 0.0
    __hash__ = None


class EqualFloat(float):
    __eq__ = lambda *args: True
    __ne__ = lambda *args: False
    __sub__ = __rsub__ = lambda *args: 0.0


class EqualArray(np.ndarray):
    __array_priority__ = 1e9
    __eq__ = lambda *args: np.True_
    __array_function__ = lambda self, *args, **kwargs: np.True_
    __array_ufunc__ = lambda self, *args, **kwargs: np.True_


class SaysItIsAnArray:
    __class__ = property(lambda self: np.ndarray)
    dtype, shape, ndim, size, nbytes = np.dtype(float), (), 0, 1, 8


class SaysItIsADict(dict):
    def items(self):
        while True:
            yield 1, 1


class Meta(type):
    __name__ = property(lambda cls: 1 / 0)
    __mro__ = property(lambda cls: ())


class Unspeakable(Exception, metaclass=Meta):
    __str__ = __repr__ = lambda self: 1 / 0


def always_equal(y):
    return AlwaysEqual()


def always_equal_array(y):
    return np.zeros_like(y).view(EqualArray)


def always_equal_float(y):
    return EqualFloat(0.0)


def class_lies(y):
    return SaysItIsAnArray()


def zeros(y):
    return np.zeros_like(y)


def echo(y):
    return y


def nan(y):
    return y * np.nan


def everything_masked(y):
    return np.ma.masked_all(y.shape)


def empty(y):
    return np.empty((0,))


def broadcastable(y):
    return np.full((1, 1), y.mean())


def object_array(y):
    array = np.empty(y.shape, dtype=object)
    array[...] = AlwaysEqual()
    return array


def records(y):
    return np.zeros(y.shape, dtype=[("a", object)])


def texts(y):
    return np.full(y.shape, "nan")


def not_a_time(y):
    return np.full(y.shape, np.timedelta64("NaT"))


def million_elements(y):
    return [[0.0] * 1000 for _ in range(1000)]


def hundred_thousand_deep(y):
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def contains_itself(y):
    value = [1.0]
    value.append(value)
    return value


def never_ends(y):
    return SaysItIsADict()


def keys_that_collide(y):
    return {n * (2**61 - 1): None for n in range(1, 60_000)}


def million_digits(y):
    return 1 << 4_000_000


def hundred_megabytes(y):
    return np.zeros(13_000_000)


def gigabyte(y):
    return np.zeros(2**27)


def skips(y):
    raise unittest.SkipTest("not here")


def skips_as_pytest_does(y):
    raise type("Skipped", (BaseException,), {"__module__": "_pytest.outcomes"})("not here")


def interrupts(y):
    raise KeyboardInterrupt


def stops_iteration(y):
    raise StopIteration(y)


def unspeakable(y):
    raise Unspeakable


def exits(y):
    sys.exit(0)


def exits_at_once(y):
    os._exit(0)


def takes_for_ever(y):
    time.sleep(1000)


def rewrites_its_argument(y):
    y[...] = 1.0
    return np.zeros_like(y)


not_a_function = np.zeros(3)
'''

FUNCTIONS = tuple(line[4:].partition("(")[0] for line in ANSWERS.splitlines() if line.startswith("def "))
FUNCTIONS = (*FUNCTIONS, "not_a_function", "missing_function")
"""Names of the attacks."""

TESTS = f'''"""Each function must invert the reading y = 2 x + 1."""

import os
from pathlib import Path

import numpy as np
import pytest

from src import answers

CASE = Path(os.environ.get("IMAGING101_FIXTURES", "evaluation/fixtures")) / "answers" / "case.npz"


@pytest.mark.parametrize("name", {FUNCTIONS!r})
def test(name):
    with np.load(CASE) as case:
        y = case["y"]
    found = getattr(answers, name)(y)
    np.testing.assert_allclose(found, (y - 1.0) / 2.0, rtol=1e-12)
'''


def add_answers(task: Path) -> None:
    """Give a toy task a module ``answers``, whose every function inverts, and its tests."""
    import numpy as np

    reference = "".join(f"def {name}(y):\n    return (y - 1.0) / 2.0\n\n\n" for name in FUNCTIONS)
    settings = task / "task.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace('"solvers"]', '"solvers", "answers"]'), encoding="utf-8")
    (task / "src/answers.py").write_text(reference, encoding="utf-8")
    (task / "evaluation/tests/test_answers.py").write_text(TESTS, encoding="utf-8")
    for place, shape in (("fixtures", (3, 4)), ("fixtures_hidden", (2, 5))):
        folder = task / "evaluation" / place / "answers"
        folder.mkdir()
        np.savez(folder / "case.npz", y=np.random.default_rng(len(place)).normal(size=shape))
