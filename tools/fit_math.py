"""Minimax polynomials for `naperian/backends/functions/coefficients.py`.

    python tools/fit_math.py > src/naperian/backends/functions/coefficients.py

Each entry is the smooth even or ordinary remainder of a function after its leading terms have
been taken out by hand (so that those stay exact), fitted by the Remez exchange in 60 digits and
rounded to double. Degrees are the smallest that put the polynomial's own error well below half a
unit in the last place of the result; `backends/functions/math.py` says how each is used.
"""

from __future__ import annotations

from collections.abc import Callable

from mpmath import mp, mpf

mp.dps = 60


def remez(
    f: Callable[[mpf], mpf], unit: Callable[[mpf], mpf], a: mpf, b: mpf, degree: int
) -> list[mpf]:
    """The polynomial of a degree nearest to f on [a, b], its errors measured in units that may
    differ from point to point; low powers first."""
    n = degree + 2
    middle, half = (a + b) / 2, (b - a) / 2
    xs = [middle - half * mp.cos(mp.pi * k / (n - 1)) for k in range(n)]
    grid = [middle - half * mp.cos(mp.pi * k / (12 * n)) for k in range(12 * n + 1)]
    values = [(f(x), unit(x)) for x in grid]
    coefficients: list[mpf] = []
    for _ in range(16):
        rows, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i, x in enumerate(xs):
            y, power = f(x), mpf(1)
            for j in range(degree + 1):
                rows[i, j] = power
                power *= x
            rows[i, degree + 1] = (-1) ** i * unit(x)
            right[i] = y
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [
            (mp.polyval(coefficients[::-1], x) - y) / u
            for x, (y, u) in zip(grid, values, strict=True)
        ]
        # the extremum of every run of one sign is the next reference point
        peaks: list[int] = []
        for k, e in enumerate(errors):
            if peaks and (e > 0) == (errors[peaks[-1]] > 0):
                if abs(e) > abs(errors[peaks[-1]]):
                    peaks[-1] = k
            else:
                peaks.append(k)
        while len(peaks) > n:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < n:
            break
        moved = [grid[k] for k in peaks]
        if moved == xs:
            break
        xs = moved
    return coefficients


def series(terms: Callable[[int], mpf]) -> Callable[[mpf], mpf]:
    """Σ terms(k)·z^k, for remainders that would cancel near 0."""

    def f(z: mpf) -> mpf:
        total, power = mpf(0), mpf(1)
        for k in range(400):
            step = terms(k) * power
            total += step
            if k > 4 and abs(step) < mpf(10) ** -58 * abs(total):
                break
            power *= z
        return total

    return f


def binomial(k: int) -> mpf:
    return mp.binomial(2 * k, k) / mpf(4) ** k


def scaled_erfcx(t: mpf) -> mpf:
    a = 4 * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)


def erf_points() -> list[tuple[float, float]]:
    """erf p and erf' p, of 64 points a unit."""
    points = (mpf(k) / 64 for k in range(6 * 64 + 1))
    return [(float(mp.erf(p)), float(2 / mp.sqrt(mp.pi) * mp.exp(-p * p))) for p in points]


def erf_steps(degrees: tuple[int, ...]) -> list[list[float]]:
    """What (erf (p + d) - erf p) / (erf' p·d) is, within 1/128 of the points, as polynomials in
    p·d, for each power of d²; it begins with 1 - p·d. Least squares, in which those that are off
    most count more from round to round."""
    rows, right, weights = [], [], []
    terms = [(i, j) for j, top in enumerate(degrees) for i in range(top + 1)][2:]
    for k in range(4 * 64):
        p = mpf(k) / 64
        for m in range(10):
            d = mp.cos(mp.pi * (2 * m + 1) / 20) / 128
            if p + d > 0:
                slope, value = 2 / mp.sqrt(mp.pi) * mp.exp(-p * p), mp.erf(p + d)
                unit = abs(slope * d / value)
                u, z = p * d, d * d
                rows.append([unit * u**i * z**j for i, j in terms])
                right.append(unit * ((value - mp.erf(p)) / (slope * d) - 1 + u))
    weights = [mpf(1)] * len(rows)
    for _ in range(14):
        weighed = mp.matrix([[w * x for x in row] for w, row in zip(weights, rows, strict=True)])
        across = mp.matrix(rows).T
        found = mp.lu_solve(
            across * weighed,
            across * mp.matrix([w * y for w, y in zip(weights, right, strict=True)]),
        )
        off = [abs(mp.fdot(row, found) - y) for row, y in zip(rows, right, strict=True)]
        weights = [w * (e / max(off) + mpf("1e-3")) for w, e in zip(weights, off, strict=True)]
        weights = [w * len(weights) / sum(weights) for w in weights]
    known = {(0, 0): 1.0, (1, 0): -1.0}
    known |= {term: float(x) for term, x in zip(terms, found, strict=True)}
    return [[known[i, j] for i in range(top + 1)] for j, top in enumerate(degrees)]


def log_erfc(a: mpf) -> mpf:
    return mp.log(mp.erfc(a)) / a if a else -2 / mp.sqrt(mp.pi)


def log_erfc_unit(a: mpf) -> mpf:
    """What changes erf a = 1 - e^(a·q) by as much as its last place."""
    return mp.erf(a) / (a * mp.erfc(a)) if a else 2 / mp.sqrt(mp.pi)


def stirling(w: mpf) -> mpf:
    """z·(ln Γ(z) - (z - ½)·ln z + z - ½·ln 2π), w = 1/z²."""
    if w < mpf(10) ** -8:
        return sum(mp.bernoulli(2 * k + 2) / ((2 * k + 2) * (2 * k + 1)) * w**k for k in range(7))
    z = 1 / mp.sqrt(w)
    return z * (mp.loggamma(z) - (z - 0.5) * mp.log(z) + z - mp.log(2 * mp.pi) / 2)


fact = mp.factorial
# name: (function, low, high, degree for f64, degree for f32)
TABLE: dict[str, tuple[Callable[[mpf], mpf], mpf, mpf, int, int]] = {
    # (e^r - 1 - r) / r²
    "EXP": (series(lambda k: 1 / fact(k + 2)), -mp.ln2 / 2, mp.ln2 / 2, 10, 5),
    # (2^r - 1) / r
    "EXP2": (series(lambda k: mp.ln2 ** (k + 1) / fact(k + 1)), mpf(-0.5), mpf(0.5), 11, 6),
    # (2 artanh(s) / s - 2) / z, z = s²
    "LOG": (series(lambda k: mpf(2) / (2 * k + 3)), mpf(0), mpf("0.02945"), 6, 3),
    # (artanh(s) / s - 1 - z/3) / z²
    "LOG_TAIL": (series(lambda k: mpf(1) / (2 * k + 5)), mpf(0), mpf("0.02945"), 7, 0),
    # (sin r - r) / r³ up to π/2, and up to π/4; (cos r - 1 + z/2) / z²
    "SIN": (series(lambda k: (-1) ** (k + 1) / fact(2 * k + 3)), mpf(0), mpf("2.4676"), 8, 4),
    "SIN_SHORT": (series(lambda k: (-1) ** (k + 1) / fact(2 * k + 3)), mpf(0), mpf("0.618"), 5, 2),
    "COS_SHORT": (series(lambda k: (-1) ** k / fact(2 * k + 4)), mpf(0), mpf("0.618"), 5, 2),
    # (arcsin s - s) / s³
    "ASIN": (series(lambda k: binomial(k + 1) / (2 * k + 3)), mpf(0), mpf("0.25"), 12, 5),
    # (arctan t - t) / t³
    "ATAN": (series(lambda k: (-1) ** (k + 1) / mpf(2 * k + 3)), mpf(0), mpf("0.1717"), 11, 4),
    # (sinh a - a) / a³
    "SINH": (series(lambda k: 1 / fact(2 * k + 3)), mpf(0), mpf(1), 6, 3),
    # ln(erfc a) / a
    "LOG_ERFC": (log_erfc, mpf(0), mpf("5.95"), 0, 9),
    # erf(x) / x - 2/√π, over z
    "ERF": (
        series(lambda k: (-1) ** (k + 1) * 2 / mp.sqrt(mp.pi) / (fact(k + 1) * (2 * k + 3))),
        mpf(0), mpf(1) / 16, 6, 3,
    ),
    # (1 + 2a) e^(a²) erfc(a), t = (a - 4) / (a + 4)
    "ERFCX": (scaled_erfcx, mpf(-1), mpf("0.7502"), 22, 10),
    # ∛m, to be improved by one step of Halley's
    "CBRT": (mp.cbrt, mpf(1), mpf(2), 7, 3),
    # what Stirling's formula leaves of ln Γ(z), times z, over 1/z², for z >= 8
    "STIRLING": (stirling, mpf(0), mpf(1) / 64, 5, 0),
}  # fmt: skip

# Where it is not the relative error that counts.
UNITS = {"LOG_ERFC": log_erfc_unit}

# Constants as sums of numbers of one precision, most significant first.
CONSTANTS: dict[str, mpf] = {
    "LN2": mp.ln2,
    "LOG2_E": 1 / mp.ln2,
    "LOG10_2": mp.log10(2),
    "LOG10_E": 1 / mp.ln(10),
    "HALF_PI": mp.pi / 2,
    "TWO_OVER_ROOT_PI": 2 / mp.sqrt(mp.pi),
    "LOG_ROOT_2PI": mp.log(2 * mp.pi) / 2,
    "CBRT_2": mp.cbrt(2),
    "CBRT_4": mp.cbrt(4),
}


def parts(x: mpf, bits: int, count: int) -> list[float]:
    out = []
    for _ in range(count):
        mp.prec, keep = bits, mp.prec
        top = +x
        mp.prec = keep
        out.append(float(top))
        x -= top
    return out


def main() -> None:
    print('"""Minimax coefficients, low powers first. Written by `tools/fit_math.py`."""\n')
    print("# fmt: off")
    for name, value in CONSTANTS.items():
        print(f"{name}_64 = {tuple(parts(value, 53, 3))}")
        print(f"{name}_32 = {tuple(parts(value, 24, 3))}")
    for name, (f, a, b, wide, narrow) in TABLE.items():
        for bits, degree in ((64, wide), (32, narrow)):
            if not degree:
                continue
            print(f"{name}_{bits} = (")
            for c in remez(f, UNITS.get(name, lambda x, f=f: abs(f(x))), a, b, degree):
                print(f"    {float(c)!r},")
            print(")")
    print("ERF_STEP = (")
    for polynomial in erf_steps((5, 3, 1, 0)):
        print(f"    {tuple(polynomial)!r},")
    print(")")
    print("ERF_POINTS = (")
    points = erf_points()
    for k in range(0, len(points), 2):
        print(f"    {', '.join(map(repr, points[k : k + 2]))},")
    print(")")


if __name__ == "__main__":
    main()
