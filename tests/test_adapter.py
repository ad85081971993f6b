"""What is made of several leaves takes the fast way in, and means the same on the slow one."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import numpy as np
import pytest

import naperian as nap
from naperian import border
from naperian.border.adapter import Readers
from naperian.values import same

m = nap.compile("""
enum Kind = Rock | Paper

struct Point:
    x: Float
    y: Float

struct Line:
    a: Point
    b: Point
    kind: Kind

enum Hit = Escaped | Found(distance: Float, place: Point) | Lost(distance: Float)

def norm(p: Point) -> Float = p.x * p.x + p.y

def turn(p: Point) -> Point = Point(-p.y, p.x)

def turned(ps: n=>Point) -> n=>Point = turn(ps)

def length(l: Line) -> Float = l.a.x + 10.0 * l.b.y + (100.0 if l.kind == Paper else 0.0)

def lengths(ls: n=>Line) -> n=>Float = length(ls)

def swapped(p: (Float, Int)) -> (Int, Float):
    (a, b) = p
    (b, a)

def pairs(ps: n=>(Float, Int)) -> n=>(Int, Float) = [swapped(p) for p in ps]

def far(h: Hit) -> Float:
    match h:
        case Found(d, p): d + p.x
        case Lost(d): -d
        case Escaped: inf

def fars(hs: n=>Hit) -> n=>Float = far(hs)

def hit(d: Float) -> Hit = Found(d, Point(d, d)) if d > 0.0 else Lost(d) if d < 0.0 else Escaped

def hits(ds: n=>Float) -> n=>Hit = hit(ds)

def maybe(x: Maybe(Float)) -> Maybe(Float) = x

def maybes(x: n=>Maybe(Int)) -> n=>Maybe(Int) = x

def counts(x: n=>bins) -> bins=>Int = [sum(1 if x[i] == b else 0 for i) for b]

def ramp(k: Int, step: Float = 0.5) -> Fin(k)=>Float = [step * i for i in Fin(k)]

def moved(p: Point, by: Float = 1.0) -> Point = Point(p.x + by, p.y)

def gram(x: n=>Float) -> (i: n)=>(..=i)=>Float = [[x[i] * x[j] for j] for i]

def trace(t: (i: n)=>(..=i)=>Float) -> Float = sum(t[i, i] for i)

def sums(t: n=>(exists k. Fin(k)=>Float)) -> n=>Float = [sum(r) for r in t]

def kinds(k: n=>Kind) -> n=>Int = [1 if x == Paper else 0 for x in k]

def positive(x: n=>Float) -> exists k. Fin(k)=>Float = [v for v in x if v > 0]

def places(x: n=>m=>Float) = [(i, j) for i, j if x[i, j] > 0]

def parted(x: n=>Float, by: Float):
    assert by != 0, "nothing to part by"
    ([v for v in x if v < by], [i for i if x[i] > by], by)

def upper(ps: n=>Point) -> exists k. Fin(k)=>Point = [turn(p) for p in ps if p.y > 2]

def above(x: n=>m=>Float) -> n=>(exists k. Fin(k)=>Float) = [[v for v in x[i] if v > 1] for i]

def cells(x: n=>m=>q=>Float) -> n=>m=>(exists k. Fin(k)=>Float) =
    [[v for v in x[i, j] if v > 1] for i, j]

def ones(x: n=>Int):
    k = sum(x)
    [1.0 for _ in Fin(k)]
""")


class Named(NamedTuple):
    x: float
    y: float


@dataclasses.dataclass
class Plain:
    x: float
    y: float


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    a: Any
    b: Any
    kind: int


class Colour(enum.IntEnum):
    RED = 0
    BLUE = 1


RECORD = np.dtype([("x", float), ("y", float)])
P, Hit = m.Point, m.Hit
RECORDS = np.array([(1, 2), (3, 4), (5, 6)], RECORD)
HITS = [Hit.Found(2.0, P(1.0, 1.0)), Hit.Escaped, Hit.Lost(3.0)]

CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "own class": ("norm", (P(1.0, 2.0),), {}),
    "named tuple": ("norm", (Named(1.0, 2.0),), {}),
    "dataclass": ("norm", (Plain(1.0, 2.0),), {}),
    "integers in floats": ("norm", (Plain(1, 2),), {}),
    "dict": ("norm", ({"y": 2.0, "x": 1.0, "z": "more"},), {}),
    "record": ("norm", (RECORDS[1],), {}),
    "by name": ("norm", (), {"p": P(1.0, 2.0)}),
    "a struct back": ("turn", (P(1.0, 2.0),), {}),
    "struct of arrays": ("turned", (P(np.arange(3.0), np.ones(3)),), {}),
    "records": ("turned", (RECORDS,), {}),
    "records with a step": ("turned", (RECORDS[::-2],), {}),
    "list of dataclasses": ("turned", ([Plain(1.0, 2.0), Plain(3.0, 4.0)],), {}),
    "list of all kinds": ("turned", ([Plain(1.0, 2.0), {"x": 3.0, "y": 4.0}, P(5.0, 6.0)],), {}),
    "nested": ("length", (Edge(Plain(1.0, 2.0), {"x": 3.0, "y": 4.0}, Colour.BLUE),), {}),
    "nested lists": ("lengths", ([Edge(P(1.0, 2.0), P(3.0, 4.0), 1)] * 3,), {}),
    "tuple": ("swapped", ((1.5, 2),), {}),
    "list of tuples": ("pairs", ([(1.5, 2), (2.5, 3)],), {}),
    "tuple of arrays": ("pairs", ((np.arange(2.0), np.arange(2)),), {}),
    "variant": ("far", (HITS[0],), {}),
    "variant without fields": ("far", (Hit.Escaped,), {}),
    "list of variants": ("fars", (HITS,), {}),
    "table of variants": ("fars", (m.hits(np.array([1.0, 0.0, -1.0])),), {}),
    "a variant back": ("hit", (-1.0,), {}),
    "variants back": ("hits", (np.array([1.0, 0.0, -1.0]),), {}),
    "none": ("maybe", (None,), {}),
    "some": ("maybe", (nap.Maybe.Some(2.0),), {}),
    "maybes": ("maybes", ([None, nap.Maybe.Some(2)],), {}),
    "size by name": ("counts", (np.array([0, 2, 2]),), {"bins": 4}),
    "size by name, all by name": ("counts", (), {"bins": np.int64(4), "x": np.array([0, 2, 2])}),
    "a size that is an argument": ("ramp", (3, 0.25), {}),
    "default": ("ramp", (3,), {}),
    "default and name": ("ramp", (), {"k": 3}),
    "default beside a struct": ("moved", (P(1.0, 2.0),), {}),
    "name beside a struct": ("moved", (P(1.0, 2.0),), {"by": 2.0}),
    "triangle": ("trace", (np.arange(10.0),), {}),
    "triangle back": ("gram", (np.arange(4.0),), {}),
    "empty triangle back": ("gram", (np.zeros(0),), {}),
    "ragged": ("sums", (nap.Ragged(np.arange(5.0), [0, 2, 2, 5]),), {}),
    "list of rows": ("sums", ([np.arange(2.0), np.zeros(0), np.ones(1)],), {}),
    "members": ("kinds", (np.array([0, 1]),), {}),
    "a filter": ("positive", (np.array([1.0, -1.0, 2.0]),), {}),
    "a filter of single precision": ("positive", (np.array([1, -1, 2], np.float32),), {}),
    "a filter that keeps nothing": ("positive", (-np.ones(3),), {}),
    "a filter of nothing": ("positive", (np.zeros(0),), {}),
    "a long filter": ("positive", (np.arange(-50_000.0, 50_000.0),), {}),
    "pairs of a filter": ("places", (np.eye(3),), {}),
    "filters side by side": ("parted", (np.arange(5.0), 2.0), {}),
    "a filter by name": ("parted", (), {"by": 2.0, "x": np.arange(5.0)}),
    "a filter of structs": ("upper", (P(np.arange(4.0), np.arange(4.0)),), {}),
    "a filter of each row": ("above", (np.arange(6.0).reshape(3, 2),), {}),
    "a filter of each cell": ("cells", (np.arange(8.0).reshape(2, 2, 2),), {}),
    "a size from a sum": ("ones", (np.array([2, 1]),), {}),
}  # fmt: skip


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that came to the slow way."""
    seen: list[str] = []
    gather = border.gather

    def counted(sig: Any, *rest: Any) -> Any:
        seen.append(sig.name)
        return gather(sig, *rest)

    monkeypatch.setattr(border, "gather", counted)
    return seen


@pytest.mark.parametrize("case", CASES)
def test_both_ways_agree(case: str, slow_calls: list[str]) -> None:
    name, args, keywords = CASES[case]
    f = m[name]
    slowly = f.convert(*args, **keywords)  # also compiles it
    slow_calls.clear()
    fast = f(*args, **keywords)
    assert not slow_calls, "this call takes the slow way"
    assert type(fast) is type(slowly)
    assert same(fast, slowly)


WRONG: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "a field is missing": ("norm", ({"x": 1.0},), {}, r"must be a Point\(x, y\), not dict"),
    "no struct": ("norm", (3.0,), {}, r"must be a Point\(x, y\), not float"),
    "a tuple for a struct": ("norm", ((1.0, [2.0]),), {}, r"t p must be a Point\(x, y\), not a"),
    "text": ("norm", (P("1", 2.0),), {}, "argument p.x is str"),
    "too few": ("norm", (), {}, "missing 1 argument: 'p'"),
    "too many": ("norm", (P(1.0, 2.0), 1), {}, "takes 1 positional argument but 2 were given"),
    "twice": ("moved", (P(1.0, 2.0),), {"p": P(1.0, 2.0)}, "multiple values for argument 'p'"),
    "unknown name": ("moved", (P(1.0, 2.0),), {"bye": 1.0}, "did you mean 'by'?"),
    "a negative size": ("counts", (np.array([0]),), {"bins": -1}, "bins is -1, which is no size"),
    "a Boolean as a size": ("counts", (np.array([0]),), {"bins": True}, "bins is a size"),
    "no size": ("counts", (np.array([0]),), {}, "needs the size bins by keyword"),
    "beyond the set": ("counts", (np.array([0, 4]),), {"bins": 4}, "element 1 is 4"),
    "no triangle": ("trace", (np.ones(5),), {}, "axis 0 is 5, but it must be"),
    "columns of different length": ("turned", (P(np.ones(3), np.ones(2)),), {}, "axis 0 is 2"),
    "offsets that fall": ("sums", (nap.Ragged(np.ones(3), [0, 2, 1, 3]),), {}, "offset 2 is 1"),
    "offsets beyond the end": ("sums", (nap.Ragged(np.ones(3), [0, 4]),), {}, "from 0 to 4"),
    "another enum's variant": ("far", (nap.Maybe.Some(1.0),), {}, "must be one of Hit.Escaped"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_explained(case: str) -> None:
    name, args, keywords, text = WRONG[case]
    m[name]._newest()  # so that the fast way is there
    with pytest.raises((TypeError, ValueError, IndexError), match=text):
        m[name](*args, **keywords)


def test_a_property_that_raises_is_no_field() -> None:
    class Odd:
        y = 1.0

        @property
        def x(self) -> float:
            raise RuntimeError("not now")

    m.norm(P(1.0, 2.0))
    with pytest.raises(RuntimeError, match="not now"):
        m.norm(Odd())


def test_few_types_are_remembered() -> None:
    readers = Readers(m.norm._text.params[0].form, m.norm._text.inputs)
    for _ in range(200):
        kind = type("Point", (), {"x": 1.0, "y": 2.0})
        assert readers[kind](kind()) == (1.0, 2.0)
    assert len(readers) <= 64


def test_memory_that_a_run_made_lives_as_long_as_a_view_of_it() -> None:
    x = np.arange(-20_000.0, 20_000.0)
    made = m.positive(x)
    assert made.flags.writeable
    assert made.flags.c_contiguous
    part = made[-3:]
    del made
    for _ in range(20):
        m.positive(x)
    assert (part == x[-3:]).all()


def test_a_run_that_fails_makes_no_result() -> None:
    m.parted(np.arange(3.0), 1.0)
    with pytest.raises(nap.AssertionError, match="nothing to part by"):
        m.parted(np.arange(3.0), 0.0)
    with pytest.raises(nap.AssertionError, match="is negative"):
        m.ones(np.array([-1]))
    with pytest.raises(MemoryError, match="more than there is memory for"):
        m.ones(np.array([10**17]))
    assert (m.ones(np.array([2])) == np.ones(2)).all()


def test_offsets_of_triangles_are_shared_and_not_changed() -> None:
    m.gram(np.ones(2))  # the first call finds out how arguments are read
    a, b = m.gram(np.arange(4.0)), m.gram(np.ones(4))
    assert a.offsets is b.offsets
    with pytest.raises(ValueError, match="read-only"):
        a.offsets[0] = 1


def test_slices_are_laid_out_and_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    p = nap.compile("""
struct Map:
    turn: Fin(2)=>Fin(2)=>Float
    shift: Fin(2)=>Float

def rows(x: n=>m=>Float) -> n=>Float = [sum(x[i]) for i]

def moved(maps: n=>Map, x: n=>Float) -> n=>Float =
    [maps[i].turn[0, 1] * x[i] + maps[i].shift[1] for i]
""")
    wide, x = np.arange(24.0).reshape(2, 3, 4), np.arange(2.0)
    maps = {"turn": wide[:, :2, 1:3], "shift": wide[:, 2, ::3]}
    p.rows(np.ones((2, 2)))
    p.moved({name: a.copy() for name, a in maps.items()}, x)
    monkeypatch.setattr(border, "call", lambda *_: pytest.fail("the slow way"))
    for y in (wide[0].T, wide[1, ::2, 1:], wide[:, :, ::-1][0], wide[0].astype(">f8")):
        assert p.rows(y).tolist() == y.sum(axis=1).tolist()
    assert p.moved(maps, x[::-1]).tolist() == [wide[0, 0, 2] + wide[0, 2, 3], wide[1, 2, 3]]
    monkeypatch.undo()
    with pytest.raises(nap.ShapeError, match="maps"):
        p.moved({**maps, "shift": wide[:1, 2, ::3]}, x)


def test_what_is_converted_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    p = nap.compile("def dotted(x: n=>Float, y: n=>Float, k: Float) = k * sum(x[i] * y[i] for i)")
    x = np.arange(3.0)
    p.dotted(x, x, 1.0)
    monkeypatch.setattr(border, "call", lambda *_: pytest.fail("the slow way"))
    for other in ([1, 2, 3], range(3), np.arange(3), np.ones(3, np.float32)):
        assert p.dotted(other, x, 2) == 2 * sum(a * b for a, b in zip(other, x, strict=True))
    monkeypatch.undo()
    with pytest.raises(nap.ShapeError, match="y: axis 0 is 3, but n is 2"):
        p.dotted([1, 2], x, 1.0)
    with pytest.raises(TypeError, match="complex"):
        p.dotted(x.astype(complex), x, 1.0)
