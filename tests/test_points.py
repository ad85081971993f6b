"""Points that lie as NumPy has them, one row of a few numbers after the other: loops over them read
what is near, and keys into them are tested in one loop."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

M = nap.compile("""
def nearest(p: n=>Fin(3)=>Float, q: m=>Fin(3)=>Float) -> m=>n =
    [argmin(sum((p[i, c] - q[j, c]) ** 2 for c) for i) for j]

def areas(v: n=>Fin(3)=>Float, corners: m=>Fin(3)=>n) -> m=>Float:
    for t:
        (a, b) = (v[corners[t, 1]] - v[corners[t, 0]], v[corners[t, 2]] - v[corners[t, 0]])
        0.5 * sqrt((a[1] * b[2] - a[2] * b[1]) ** 2 + (a[2] * b[0] - a[0] * b[2]) ** 2
                   + (a[0] * b[1] - a[1] * b[0]) ** 2)
""")


@pytest.mark.parametrize("m", [0, 1, 7, 16, 33])
def test_the_nearest_of_many_points(m: int, threads: None) -> None:
    r = np.random.default_rng(m)
    p, q = r.random((20, 3)), r.random((m, 3))
    p[7] = p[3]  # the first of two
    q[: m // 4] = p[3]
    far = ((p - q[:, None]) ** 2).sum(-1)
    np.testing.assert_array_equal(M.nearest(p, q), far.argmin(1))


def test_each_point_looks_by_itself_in_lanes() -> None:
    """What it is compared by lies three numbers apart: it is laid out in front of the loop."""
    M.nearest(np.ones((2, 3)), np.ones((2, 3)))
    text = M.nearest.show("loops")
    assert "lanes for lane in 0..16" in text
    assert "allocate small q_2: f64[3, 16]" in text


@pytest.mark.parametrize("m", [0, 1, 9, 3000])
def test_areas_of_a_mesh(m: int, threads: None) -> None:
    r = np.random.default_rng(m)
    v, corners = r.random((50, 3)), r.integers(0, 50, (m, 3))
    a, b, c = (v[corners[:, k]] for k in range(3))
    want = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    np.testing.assert_allclose(M.areas(v, corners), want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("at", [(0, 0), (2500, 1), (2999, 2)])
def test_a_corner_outside(at: tuple[int, int]) -> None:
    corners = np.zeros((3000, 3), int)
    corners[at] = 50
    with pytest.raises(IndexError, match="50"):
        M.areas(np.ones((50, 3)), corners)


def test_the_corners_are_tested_in_one_loop_as_they_lie() -> None:
    text = M.areas.show("loops")
    assert text.count("corners[t // 3, wrap(t, 3)] !=") == text.count(" != ") == 1
    assert "parallel for k" not in text
    assert "v[clamp(" not in text


@pytest.mark.parametrize("f", ["u[clamp(e[t, 0])] + u[clamp(e[t, 1])]", "u[e[t, 1]] + u[e[t, 0]]"])
def test_only_what_is_asked_of_all_is_asked_along_rows(f: str) -> None:
    """Of rows of three only two are keys."""
    of = "Int" if "clamp" in f else "n"
    g = nap.compile(f"def g(u: n=>Float, e: m=>Fin(3)=>{of}) -> m=>Float = [{f} for t]").g
    r = np.random.default_rng(1)
    u, e = r.random(9), r.integers(0, 9, (2100, 3))
    np.testing.assert_array_equal(g(u, e), u[e[:, 0]] + u[e[:, 1]])


RADII = """
def radii(p: n=>Fin(3)=>Float, bins: Int, most: Float) -> Fin(bins)=>Int:
    with accum() as h:
        for i, j if i < j:
            r = sqrt(sum((p[i, c] - p[j, c]) ** 2 for c))
            if r < most: h[clamp(Int(r / most * Float(bins)))] += 1
"""


def test_a_check_of_sizes_for_some_pairs_keeps_nothing_of_all_pairs(threads: None) -> None:
    """There is a bin for each pair that is near enough, or the run stops; what `bins` is as a
    float is known before."""
    f = nap.compile(RADII).radii
    p = np.random.default_rng(0).random((40, 3))
    r = np.sqrt(((p - p[:, None]) ** 2).sum(-1))[np.triu_indices(40, 1)]
    np.testing.assert_array_equal(f(p, 7, 0.8), np.histogram(r[r < 0.8], 7, (0.0, 0.8))[0])
    assert "f64[n, n]" not in f.show("loops")
    assert f(p * 100.0, 0, 0.1).shape == (0,)
    with pytest.raises(nap.RunError, match=r"no element|empty"):
        f(p, 0, 0.8)
