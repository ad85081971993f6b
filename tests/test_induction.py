"""What is proved of counters by induction (`frontend/induction.py`), and what is not."""

from __future__ import annotations

import pytest

import naperian as nap

RIGHT = {
    "rises": "loop k = 0 while k < n and x[k] > 0.0: k + 1",
    "falls": "loop k = n while k > 0 and x[k - 1] > 0.0: k - 1",
    "halves": """(low, _) = loop low = 0, high = n while low < high:
        mid = (low + high) // 2
        if x[mid] < 0.5: (mid + 1, high)
        else: (low, mid)
    low""",
    "is chosen": "loop k = 0 while k < n and x[k] > 0.0: k + 2 if x[k] > 1.0 else k + 1",
    "is read behind the loop": """k = loop k = 0 while k < n and x[k] > 0.0: k + 1
    Int(x[k]) if k < n else 0""",
}

WRONG = {
    "more than where it starts": """(_, _, s) = loop m = n, k = 0, s = 0.0 while k < m and k < 9:
        (m + 1, k + 1, s + x[k])
    Int(s)""",
    "one side falls": "loop k = 0 while k < n and x[k] > 0.0: k - 1 if x[k] > 1.0 else k + 1",
    "falls around": """k = loop k = n while x.get(k, 1.0) > 0.0: k - 1
    Int(x[k - 1]) if k >= 1 else 0""",
    "rises around": """k = loop k = 1 while k < 5000000000000000000: 4 * k
    Int(x[k]) if k < n else 0""",
    "an inner loop falls": """loop k = 0 while k < n and x[k] > 0.0:
        loop j = k while j > -3: j - 1""",
    "two are exchanged": """(_, _, s) = loop a = 0, b = d, s = 0.0 while a < n and s < 3.0:
        (b, a, s + x[a])
    Int(s)""",
    "starts anywhere": "loop k = n - 3 while k < n and x[k] > 0.0: k + 1",
    "another of the name falls": """a = loop k = 0 while k < n and x[k] > 0.0: k + 1
    b = loop k = 0 while k > -5: k - 1
    Int(x[b]) + a if b < n else 0""",
    "adds data": """loop k = 0 while k < n and x[k] > 0.0:
        j = k + d
        j""",
}


def program(body: str) -> str:
    return f"def f(x: Fin(n)=>Float, d: Int) -> Int:\n    {body}\n"


@pytest.mark.parametrize(("what", "wanted"), [*zip(RIGHT, (3, 4, 2, 6, -2), strict=True)])
def test_what_no_round_breaks_is_proved(what: str, wanted: int) -> None:
    f = nap.compile(program(RIGHT[what])).f
    assert f([], 0) == 0
    assert f([0.2, 0.3, 1.5, -2.0, 4.0], 0) == wanted
    assert not nap.check(f, seconds=1).findings


@pytest.mark.parametrize("what", WRONG)
def test_what_some_round_breaks_is_not(what: str) -> None:
    with pytest.raises(nap.CompileError, match=r"N0404.*can fall outside"):
        nap.compile(program(WRONG[what]))
