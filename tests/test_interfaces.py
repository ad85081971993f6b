"""Interfaces across modules, and what is left of them in compiled code: nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import naperian as nap
from naperian import pages, pipeline
from naperian.core.check import check_normal
from naperian.core.syntax import ConstOf, Method, Use
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.signature import TypeSlot
from naperian.signed import at, signature
from naperian.source import Source

ROOT = Path(__file__).parent.parent
PROGRAMS = list(dict.fromkeys(
    c.program
    for page in ("tests/pages/interfaces.md", "examples/fractals.md")
    for c in pages.claims((ROOT / page).read_text(encoding="utf-8"))
    if c.program
))  # fmt: skip


@pytest.mark.parametrize("text", PROGRAMS)
def test_no_method_survives_normalisation(text: str) -> None:
    module, wrong = pipeline.front(Source("page.nap", text))
    assert module is not None, wrong
    generic = sum(isinstance(e, Method) for d in module.definitions.values()
                  for e in everything(d.body))  # fmt: skip
    assert generic, "the page uses interfaces"
    for name in module.public:
        definition = module.definitions[name]
        sig = signature(definition, module.instances)
        if sig.refusal:
            continue
        dtypes = tuple(_dtype(slot) for slot in sig.types)
        made = pipeline.specialise(module, name, at(definition, dtypes))
        check_normal(made)
        assert not [e for e in everything(made.body) if isinstance(e, Method | Use | ConstOf)]


def _dtype(slot: TypeSlot) -> DType:
    """One that the slot may have."""
    if slot.precision or slot.interface == "Floating":
        return DType.F64
    return slot.instances[0] if slot.instances else DType.I64


# ---------------------------------------------------------------- modules

SHAPES = """
interface Area(a):
    def area(x: a) -> Float
    def double(x: a) -> Float = 2.0 * area(x)

struct Square:
    side: Float

instance Area(Square):
    def area(s) = s.side * s.side
"""


def codes(main: str, **modules: str) -> list[str]:
    read = {n: Source(f"{n}.nap", t) for n, t in modules.items()}.get
    return [d.code for d in pipeline.front(Source("main.nap", main), read)[1]]


def test_instances_come_with_the_module(tmp_path: Path) -> None:
    (tmp_path / "shapes.nap").write_text(SHAPES)
    main = tmp_path / "main.nap"
    main.write_text(
        "from shapes import Area, Square, area\nimport shapes\n\n"
        "struct Disc:\n    r: Float\n\n"
        "instance Area(Disc):\n    def area(d) = 3.0 * d.r * d.r\n\n"
        "def f(x: Float) -> Float = area(Square(x)) + shapes.double(Disc(x))\n"
    )
    assert nap.load(main).f(2.0) == 4.0 + 2 * 12.0


def test_an_instance_stands_beside_its_interface_or_type() -> None:
    third = (
        "from shapes import Area, Square\n\n"
        "instance Num(Square):\n    def (+)(x, y) = x\n    def (-)(x, y) = x\n"
        "    def (*)(x, y) = x\n    def number(x) = Square(Float(x))\n"
    )
    assert codes(third, shapes=SHAPES) == ["N0622"]


def test_there_is_one_instance_for_a_type_in_all_modules() -> None:
    again = "from shapes import Area, Square\n\ninstance Area(Square):\n    def area(s) = s.side\n"
    assert codes(again, shapes=SHAPES) == ["N0621"]


def test_the_border_says_which_types_have_no_instance() -> None:
    m = nap.compile(
        "interface Weight(a):\n    def weight(x: a) -> Float\n\n"
        "instance Weight(Int):\n    def weight(k) = Float(k)\n\n"
        "def total(xs: n=>a) = sum(weight(xs))\n"
    )
    assert m.total([1, 2]) == 3.0
    with pytest.raises(TypeError, match="xs is float64: no instance for a: Weight"):
        m.total([1.5])


# ---------------------------------------------------------------- sums of what has instances

PAIR = "struct Pair:\n    a: Float\n    b: Float\n\n"
DERIVED = "instance Num(Pair)\n\n"
WRITTEN = """instance Num(Pair):
    def (+)(x, y) = Pair(x.a + y.a, y.b {op} {last})
    def (-)(x, y) = Pair(x.a - y.a, x.b - y.b)
    def (*)(x, y) = Pair(x.a * y.a, x.a * y.b + x.b * y.a)
    def number(x) = Pair(Float(x), 0.0)

"""
AROUND = """def f(x: Fin(n)=>Float) -> Fin(n)=>Fin(2)=>Float:
    for i:
        t = {how}(Pair(x[j], x[i] - x[j]) for j in max(i - 1, 0)..min(i + 2, n))
        [t.a, t.b]
"""


@pytest.mark.parametrize(("instance", "how", "apart"), [
    (DERIVED, "sum", True),
    (DERIVED, "prod", True),
    (WRITTEN.replace("y.b {op} {last}", "y.b + x.b"), "sum", True),
    (WRITTEN.replace("y.b {op} {last}", "x.b + y.b"), "prod", False),  # as of dual numbers
    (WRITTEN.format(op="+", last="x.a * y.b"), "sum", False),
])  # fmt: skip
def test_fields_that_do_not_meet_are_summed_by_themselves(
    instance: str, how: str, apart: bool
) -> None:
    """The order of a sum is open, also of one of structs."""
    f = nap.compile(PAIR + instance + AROUND.format(how=how)).f
    assert ("loop acc" not in f.show("core")) == apart
    x = np.random.default_rng(3).uniform(0.5, 1.5, 9)
    expected = []
    for i in range(9):
        terms = [(x[j], x[i] - x[j]) for j in range(max(i - 1, 0), min(i + 2, 9))]
        a, b = (0.0, 0.0) if how == "sum" else (1.0, 1.0 if instance == DERIVED else 0.0)
        for p, q in terms:
            if how == "prod":
                a, b = a * p, b * q if instance == DERIVED else a * q + b * p
            else:
                a, b = a + p, q + b if apart else q + a * q
        expected.append((a, b))
    np.testing.assert_allclose(f(x), expected, rtol=1e-12, atol=1e-15)


def test_a_sum_of_structs_fails_and_is_empty_as_any_other() -> None:
    f = nap.compile(PAIR + DERIVED + """
def f(x: n=>Float, at: m=>Int) -> Float:
    t = sum(Pair(x[at[i]?], 1.0) for i)
    t.a + t.b
""").f
    x = np.array([1.0, 2.0])
    assert f(x, np.array([1, 0, 1])) == 8.0
    assert f(x, np.array([], dtype=int)) == 0.0
    with pytest.raises(nap.RunError):
        f(x, np.array([1, 2]))


@pytest.mark.parametrize(("item", "own"), [("Item", "Item"), ("Item(a)", "Item({})")])
def test_a_type_that_instances_choose_is_written_as_outside(item: str, own: str) -> None:
    m = nap.compile(f"""
interface Shape(a):
    def params(s: a) -> {item}
    type Item
    def again(s: a, x: {item}) -> ({item}, {item}) = (params(s), x)

struct Disc:
    r: Float

struct Box:
    w: Float
    h: Float

instance Shape(Disc):
    type Item = Float
    def params(s) = s.r

instance Shape(Box):
    type Item = (Float, Float)
    def params(s: Box) -> {own.format("Box")} = (s.w, s.h)

def one(x: a) -> Item(a) where a: Shape = params(x)
def disc(d: Disc) = again(d, one(d) + 1.0)
def box(b: Box) = again(b, one(b))
""")
    assert m.disc(m.Disc(2.0)) == (2.0, 3.0)
    assert m.box(m.Box(1.0, 3.0)) == ((1.0, 3.0), (1.0, 3.0))


def test_a_type_in_an_interface_that_is_not_there_is_in_no_function() -> None:
    with pytest.raises(nap.CompileError) as caught:
        nap.compile("interface Shape(a):\n    type Item\n    def params(s: a) -> Other(a)")
    assert "there is no `Other` here" in str(caught.value)
    assert "inside of another" not in str(caught.value)
    with pytest.raises(nap.CompileError, match="`Item` is about one type, not 2"):
        nap.compile("interface Shape(a):\n    type Item\n    def params(s: a) -> Item(a, a)")


def test_no_instance_is_asked_for_that_cannot_be_declared() -> None:
    with pytest.raises(nap.CompileError) as e:
        nap.compile("def f(x: n=>Bool) = sort(x)")
    assert "instance Ord(" not in str(e.value)
    assert "`Int(c)` is 1 where `c` holds" in str(e.value)
