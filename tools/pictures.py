"""Draws the pictures of `examples/`: each from its page's own program.

    python tools/pictures.py            all of them
    python tools/pictures.py pi kmeans  some
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import naperian as nap
from naperian import pages

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent.parent / "examples"


def program(name: str) -> Any:
    """The program of a page: its first."""
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return nap.compile(next(c.program for c in pages.claims(page) if c.program))


def kmeans(m: Any) -> None:
    x = np.load(FOLDER / "data" / "digits.npz")["pixels"].reshape(-1, 64).astype(float)
    start = x[np.random.default_rng(7).choice(len(x), 10, replace=False)]
    figure, axes = plt.subplots(1, 10, figsize=(8, 0.9))
    for a, centre in zip(axes, m.kmeans(x, start, 50), strict=True):
        a.imshow(centre.reshape(8, 8), cmap="gray_r")
        a.axis("off")
    figure.tight_layout(pad=0.1)


def pagerank(m: Any) -> None:
    pairs = np.loadtxt(FOLDER / "data" / "karate.txt", dtype=int)
    links = np.zeros((34, 34), int)
    links[pairs[:, 0], pairs[:, 1]] = links[pairs[:, 1], pairs[:, 0]] = 1
    into, source = np.nonzero(links.T)
    rank = m.pagerank(np.searchsorted(into, np.arange(35)), source, links.sum(1), 100)
    laplacian = np.diag(links.sum(1)) - links
    at = np.linalg.eigh(laplacian)[1][:, 1:3]
    plt.figure(figsize=(6, 4))
    for i, j in pairs:
        plt.plot(*at[[i, j]].T, color="0.8", zorder=1, lw=0.7)
    plt.scatter(*at.T, s=rank * 6000, zorder=2)
    for i in np.argsort(-rank)[:6]:
        plt.annotate(str(i), at[i], ha="center", va="center", color="white")
    plt.axis("off")


def pi(m: Any) -> None:
    x, y, hit = m.throws(1, 1000)
    plt.figure(figsize=(4, 4))
    plt.scatter(x, y, c=np.where(hit, "tab:blue", "tab:orange"), s=4)
    plt.gca().set(aspect="equal", xlim=(0, 1), ylim=(0, 1))
    plt.title(f"π ≈ {4 * hit.mean():.3f}")


def particle_filter(m: Any) -> None:
    rng = np.random.default_rng(3)
    truth = np.cumsum(rng.normal(size=200))
    seen = truth + 2 * rng.normal(size=200)
    plt.figure(figsize=(8, 3.5))
    plt.plot(truth, "k", lw=1, label="the truth")
    plt.plot(seen, ".", color="0.6", ms=4, label="what is seen")
    plt.plot(m.track(seen, 1.0, 2.0, 2000, 0), "tab:red", label="the guess of 2 000 particles")
    plt.legend(frameon=False)


def nbody(m: Any) -> None:
    rng = np.random.default_rng(4)
    angle, far = rng.uniform(0, 2 * np.pi, 60), rng.uniform(0.3, 1.5, 60)
    around = np.stack((np.cos(angle), np.sin(angle), 0 * angle), 1)
    at = np.vstack((np.zeros(3), far[:, None] * around))
    turned = around[:, [1, 0, 2]] * (-1, 1, 0) / np.sqrt(far)[:, None]
    speed, mass = np.vstack((np.zeros(3), turned)), np.r_[1.0, np.full(60, 1e-4)]
    path = [at]
    for _ in range(120):
        at, speed = m.simulate(at, speed, mass, 2e-3, 10)
        path.append(at)
    tracks = np.array(path)
    plt.figure(figsize=(4.5, 4.5))
    plt.plot(tracks[..., 0], tracks[..., 1], color="0.75", lw=0.6)
    plt.scatter(*at[:, :2].T, s=200 * np.sqrt(mass), c="tab:blue", zorder=2)
    plt.gca().set(aspect="equal", xlim=(-1.7, 1.7), ylim=(-1.7, 1.7))
    plt.axis("off")


def levenshtein(m: Any) -> None:
    one, two = "levenshtein", "meilenstein"
    d = m.distances(*(np.frombuffer(x.encode(), np.uint8) for x in (one, two)))
    at = (len(one), len(two))
    way = [at]
    while at != (0, 0):
        before = [(at[0] - a, at[1] - b) for a, b in ((1, 1), (1, 0), (0, 1))]
        at = min((x for x in before if min(x) >= 0), key=lambda x: int(d[x]))
        way.append(at)
    plt.figure(figsize=(4.5, 4.2))
    plt.imshow(d, cmap="Blues")
    for (i, j), k in np.ndenumerate(d):
        plt.text(j, i, k, ha="center", va="center", size=7, color="w" if k > 6 else "k")
    plt.plot([j for _, j in way], [i for i, _ in way], "tab:orange", lw=2)
    plt.xticks(range(len(two) + 1), ["", *two])
    plt.yticks(range(len(one) + 1), ["", *one])


def fractals(m: Any) -> None:
    x, y = np.linspace(-1.6, 1.6, 800), np.linspace(-1.0, 1.0, 500)
    root, rounds = m.basins(x, y, 60)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.2))
    axes[0].imshow(np.log(m.julia(x, y, m.Complex(-0.8, 0.156), 300) + 3), cmap="twilight_shifted")
    shade = np.exp(-np.minimum(rounds, 25) / 12)[..., None]
    axes[1].imshow(plt.get_cmap("Set2")(root)[..., :3] * shade)
    for a in axes:
        a.axis("off")
    figure.tight_layout(pad=0.1)


def digits(m: Any) -> None:
    data = np.load(FOLDER / "data" / "digits.npz")
    x, label = data["pixels"].reshape(-1, 64) / 16.0, data["labels"]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    test, train = order[::5], np.delete(order, np.s_[::5])

    def layer(o: int, i: int, scale: float) -> Any:
        return m.Layer(scale * rng.normal(size=(o, i)), np.zeros(o))

    net, speed = (m.Net(layer(64, 64, scale), layer(10, 64, scale)) for scale in (0.1, 0.0))
    losses, right = [], []
    for _ in range(20):
        batches = rng.permutation(train)[:1408].reshape(-1, 32)
        net, speed, loss = m.epoch(net, speed, x, label, batches, 0.1)
        losses.append(loss)
        right.append(np.mean(m.guess(net, x[test]) == label[test]))
    figure, (left, other) = plt.subplots(1, 2, figsize=(8, 2.8))
    left.semilogy(range(1, 21), losses)
    left.set(xlabel="epoch", ylabel="loss", xticks=range(0, 21, 5))
    other.plot(range(1, 21), 100 * np.array(right), "tab:red")
    other.axhline(97, color="0.8", lw=0.8)
    other.set(xlabel="epoch", ylabel="right, % of the test", xticks=range(0, 21, 5))
    figure.tight_layout()


def greeks(m: Any) -> None:
    s, t = np.linspace(60, 140, 161), np.linspace(0.05, 1.0, 96)
    found = m.surface(s, t, 95.0, 0.02, 0.2)
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True)
    for a, name in zip(axes, ("gamma", "vanna", "volga"), strict=True):
        values = getattr(found, name)
        top = np.abs(values).max()
        a.pcolormesh(s, t, values, cmap="RdBu_r", vmin=-top, vmax=top, rasterized=True)
        a.set(title=name, xlabel="price of the share")
    axes[0].set_ylabel("years to go")
    figure.tight_layout()


def hmc(m: Any) -> None:
    x, y = np.meshgrid(np.linspace(-3, 3, 200), np.linspace(-2, 8, 200))
    plt.figure(figsize=(5, 4))
    plt.contour(x, y, np.exp(-0.5 * (x**2 + 4 * (y - x**2) ** 2)), 6, colors="0.7", linewidths=0.8)
    plt.plot(*m.bananas(1, 2000).T, ".", ms=2.5)


def ode_fit(m: Any) -> None:
    rng = np.random.default_rng(0)
    exact = m.solve([1.1, 0.1, 0.05, 0.6], [10.0, 5.0], 0.5, 40)
    seen = exact * (1 + 0.02 * rng.normal(size=exact.shape))
    first = rate = np.array([1.0, 0.08, 0.06, 0.7])
    for k in range(20):
        rate = m.improve(rate, seen, 0.5, 100.0 / 3**k)
    t = 0.5 * np.arange(1, 41)
    plt.figure(figsize=(8, 3))
    for k, (name, colour) in enumerate((("hares", "tab:blue"), ("lynxes", "tab:orange"))):
        plt.plot(t, seen[:, k], ".", color=colour)
        plt.plot(t, m.solve(rate, [10.0, 5.0], 0.5, 40)[:, k], color=colour, label=name)
        plt.plot(t, m.solve(first, [10.0, 5.0], 0.5, 40)[:, k], ":", color=colour)
    plt.legend(frameon=False)


def normals(m: Any) -> None:
    plt.figure(figsize=(6, 4))
    plt.imshow(m.camera(400, 600), cmap="gray", vmin=0, vmax=1)
    plt.axis("off")


def fluid(m: Any) -> None:
    y, x = np.mgrid[:32, :32] - 15.5
    smoke = (np.hypot(y, x) < 8).astype(float)
    goal = np.roll((np.abs(np.hypot(y, x) - 7) < 2.5).astype(float), 3, axis=1)
    v, u = np.zeros((2, 32, 32))
    for _ in range(300):
        _, v, u = m.steer(v, u, smoke, goal, 10, 0.01)
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.6))
    shown = (smoke, goal, m.flow(v, u, smoke, 10))
    for a, f in zip(axes, shown, strict=False):
        a.imshow(f, cmap="gray_r", vmin=0, vmax=1)
    axes[3].quiver(x[::2, ::2], -y[::2, ::2], u[::2, ::2], -v[::2, ::2])
    for a, name in zip(axes, ("start", "goal", "reached", "how it is stirred"), strict=True):
        a.set(title=name, xticks=[], yticks=[], aspect="equal")
    figure.tight_layout()


DRAWN = (
    digits, fluid, fractals, greeks, hmc, kmeans, levenshtein, nbody, normals, ode_fit, pagerank,
    particle_filter, pi,
)  # fmt: skip
PICTURES: dict[str, Callable[[Any], None]] = {f.__name__: f for f in DRAWN}


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](program(name))
        plt.savefig(FOLDER / f"{name}.png", dpi=90, bbox_inches="tight")
        plt.close("all")


if __name__ == "__main__":
    main()
