"""Makes `examples/data/adbench.npz` of ADBench's files, in the layout of the examples' programs.

    python tools/adbench.py FOLDER

`FOLDER` has `gmm/ ba/ lstm/ hand/` with instances as ADBench has them, and `reference.npz`, the
gradients and Jacobians of its hand-differentiated programs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
OUT = Path(__file__).parent.parent / "examples" / "data" / "adbench.npz"


def _numbers(text: str) -> Array:
    return np.array(text.split(), float)


def triangles(packed: Array, d: int) -> tuple[Array, Array]:
    """Logarithms of diagonals, and strict lower triangles: by columns there, by rows here."""
    column, row = np.triu_indices(d, 1)
    return packed[:, :d], packed[:, d:][:, np.lexsort((column, row))]


def gmm(path: Path, gradient: Array) -> dict[str, Array]:
    d, k, n = map(int, path.read_text().split()[:3])
    ends = np.cumsum([3, k, k * d, k * d * (d + 1) // 2, n * d])
    _, alpha, mu, packed, x, prior = np.split(_numbers(path.read_text()), ends)
    q, low = triangles(packed.reshape(k, -1), d)
    d_alpha, d_mu, d_packed = np.split(gradient, np.cumsum([k, k * d]))
    d_q, d_low = triangles(d_packed.reshape(k, -1), d)
    shape = (k, d)
    return {
        "alpha": alpha, "mu": mu.reshape(shape), "q": q, "low": low, "x": x.reshape(n, d),
        "gamma": prior[0], "m": prior[1].astype(int), "d_alpha": d_alpha,
        "d_mu": d_mu.reshape(shape), "d_q": d_q, "d_low": d_low,
    }  # fmt: skip


def lstm(path: Path, gradient: Array) -> dict[str, Array]:
    layers, length, bits = map(int, path.read_text().split()[:3])
    ends = np.cumsum([3, 8 * layers * bits, 3 * bits, 2 * layers * bits])
    _, main, extra, state, text = np.split(_numbers(path.read_text()), ends)
    assert text.size == length * bits
    main, state = main.reshape(layers, 2, 4, bits), state.reshape(layers, 2, bits)
    d_main, d_extra = np.split(gradient, [main.size])
    d_main = d_main.reshape(main.shape)
    return {
        "w": main[:, 0], "bias": main[:, 1], "extra": extra.reshape(3, bits), "hidden": state[:, 0],
        "cell": state[:, 1], "text": text.reshape(-1, bits).astype(bool), "d_w": d_main[:, 0],
        "d_bias": d_main[:, 1], "d_extra": d_extra.reshape(3, bits),
    }  # fmt: skip


def ba(path: Path) -> dict[str, Array]:
    sizes, camera, point, weight, feature = map(_numbers, path.read_text().splitlines()[:5])
    return {"sizes": sizes.astype(int), "camera": camera, "point": point, "weight": weight,
            "feature": feature}  # fmt: skip


def model(folder: Path) -> dict[str, Array]:
    bones, vertices, corners = (
        [line.split(":") for line in (folder / f"{name}.txt").read_text().split()]
        for name in ("bones", "vertices", "triangles")
    )
    weight = np.zeros((len(vertices), len(bones)))
    for of, vertex in zip(weight, vertices, strict=True):
        for bone, share in zip(vertex[9::2], vertex[10::2], strict=False):
            of[int(bone)] = float(share)
    return {
        "parent": np.array([int(b[1]) for b in bones]),
        "base": np.array([b[2:18] for b in bones], float).reshape(-1, 4, 4)[:, :3],
        "inverse": np.array([b[18:34] for b in bones], float).reshape(-1, 4, 4)[:, :3],
        "weight": weight,
        "rest": np.array([v[:3] for v in vertices], float),
        "corners": np.array(corners, int),
    }


def hand(path: Path, jacobian: Array, kind: str) -> dict[str, Array]:
    n = int(path.read_text().split()[0])
    _, seen, more = np.split(_numbers(path.read_text()), [2, 2 + 4 * n])
    seen = seen.reshape(n, 4)
    found = {"index": seen[:, 0].astype(int), "seen": seen[:, 1:], "theta": more[-26:]}
    if more.size > 26:
        found["at"] = more[:-26].reshape(n, 2)
    found["jacobian"] = jacobian.reshape(n, 3, -1)
    return {f"{kind}_{name}": value for name, value in found.items()}


def read(folder: Path) -> dict[str, Array]:
    reference: Mapping[str, Array] = np.load(folder / "reference.npz")
    hands = folder / "hand"
    parts: dict[str, dict[str, Array]] = {
        "gmm": gmm(folder / "gmm" / "gmm_d10_K25.txt", reference["gmm_d10_K25"]),
        "lstm": lstm(folder / "lstm" / "lstm_l2_c1024.txt", reference["lstm_l2_c1024"]),
        "ba": ba(folder / "ba" / "ba1_n49_m7776_p31843.txt"),
        "hand": model(hands / "simple_small" / "model"),
    }
    for kind in ("simple", "complicated"):
        path = hands / f"{kind}_small" / "hand1_t26_c100.txt"
        parts["hand"] |= hand(path, reference[f"{kind}_small__{path.stem}"], kind)
    return {f"{part}_{name}": value for part, had in parts.items() for name, value in had.items()}


if __name__ == "__main__":
    np.savez_compressed(OUT, **read(Path(sys.argv[1])))
