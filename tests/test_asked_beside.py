"""Whether indices of an accumulation's rows are in range is asked in the loop that uses them."""

import numpy as np
import pytest

import naperian as nap

TEXT = """
def seen(x: n=>f=>Fin(32), g: n=>Float) -> f=>Fin(32)=>Float:
    with accum() as h:
        for i, j: h[j, x[i, j]] += g[i]
"""


@pytest.mark.parametrize("f", [1, 2, 16, 33])
def test_rows_of_indices(f: int) -> None:
    m, r = nap.compile(TEXT), np.random.default_rng(f)
    x, g = r.integers(0, 32, (50, f)), r.normal(size=50)
    want = np.zeros((f, 32))
    for row, w in zip(x, g, strict=True):
        want[np.arange(f), row] += w
    np.testing.assert_allclose(m.seen(x, g), want, rtol=1e-12, atol=1e-12)
    for wrong in (-1, 32, 2**40):
        for place in {0, f // 2, f - 1}:
            y = x.copy()
            y[31, place] = wrong
            with pytest.raises(nap.IndexError):
                m.seen(y, g)


def test_one_loop_uses_and_asks() -> None:
    lines = nap.compile(TEXT).seen.show("loops").splitlines()
    loops = [k for k, line in enumerate(lines) if "reducing or" in line]
    assert len(loops) == 1
    assert "update out" in lines[loops[0] + 1]
