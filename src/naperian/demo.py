"""`nap demo`: a Naperian program on a real photograph, beside the same in NumPy.

Needs the extra `naperian[demo]`: Pillow reads and writes pictures, and Matplotlib draws the
histogram and brings the photograph (Grace Hopper, United States Navy, public domain).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image, UnidentifiedImageError

import naperian as nap
from naperian import cli
from naperian.node import node
from naperian.values import duration

PROGRAM = Path(__file__).parent / "library" / "photo.nap"
Array = np.ndarray[Any, np.dtype[Any]]
_RUNS = 7


@node
class Step:
    """One definition of the program with its argument, and the same in NumPy."""

    name: str
    does: str
    argument: Array
    numpy: Callable[[Array], Array]


@node
class Outcome:
    """What a step gave, and how long compiling, running and NumPy took, in seconds."""

    result: Array
    compile: float
    run: float
    numpy: float
    difference: float


def run(options: argparse.Namespace) -> int:
    """The command `nap demo`."""
    photo = photograph(options.photo)
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise cli.UsageError(f"cannot make the directory {out}: {e.strerror}") from None
    load = nap.load  # this imports the compiler, which is not to count as compiling
    start = time.perf_counter()
    module = load(PROGRAM)
    checked = time.perf_counter() - start
    outcomes = {}
    grey = np.asarray(module["grey"](photo))
    levels = np.rint(grey).astype(np.uint8)
    steps = [
        Step("grey", "brightness of each pixel", photo, grey_numpy),
        Step("blur", "5×5 binomial blur", grey, blur_numpy),
        Step("edges", "Sobel edges", grey, edges_numpy),
        Step("histogram", "how often each level occurs", levels, histogram_numpy),
        Step("equalise", "histogram equalisation", levels, equalise_numpy),
    ]
    for step in steps:
        outcomes[step.name] = measured(load(PROGRAM), step)
    files = pictures(out, photo, outcomes)
    if options.json:
        cli.emit(
            {
                "photo": photo.shape,
                "files": [str(f) for f in files],
                "steps": {
                    s.name: {
                        "type": module[s.name].type,
                        "compile_s": outcomes[s.name].compile,
                        "run_s": outcomes[s.name].run,
                        "numpy_s": outcomes[s.name].numpy,
                        "difference": outcomes[s.name].difference,
                    }
                    for s in steps
                },
            }
        )
    else:
        tell(module, checked, photo, steps, outcomes, files)
    return cli.OK


def photograph(path: str | None) -> Array:
    """The photograph as height × width × 3 bytes."""
    chosen = path or str(Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg"))
    try:
        with Image.open(chosen) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError) as e:
        raise cli.UsageError(f"cannot read the photograph {chosen}: {e}") from None


def measured(module: nap.Module, step: Step) -> Outcome:
    """Run a step in a module that has compiled nothing yet."""
    function = module[step.name]
    start = time.perf_counter()
    result = np.asarray(function(step.argument))
    first = time.perf_counter() - start
    ours, theirs = [], []
    for _ in range(_RUNS):
        start = time.perf_counter()
        function(step.argument)
        middle = time.perf_counter()
        expected = step.numpy(step.argument)
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
    run = sorted(ours)[_RUNS // 2]
    difference = float(np.abs(result.astype(float) - expected.astype(float)).max())
    return Outcome(result, max(first - run, 0.0), run, sorted(theirs)[_RUNS // 2], difference)


# ---------------------------------------------------------------- the same in NumPy


def grey_numpy(photo: Array) -> Array:
    return np.asarray(photo @ np.array([0.299, 0.587, 0.114]))


def blur_numpy(image: Array) -> Array:
    weight = np.array([1, 4, 6, 4, 1]) / 16
    h, w = image.shape
    wide = np.pad(image, ((0, 0), (2, 2)), mode="edge")
    across = sum(weight[a] * wide[:, a : a + w] for a in range(5))
    high = np.pad(across, ((2, 2), (0, 0)), mode="edge")
    return np.asarray(sum(weight[a] * high[a : a + h] for a in range(5)))


def edges_numpy(image: Array) -> Array:
    h, w = image.shape
    p = np.pad(image, 1, mode="edge")
    dx, dy = np.zeros((h, w)), np.zeros((h, w))
    for a, weight in enumerate((1.0, 2.0, 1.0)):
        dx += weight * (p[a : a + h, 2:] - p[a : a + h, :-2])
        dy += weight * (p[2:, a : a + w] - p[:-2, a : a + w])
    return np.asarray(np.sqrt(dx**2 + dy**2))


def histogram_numpy(levels: Array) -> Array:
    return np.bincount(levels.ravel(), minlength=256)


def equalise_numpy(levels: Array) -> Array:
    below = np.cumsum(histogram_numpy(levels))
    first = below[below > 0][0]
    spread = 255.0 * np.maximum(below - first, 0) / max(levels.size - first, 1)
    return np.asarray(np.rint(spread).astype(np.uint8)[levels])


# ---------------------------------------------------------------- what comes out


def pictures(out: Path, photo: Array, outcomes: dict[str, Outcome]) -> list[Path]:
    """Write the pictures; their paths."""
    edges = outcomes["edges"].result
    images = {
        "photo": photo,
        "blur": outcomes["blur"].result,
        "edges": edges * (255.0 / max(edges.max(), 1.0)),
        "equalised": outcomes["equalise"].result,
    }
    files = []
    for name, image in images.items():
        files.append(out / f"{name}.png")
        Image.fromarray(np.rint(image).astype(np.uint8)).save(files[-1])
    files.append(out / "histogram.png")
    equalised = histogram_numpy(images["equalised"])
    plot(outcomes["histogram"].result, equalised).savefig(files[-1], dpi=100)
    files.append(out / "all.png")
    contact_sheet([np.rint(i).astype(np.uint8) for i in images.values()]).save(files[-1])
    return files


def plot(before: Array, after: Array) -> Figure:
    """The histogram of the photograph and of its equalised form."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(range(256), before, step="mid", alpha=0.6, label="photograph")
    axes.step(range(256), after, where="mid", lw=0.8, color="black", label="equalised")
    axes.set(xlabel="level of grey", ylabel="pixels", xlim=(0, 255), ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def contact_sheet(images: list[Array], height: int = 150) -> Image.Image:
    """The pictures side by side."""
    small = []
    for image in images:
        picture = Image.fromarray(image).convert("RGB")
        small.append(picture.resize((picture.width * height // picture.height, height)))
    sheet = Image.new("RGB", (sum(p.width for p in small) + 6 * (len(small) - 1), height), "white")
    at = 0
    for picture in small:
        sheet.paste(picture, (at, 0))
        at += picture.width + 6
    return sheet


def tell(
    module: nap.Module,
    checked: float,
    photo: Array,
    steps: list[Step],
    outcomes: dict[str, Outcome],
    files: list[Path],
) -> None:
    """Print what was done."""
    h, w = photo.shape[:2]
    print(f"{PROGRAM.name}, read and checked in {duration(checked)}, on a photo of {w}×{h} pixels:")
    print()
    for step in steps:
        print(f"  {step.name} : {module[step.name].type}")
    print()
    print(f"  {'':10}{'compile':>10}{'run':>10}{'NumPy':>10}{'NumPy/run':>11}   difference")
    for step in steps:
        o = outcomes[step.name]
        print(
            f"  {step.name:10}{duration(o.compile):>10}{duration(o.run):>10}"
            f"{duration(o.numpy):>10}{o.numpy / o.run:>10.1f}×   {o.difference:.2g}  ({step.does})"
        )
    print()
    print("compile: what the first call took longer; code compiled before comes from the cache")
    print("wrote " + ", ".join(str(f) for f in files))
