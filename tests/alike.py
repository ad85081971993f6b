"""Small programs, whose values must not hang on the way they are computed: compiled code beside
the interpreter of core, rows together beside one row after the other, on one thread and on two, at
sizes around those of vectors. `test_alike.py` runs this for AVX2 in double precision, for old
processors in single precision, and, among the long tests, at more sizes in single precision:

    python tests/alike.py [--long] [F32] [name…]

It prints what differs, and at last how many values it compared. In double precision `--long` tries
the derivatives, too, which takes longer than a test may.
"""

from __future__ import annotations

import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import naperian as nap
from naperian import draws, records, trial
from naperian.border import usual
from naperian.core import places
from naperian.core.bounds import Unended
from naperian.draws import Draw
from naperian.dtypes import DType
from naperian.ragged import Ragged

PRELUDE = """
struct Complex:
    re: Float
    im: Float
instance Num(Complex):
    def (+)(z, w) = Complex(z.re + w.re, z.im + w.im)
    def (-)(z, w) = Complex(z.re - w.re, z.im - w.im)
    def (*)(z, w) = Complex(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)
    def number(x) = Complex(Float(x), 0.0)
"""

FLOATS = """
affine(x: n=>Float, y: n=>Float) = [x[i] * y[i] - 0.5 / (1.0 + abs(x[i])) for i]
exponentials(x: n=>Float) = [(exp(x[i]), expm1(x[i]), tanh(x[i]), log1p(abs(x[i]))) for i]
powers(x: n=>Float, y: n=>Float) = [(abs(x[i]) ** y[i], x[i] ** 3, 1.5 ** y[i]) for i]
errors(x: n=>Float) = [(erf(x[i]), erfc(x[i]), gamma(abs(x[i]) + 0.5), cbrt(x[i])) for i]
angles(x: n=>Float, y: n=>Float) = [(atan2(x[i], y[i]), hypot(x[i], y[i]), sin(x[i])) for i]
large(x: n=>Float) = sum(sin(1e6 * x[i]) for i)
added(x: n=>Float) = (sum(x), mean(x ** 2), prod(1.0 + 0.1 * x), max(x), min(abs(x)))
powers_added(u: Float, x: n=>Float) = sum(abs(u) ** x[i] for i)
errors_added(x: n=>Float) = (sum(erf(x[i]) for i), sum(atan2(1.0, x[i]) for i))
gammas_added(x: n=>Float) = (sum(gamma(abs(x[i]) + 0.5) for i), sum(lgamma(1.0 + x[i] ** 2) for i))
best(x: n=>Float) where n >= 1 = (argmax(x), argmin(abs(x)), any(x[i] > 1.0 for i))
both_ways(x: m=>n=>Float) = (sum(sum(x)), [max(x[i]) for i], [sum(x[i, j] for i) for j])
softmaxes(x: m=>n=>Float) = softmax(x)
running(x: n=>Float) = (cumsum(x), scan(max, -inf, x), scan(lambda s, v: 0.5 * s + v, 0.0, x))
triangle(x: n=>Float) -> (i: n)=>(..=i)=>Float = [[x[i] * x[j] + 1.0 for j] for i]
kept(x: n=>Float) = [exp(x[i]) for i if x[i] > 0.0]
rows_kept(x: m=>n=>Float) -> m=>(exists k. Fin(k)=>Float) = [[v for v in r if v > 0.2] for r in x]
gathered(x: n=>Float, k: m=>n) = ([x[k[j]] * 2.0 for j], sum(x[k[j]] ** 2 for j))
product(a: n=>m=>Float, b: m=>n=>Float) = a @ b
quadratic(a: n=>n=>Float, x: n=>Float) = sum(x[i] * a[i, j] * x[j] for i, j)
distances(x: n=>Fin(3)=>Float, y: m=>Fin(3)=>Float) =
    [sqrt(sum((x[i, c] - y[j, c]) ** 2 for c) + 0.01) for i, j]
second(u: Fin(n)=>Float) = [u[clamp(i - 1)] - 2.0 * u[i] + u[wrap(i + 2)] for i]
moved(u: Fin(n)=>Float) = ([u.get(i - 2, 0.5) * u[n - 1 - i] for i in Fin(n)], [0.0, *u, 1.0])
heated(u: Fin(n)=>Float):
    loop v = u for _ in Fin(3): [v[i] + 0.1 * (v[clamp(i - 1)] - v[i]) for i]
settled(x: n=>Float):
    for i:
        loop s = abs(x[i]), k = 0 while s < 10.0 and k < 20: (s * 1.5 + 0.1, k + 1)
carried(x: Fin(n)=>Float):
    with state(x) as s:
        for i in Fin(n):
            for j in i<..: s[j] := s[j] - 0.5 * s[i] * x[j]
counted(x: m=>Float, k: m=>Fin(n)) -> (Fin(n)=>Float, Fin(n)=>Int):
    with accum() as s, accum() as c:
        for i:
            s[k[i]] += sin(x[i])
            c[k[i]] += 1
chosen(x: n=>Float, y: n=>Float):
    for i: exp(-x[i]) if x[i] > 1.0 else x[i] * y[i] if y[i] < 0.0 else sqrt(y[i])
in_order(x: Fin(n)=>Float) = (sort(x), argsort(x))
turned(z: n=>Complex, w: n=>Complex) = ([z[i] * w[i] + 2 * z[i] for i], sum(z))
slopes(x: n=>Float) = grad(lambda v: sum(v[i] ** 3 * sin(v[i]) for i) + max(v))(x)
truths(a: n=>Bool, b: n=>Bool) = ([a[i] and not b[i] for i], all(a), sum(Int(b[i]) for i))
"""

INTEGERS = """
elements(a: n=>T, b: n=>T) = [(a[i] * b[i] - a[i], a[i] // b[i], a[i] % b[i], a[i] << b[i]) for i]
reduced(a: n=>T) = (sum(a), prod(a), max(a), min(a), cumsum(a))
in_rows(a: m=>n=>T, b: n=>T) =
    ([sum(a[i, j] * b[j] for j) for i], [sum(1 for j if a[i, j] < b[j]) for i])
ordered(a: Fin(n)=>T) where n >= 1 = (sort(a), argmax(a), [Float(v) for v in a])
"""

TYPES = ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64")
SIZES = (0, 1, 3, 8, 17, 65)
LONG = (0, 1, 2, 3, 5, 8, 17, 64, 65)
MOST = 3_000  # elements of what is run
FEW = 65  # elements of a row that is interpreted


def definitions(text: str, suffix: str = "") -> Iterator[tuple[str, str]]:
    """Each name and its definition, one a row, and the rows of it together."""
    for part in re.split(r"\n(?=\w)", text.strip()):
        name, _, rest = part.partition("(")
        name += suffix
        depth, end = 1, 0
        while depth:
            depth += {"(": 1, ")": -1}.get(rest[end], 0)
            end += 1
        params = re.findall(r"(\w+): (.*?)(?=, \w+: |$)", rest[: end - 1])
        where = re.search(r" where [^=:]*>= \d", rest)
        more = ", ".join(f"{p}: rows=>{t}" for p, t in params)
        given = ", ".join(f"{p}[row]" for p, _ in params)
        text = (
            f"def {name}({rest}\n@strict\ndef {name}_strict({rest}\n"
            f"def {name}_rows({more}){where[0] if where else ''} = "
            f"[{name}({given}) for row in rows]\n"
            f"@strict\ndef {name}_strict_rows({more}){where[0] if where else ''} = "
            f"[{name}_strict({given}) for row in rows]\n"
        )
        yield name, text


def flat(v: Any) -> Iterator[Any]:
    """The arrays of a value."""
    if isinstance(v, tuple):
        for x in v:
            yield from flat(x)
    elif isinstance(v, Ragged) and not len(v):
        yield np.zeros(0)
    elif isinstance(v, Ragged):
        yield np.asarray(v.offsets)
        yield from flat(v.values)
    elif isinstance(v, str):
        yield np.array(v)
    elif isinstance(v, records.Struct):
        yield from flat(tuple(getattr(v, f) for f in records.fields(v)))
    else:
        yield np.asarray(v)


def held(v: Any) -> Any:
    """What rows hold, without where each starts."""
    return v.values if isinstance(v, Ragged) else v


def at(v: Any, k: int) -> Any:
    """Row k of a value."""
    if isinstance(v, records.Struct):
        return at(tuple(getattr(v, f) for f in records.fields(v)), k)
    return tuple(at(x, k) for x in v) if isinstance(v, tuple) else v[k]


STOPPED: tuple[Any, ...] = ("stopped",)


def outcome(run: Any) -> Any:
    """What a run gives, or that it stopped itself."""
    try:
        return run()
    except (nap.RunError, places.RunError):
        return STOPPED


class Comparison:
    """Compares values at given sizes, says what differs, and counts."""

    def __init__(self, slots: tuple[int, ...]) -> None:
        self.slots = slots
        self.compared = 0

    def alike(self, told: str, got: Any, want: Any, digits: float) -> None:
        """Says what differs; with no digits, bits are compared."""
        a, b = list(flat(got)), list(flat(want))
        if len(a) != len(b):  # interpreters, and rows of triangles, know only what rows hold
            a, b = list(flat(held(got))), list(flat(held(want)))
        same = len(a) == len(b) and all(map(self.equal, a, b, [digits] * len(a)))
        self.compared += len(a)
        if not same:
            print(f"{told} at {self.slots}: {got!r:.300} is not {want!r:.300}")

    def equal(self, x: Any, y: Any, digits: float) -> bool:
        """Whether two arrays are: of floats, their bits or up to their scale times `digits`."""
        kinds = {x.dtype.kind, y.dtype.kind}  # a scalar of any width comes as Python's integer
        if x.shape != y.shape or (len(kinds) == 2 and kinds != {"i", "u"}):
            return False
        if x.dtype.kind != "f":
            return bool(np.array_equal(x, y))
        if not digits:
            return x.tobytes() == y.tobytes() or bool(
                np.all((np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y))))
            )
        scale = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        return bool(np.allclose(x, y, rtol=digits, atol=digits * scale, equal_nan=True))


def cases(slots: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Numbers for the sizes of a definition: all alike, and one of them among small ones."""
    yield from ((n,) * slots for n in sizes)
    if slots > 1:
        yield from ((n, *(2,) * (slots - 1)) for n in sizes)
        yield from ((*(3,) * (slots - 1), n) for n in sizes[1:])


def run(m: Any, name: str, dtype: DType, sizes: tuple[int, ...], long: bool) -> int:
    """Compares a definition in all its ways; how many values it compared."""
    ways = [(m[name], m[f"{name}_rows"], 1e-12 if dtype is DType.F64 else 3e-5)]
    if long:
        ways.append((m[f"{name}_strict"], m[f"{name}_strict_rows"], 0.0))
    sig, many = ways[0][0]._text, ways[0][1]._text
    types = tuple(dtype for _ in usual(sig))
    counts = sizes if long else (1, 3, 17)
    done = 0
    for slots in cases(len(sig.slots), sizes):
        elements = int(np.prod([max(1, n) for n in slots]))
        if elements > MOST or not draws.allowed(sig, slots):
            continue
        is_plain = elements <= FEW and len(set(slots)) < 2
        known = dict(zip(sig.slots, slots, strict=True))
        here = Comparison(slots)
        for count in [n for n in counts if n * elements <= MOST]:
            rng = np.random.default_rng(zlib.crc32(f"{name}{slots}{count}".encode()))
            of_rows = tuple(known.get(s, count) for s in many.slots)
            given = draws.draw(many, types, of_rows, rng, draws.KINDS[count % 3])
            if given is None or not draws.allowed(many, of_rows):
                continue
            parts = [Draw(slots, tuple(x[k] for x in given.leaves)) for k in range(count)]
            for one, rows, digits in ways:
                told = f"{one.__name__} of {dtype.value}"
                nap.threads(2)
                on_two = outcome(partial(trial._called, rows, given))
                nap.threads(1)
                together = outcome(partial(trial._called, rows, given))
                here.alike(f"{told}, on two threads", on_two, together, 0.0)
                if together is STOPPED:
                    continue
                for k, part in enumerate(parts):
                    if not long and 1 < k < count - 1:
                        continue
                    value = trial._called(one, part)
                    here.alike(f"{told}, row {k} of {count}", at(together, k), value, digits)
                    if k == 0 and (count in (1, 3, 17) if long else count == 3) and is_plain:
                        meant = trial._interpreted(one, types, part)
                        near = digits or (1e-12 if dtype is DType.F64 else 3e-5)
                        here.alike(f"{told}, interpreted", value, meant, near)
        done += here.compared
    return done


def derivatives(m: Any, name: str, sizes: tuple[int, ...]) -> int:
    """Tries the derivatives of a definition, of one row and of rows, as `nap.check` does."""
    done = 0
    for f in (m[name], m[f"{name}_rows"]):
        tried = trial._Trial(f, float("inf"))
        for slots in cases(len(f._text.slots), sizes):
            small = int(np.prod([max(1, n) for n in slots])) <= MOST // 10
            if small and draws.allowed(f._text, slots):
                try:
                    wrong = tried.failure(slots, 1 + sum(slots), "normal")
                except Unended:
                    print(f"{f.__name__} at {slots}, derivatives: too long to be interpreted")
                    continue
                done += 1
                if wrong is not None:
                    print(f"{f.__name__}, derivatives: {wrong}")
    return done


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    long = "--long" in arguments
    dtype = DType.F32 if "F32" in arguments else DType.F64
    names = [a for a in arguments if a not in ("--long", "F32", "F64")]
    sizes = LONG if long else SIZES
    parts = list(definitions(FLOATS))[:: 1 if long or names or dtype is DType.F64 else 4]
    for i, T in enumerate(TYPES if dtype is DType.F64 else ()):
        made = list(definitions(re.sub(r"\bT\b", T, INTEGERS), T))
        parts += made if long or names else made[i % 4 : i % 4 + 1]
    parts = [p for p in parts if not names or p[0] in names]
    m = nap.compile(PRELUDE + "\n".join(t for _, t in parts))
    done = 0
    for name, _ in parts:
        done += run(m, name, dtype, sizes, long)
        if long and dtype is DType.F64:
            done += derivatives(m, name, sizes)
    print(done)


if __name__ == "__main__":
    main(sys.argv[1:])
