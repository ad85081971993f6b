"""The surface language: every production, spans, round trips, and every message."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from trees import bare, expressions, modules, nodes, types

from naperian.source import Source, render
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.layout import WIDTH
from naperian.surface.parse import parse, parse_entry
from naperian.surface.reading import LARGEST, read_source
from naperian.surface.show import show

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted(
    [*(ROOT / "src/naperian/library").glob("*.nap"), *(ROOT / "benchmarks/programs").glob("*.nap")]
)

EVERYTHING = '''"""Every production of the grammar."""

import numbers
import a.b as c: f, g as h
from a.b import f as k, g

pi: Float = 3.14_159
small = 1.5e-3 + 0xff_00 + 0b1_01 + 1e+5
(x0, [y0, *z0]) = (1, [2, *rows, **block])
[first, *_] = rows
Some(v) = maybe
empty = ()
one = (1,)
joined = [*a, b, *c]
text = "a\\tb\\x41\\u00e9\\"" + """long
text"""
message = f"{x[i]} of {{{n + 1}}} is {f(a)}."

# What it does,
# in two lines.
def matmul(x: n=>m=>Float, y: m=>p=>Float) -> n=>p=>Float =
    [sum(x[i, j] * y[j, k] for j) for i, k]

def softmax(x: n=>Float) -> n=>Float:
    """Exponentials,

    scaled."""
    e = exp(x - max(x))           # a comment
    e / sum(e)

def histogram(xs: n=>bins) -> {Accum, State} bins=>Int:
    with accum() as h, state(0) as s, except:
        for i: h[xs[i]] += 1
        s := get(s) + 1

def take(x: Fin(n)=>a, k: Int = 3) -> Fin(k)=>a where a: Num, k >= 0, k <= n =
    [x[i] for i in Fin(k)]

def long_header(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Fin(n + m - 1)=>Float
    where n >= 1, m >= 1:
    return x

def ranges(x):
    a = x[1..] + x[..n] + x[..=n] + x[1..=2] + x[a + 1..b - 1] + x[..]
    x[i, k?] + x[i]? + x.get(i - 1, 0.0)

def operators(a, b):
    c = a or b and not a == b < c != d
    d = a | b ^ c & d << e >> f + g - h * i / j // k % l @ m
    g = -x ** 2 ** -y + ~z
    h = (+)(a, b) + map((* 2.0), x) + map((== 0), x) + (-)(a, b) + (- a)
    f~1(x) + f~(1, all)(x) + f~(-1, 0)(x) + f~all(x)

def conversions(x, y):
    z = x as n=>Channel=>Float if c else y as (n, m)=>Float?
    w: exists k, l. Fin(k)=>Fin(l)=>Float = z
    t: (i: n)=>(..=i)=>Float = z
    f: (a, b) -> {IO} c -> () -> (a -> b) -> ((a, b)) -> c = z
    u: rows[i]..rows[i + 1]=>(n | m)=>Maybe(n=>Float)=>Fin(n).by(2)=>Float = z
    g = lambda (a, b), _: lambda: a

def controls(x):
    y = if x > 0:
        1
    elif x == 0:
        2
    else:
        3
    z =
        loop a = 0, (b, c): (Int, Int) = (1, 2) for t in Fin(3) while a < 10:
            (a + t, (b, c))
    loop a = z while a > 0: a - 1
    match z:
        case Found(d, _) | Axis.X if d > 0: d
        case [[p, *t], [*l, **b]]: p
        case [*left: k, *right] & [_, *rest]: k
        case (1 | -2.5, "s"): 3
        case Nothing() | (): 4
    assert x > 0, "why"
    assert y
    for (i, j) in xs, k if p(i) if k > j:
        def local(q) = q + i
        r[i] += local(k)
    (m[k], m[b]) := (m[b], m[k])
    sum(x[i, j] for i, j in Fin(3) if i < j)
    f(a, k=b, c=d,)

struct Model(bones, verts):
    """A body."""
    parent: (b: bones)=>Maybe(..b)
    weight: Float = 1.0
    def total(self) = sum(self.weight)

enum Channel = R | G | B
enum Hit(a) =
    | Escaped
    Found(distance: Float, at: a)

interface Ring(a) where a: Num:
    """What adds and multiplies."""
    def (+)(x: a, y: a) -> a
    def (**)(x: a, k: Int) -> a = x
    zero = 0

instance Ring(Complex, n=>a) where a: Ring, n >= 1:
    def (+)(x, y) = x
    one = 1
'''


def tree(text: str) -> s.Module:
    """The tree of a text without mistakes."""
    module, wrong = parse(Source("page.nap", text))
    assert not wrong, "\n\n".join(map(render, wrong))
    return module


def classes(alias: Any) -> set[type]:
    """The classes of a union that is spelled as a string."""
    value = eval(alias, vars(s)) if isinstance(alias, str) else alias
    return set(get_args(value))


def test_every_production_is_in_the_sample() -> None:
    found = {type(n) for n in nodes(tree(EVERYTHING))}
    wanted = classes(s.Expr) | classes(s.Pattern) | classes(s.Stmt)
    wanted |= {s.Struct, s.Enum, s.Interface, s.Instance, s.Import, s.FromImport}
    assert wanted - found == set()


@pytest.mark.parametrize("text", [EVERYTHING, *(p.read_text() for p in PROGRAMS)])
def test_what_is_shown_parses_to_the_same(text: str) -> None:
    module = tree(text)
    shown = show(module)
    assert bare(tree(shown)) == bare(module)
    assert show(tree(shown)) == shown


def test_lines_that_can_be_broken_are() -> None:
    call = "f(" + ", ".join(["some_argument"] * 20) + ")"
    shown = show(tree(f"x = [{call} + 1 for i in {call}]\n"))
    assert max(map(len, shown.splitlines())) <= WIDTH


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules())
def test_any_module_round_trips(module: s.Module) -> None:
    assert bare(tree(show(module))) == bare(module)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions())
def test_any_expression_round_trips(e: s.Expr) -> None:
    assert bare(expression(show(e))) == bare(e)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(types())
def test_any_type_round_trips(t: s.Expr) -> None:
    assert bare(annotation(show(t))) == bare(t)


def expression(text: str) -> s.Expr:
    (bind,) = tree(f"x = {text}\n").decls
    assert isinstance(bind, s.Bind)
    return bind.value


def annotation(text: str) -> s.Expr:
    (bind,) = tree(f"x: {text} = 0\n").decls
    assert isinstance(bind, s.Bind)
    assert bind.type is not None
    return bind.type


def pattern(text: str) -> s.Pattern:
    (bind,) = tree(f"match x:\n    case {text}: 0\n").decls
    assert isinstance(bind, s.Match)
    return bind.cases[0].pattern


@pytest.mark.parametrize("text", [EVERYTHING, *(p.read_text() for p in PROGRAMS)])
def test_the_span_of_a_node_is_its_text(text: str) -> None:
    module = tree(text)
    kinds, patterns = classes(s.Expr) - {s.Block}, classes(s.Pattern)
    in_types = {id(n) for t in annotations(module) for n in nodes(t)}
    for node in nodes(module):
        if type(node) in patterns:
            assert bare(pattern(node.span.text)) == bare(node)
        elif type(node) in kinds and not merged(node):
            again = annotation if id(node) in in_types else expression
            assert bare(again(f"({node.span.text})")) == bare(node)
        elif isinstance(node, s.Def | s.Enum):
            assert node.name_span.text == node.name
        elif isinstance(node, s.Param | s.Variant | s.Alias):
            assert node.span.text.startswith(node.name)
        if isinstance(node, s.Binary):
            assert node.op_span.text == node.op or merged(node)
        if isinstance(node, s.Field):
            assert node.name_span.text == node.name


def merged(node: s.Expr) -> bool:
    """Two filters of one `for`, which become one condition."""
    return isinstance(node, s.Binary) and (node.op, node.op_span.text) == ("and", "if")


def annotations(module: s.Module) -> list[s.Expr]:
    """The types in a module."""
    found: list[s.Expr] = []
    for n in nodes(module):
        if isinstance(n, s.Param | s.Bind | s.Carry) and n.type is not None:
            found.append(n.type)
        elif isinstance(n, s.Def) and n.result is not None:
            found.append(n.result)
        elif isinstance(n, s.As):
            found.append(n.type)
        elif isinstance(n, s.Instance):
            found.extend(n.types)
    return found


def test_spans_of_declarations_and_statements() -> None:
    module = tree(EVERYTHING)
    starts = ("def", "struct", "enum", "interface", "instance", "import", "from")
    for d in module.decls:
        if not isinstance(d, s.Bind):
            assert d.span.text.startswith(starts), d
            assert d.span.text == d.span.text.strip()
    softmax = next(d for d in module.decls if isinstance(d, s.Def) and d.name == "softmax")
    assert softmax.body is not None
    assert [t.span.text for t in softmax.body.statements] == ["e = exp(x - max(x))", "e / sum(e)"]
    assert softmax.span.text.endswith("e / sum(e)")


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("-x ** 2", "-(x ** 2)"),
        ("2 ** -1 ** 2", "2 ** (-(1 ** 2))"),
        ("a ** b ** c", "a ** (b ** c)"),
        ("not a == b and c", "(not (a == b)) and c"),
        ("a or b if c else d or e", "(a or b) if c else (d or e)"),
        ("a if b else c if d else e", "a if b else (c if d else e)"),
        ("a as n=>T if c else d", "(a as (n=>T)) if c else d"),
        ("a as T as U", "(a as T) as U"),
        ("a + 1..b - 1", "(a + 1)..(b - 1)"),
        ("a..b == c", "(a..b) == c"),
        ("a | b..c & d", "(a | b)..(c & d)"),
        ("a | b ^ c & d << e + f", "a | (b ^ (c & (d << (e + f))))"),
        ("f~1(x)[i].y?", "((((f~1)(x))[i]).y)?"),
        ("lambda x: x + 1 if c else 2", "lambda x: ((x + 1) if c else 2)"),
        ("a < b == c", "a < b == c"),
        ("1..n", "(1)..(n)"),
        ("a @ b @ c * d", "((a @ b) @ c) * d"),
    ],
)
def test_precedence(text: str, grouped: str) -> None:
    assert bare(expression(text)) == bare(expression(grouped))


def test_comparisons_chain_unless_grouped() -> None:
    assert bare(expression("(a < b) < c")) != bare(expression("a < b < c"))
    match expression("a < b <= c"):
        case s.Compare(_, (_, _, _), ("<", "<=")):
            pass
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("n=>m=>a", "n=>(m=>a)"),
        ("n=>a -> b", "(n=>a) -> b"),
        ("a -> n=>m=>b -> c", "a -> ((n=>(m=>b)) -> c)"),
        ("(i: n)=>..i=>a -> b", "((i: n)=>(..i=>a)) -> b"),
        ("n=>exists k. a -> b", "n=>(exists k. (a -> b))"),
        ("a -> b -> c", "a -> (b -> c)"),
        ("exists k. Fin(k)=>a", "exists k. (Fin(k)=>a)"),
        ("n | m=>a", "(n | m)=>a"),
    ],
)
def test_precedence_in_types(text: str, grouped: str) -> None:
    assert bare(annotation(text)) == bare(annotation(grouped))


def test_parameters_of_function_types() -> None:
    counts = {"a -> c": 1, "(a, b) -> c": 2, "() -> c": 0, "((a, b)) -> c": 1, "(a) -> c": 1}
    for text, count in counts.items():
        made = annotation(text)
        assert isinstance(made, s.FunctionType)
        assert len(made.params) == count, text


def test_documentation() -> None:
    docs = {d.name: d.doc for d in tree(EVERYTHING).decls if isinstance(d, s.Def | s.Struct)}
    assert docs["matmul"] == "What it does,\nin two lines."
    assert docs["softmax"] == "Exponentials,\n\nscaled."
    assert docs["Model"] == "A body."
    assert docs["histogram"] is None
    assert tree("# no\n\n# yes\ndef f() = 1\n").decls[0].doc == "yes"  # type: ignore[union-attr]
    assert tree('def f(): "only"\n').decls[0].doc is None  # type: ignore[union-attr]
    assert tree('"a module"\n').doc == "a module"


def test_line_ends_and_marks_of_other_systems() -> None:
    plain = tree(EVERYTHING)
    assert bare(tree(EVERYTHING.replace("\n", "\r\n"))) == bare(plain)
    assert bare(tree("\ufeff" + EVERYTHING)) == bare(plain)
    assert bare(tree(EVERYTHING.rstrip())) == bare(plain)
    assert bare(tree(EVERYTHING + "\n    # the end")) == bare(plain)
    for empty in ("", "\n", "  \n# only a comment", "\r\n\r\n", "\ufeff"):
        assert tree(empty).decls == ()


# ---------------------------------------------------------------- mistakes


def mistakes(text: str) -> list[tuple[str, int]]:
    """The codes and lines of what is wrong."""
    source = Source("page.nap", text)
    _, wrong = parse(source)
    for d in wrong:
        assert render(d)
    return [(d.code, source.position(d.labels[0].span.start)[0]) for d in wrong]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = * 2", "N0101"),
        ("x = +2", "N0101"),
        ("x = a +\n    b", "N0101"),
        ("def f(x, *args): 3", "N0101"),
        ("x: Int", "N0101"),
        ("x[]", "N0101"),
        ("1 + not a", "N0101"),
        ("f~x", "N0101"),
        ("def (!)(a) = a", "N0121"),
        ("x = f(a, b", "N0102"),
        ("x = [1, 2)", "N0103"),
        ("x = (a[i)", "N0103"),
        ("z = 1)", "N0103"),
        ("x = 1\n    + 2", "N0104"),
        ("if a:\n        b\n      c", "N0105"),
        ("def f(x):\nx", "N0106"),
        ("x =", "N0106"),
        ("match x:", "N0106"),
        ("struct S:\nx = 1", "N0106"),
        ("if a:\n\tb\n\tc", "N0107"),
        ("if a:\n\tb\n    c", "N0107"),
        ("if a = b: c", "N0108"),
        ("assert a = b", "N0108"),
        ("x = [i for i if i = 2]", "N0108"),
        ("x = a if b = c else d", "N0108"),
        ("a = b = c", "N0108"),
        ("x = (a = b)", "N0108"),
        ("if a\n    b", "N0109"),
        ("def f(x)\n    x", "N0109"),
        ("def f(x)", "N0109"),
        ("struct S\n    x: Int", "N0109"),
        ("def f(x):\n    return x\n    x", "N0110"),
        ("def f(x):\n    for i: return i", "N0110"),
        ("return 3", "N0110"),
        ('x = "abc', "N0111"),
        ('x = """abc\n\n', "N0111"),
        ("x = 'abc'", "N0111"),
        ("x = 1.", "N0112"),
        ("x = .5", "N0112"),
        ("x = 1__0", "N0112"),
        ("x = 0xZZ", "N0112"),
        ("x = 5x", "N0112"),
        ("x = 1e999", "N0112"),
        ("x = " + "9" * 5000, "N0112"),
        ("x = t.0", "N0112"),
        ("x = “text”", "N0113"),
        ("x = a $ b", "N0113"),
        ("x = 1; y = 2", "N0113"),
        ("x = a \\\n    + b", "N0113"),
        ("größe = 1", "N0113"),
        ("x\u00a0= 1", "N0113"),
        ("x[1:3]", "N0114"),
        ("x[:, 0]", "N0114"),
        ("x[::2]", "N0114"),
        ("class A:\n    x = 1", "N0115"),
        ("try:\n    x\nexcept:\n    y\n", "N0115"),
        ("print x", "N0115"),
        ("@jit\ndef f(x) = x", "N0115"),
        ("f = lambda x y", "N0117"),
        ("f = x => x + 1", "N0117"),
        ("if lambda x: y: z", "N0117"),
        ("match = 3", "N0118"),
        ("def f(from): 3", "N0118"),
        ("f(case)", "N0118"),
        ("x.loop", "N0118"),
        ("x = f(for i: x)", "N0119"),
        ("x = 1 + if a: b", "N0119"),
        ("if a: b\nelse if c: d", "N0120"),
        ("a && b", "N0121"),
        ("a || b", "N0121"),
        ("x = !a", "N0121"),
        ("x++", "N0122"),
        ("f(x -= 1)", "N0122"),
        ("y = x **= 2", "N0122"),
        ("f(y := 3)", "N0123"),
        ("x = y := 3", "N0123"),
        ("def f(x) -> = 3", "N0124"),
        ("for i: Fin(3):\n    x", "N0125"),
        ("x = [i for i: Fin(3)]", "N0125"),
        ("x = " + "(" * 300 + "1" + ")" * 300, "N0126"),
        ("x = " + "[" * 300 + "]" * 300, "N0126"),
        ("x = " + "a + " * 3000 + "a", "N0126"),
        ("x = " + "-" * 3000 + "a", "N0126"),
        ("x = a\0", "N0128"),
        ('x = "\ud800"', "N0128"),
        ("x[1] = 2", "N0130"),
        ("x + 1 = 2", "N0130"),
        ("x = [1 for 2 + 3]", "N0101"),
        ("lambda x & y: x", "N0130"),
        ("x = [1 2 3]", "N0131"),
        ("f(a b)", "N0131"),
        ('x = "\\q"', "N0132"),
        ("if x in xs: 3", "N0133"),
        ("x = (a in b)", "N0133"),
        ("x = a..b..c", "N0134"),
        ("a, b = f(x)", "N0135"),
        ("x = a, b", "N0135"),
        ("x = {1: 2}", "N0136"),
        ("f(a, e for i)", "N0137"),
        ("x = (e for i)", "N0137"),
        ('x = f"{a:.3f}"', "N0138"),
        ('x = f"{a!r}"', "N0138"),
        ('x = f"{}"', "N0138"),
        ('x = f"{a"', "N0138"),
        ("else: 3", "N0139"),
        ("def f():\n    import a", "N0139"),
        ("def f(x) =\n    y = 3\n    y", "N0140"),
    ],
)
def test_one_mistake_one_message(text: str, code: str) -> None:
    found = mistakes(text)
    assert [c for c, _ in found] == [code]


def test_independent_mistakes_are_all_told() -> None:
    text = """\
def f(x):
    y = x[1:2]
    z = (a + ]
    if z = 3:
        5x
    w = 1 +
    w

x = f(a, b
y = 'it'

def g(:
    a $ b
    c

struct S:
    class: Int
    ok: Int = 3
    bad = = 4
z = 1..2..3
"""
    assert mistakes(text) == [
        ("N0114", 2), ("N0103", 3), ("N0108", 4), ("N0112", 5), ("N0101", 6), ("N0102", 9),
        ("N0111", 10), ("N0102", 12), ("N0113", 13), ("N0101", 19), ("N0134", 20),
    ]  # fmt: skip


def test_a_bracket_left_open_costs_only_its_statement() -> None:
    module, wrong = parse(Source("page.nap", "x = f(a,\n    b\ny = 3\ndef g(z) = z\n"))
    assert [d.code for d in wrong] == ["N0102"]
    assert [type(d).__name__ for d in module.decls] == ["Bind", "Bind", "Def"]


@pytest.mark.parametrize("word", sorted(errors.FOREIGN - {"@"}))
def test_words_of_other_languages(word: str) -> None:
    assert [c for c, _ in mistakes(f"{word} x")] == ["N0115"]
    assert mistakes(f"{word} = 1\n") == ([("N0118", 1)] if word == "except" else [])


def test_nesting_may_be_deep_but_not_bottomless() -> None:
    fine = "x = " + "(" * 150 + "1" + ")" * 150 + "\n"
    assert bare(tree(show(tree(fine)))) == bare(tree(fine))
    sum_ = "x = " + " + ".join(["a"] * 900) + "\n"
    assert show(tree(sum_)).count("+") == 899
    blocks = "".join("    " * k + "if a:\n" for k in range(300)) + "    " * 300 + "b\n"
    assert [c for c, _ in mistakes(blocks)] == ["N0126"]


def test_a_very_long_line_is_shown_in_part() -> None:
    _, (wrong,) = parse(Source("page.nap", "x = " + "aaaa + " * 100 + "$" + " + b" * 3000))
    assert max(map(len, render(wrong).splitlines())) < 200
    assert "$" in render(wrong)


# ---------------------------------------------------------------- prompts and files


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("x = 1\n", False), ("f(a,\n", True), ("f(a,\nb)\n", False), ('x = """a\n', True),
        ("def f(x):\n", True), ("def f(x) =\n", True), ("x =\n", True),
        ("def f(x):\n    x\n", True), ("def f(x):\n    x\n\n", False), ("for i:\n", True),
        ("def f(x) =\n    x\n", False), ("if a:\n    b\nelse:\n", True), ("match x:\n", True),
        ("def f(x) = x\n", False), ("x = = 1\n", False), ("struct S:\n    x: Int\n", True),
        ("enum E =\n", True), ("enum E = A | B\n", False), ("f(a,\n$\n", False), ("", False),
    ],
)  # fmt: skip
def test_entries_that_go_on(text: str, more: bool) -> None:
    assert parse_entry(Source("<entry>", text))[2] is more


def test_an_entry_may_be_a_string() -> None:
    decls, wrong, _ = parse_entry(Source("<entry>", '"hello"\n'))
    assert not wrong
    assert [type(d) for d in decls] == [s.ExprStmt]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def code(path: Path) -> tuple[str, str]:
        source, wrong = read_source(path)
        assert source is None
        assert wrong is not None
        return wrong.code, wrong.message

    assert code(tmp_path / "no.nap")[0] == "N0127"
    assert "directory" in code(tmp_path)[1]
    bad = tmp_path / "bad.nap"
    bad.write_bytes(b"x = 1\ny = \xff\n")
    assert code(bad) == ("N0128", f"`{bad}` is not UTF-8 text: byte 10, on line 2, is 0xff")
    bad.write_bytes(b"#" * (LARGEST + 1))
    assert code(bad)[0] == "N0129"
    assert read_source("a\0b")[1] is not None
    bad.write_bytes("x = 1  # é\r\n".encode())
    source, wrong = read_source(bad)
    assert source is not None
    assert wrong is None
    assert source.text == "x = 1  # é\r\n"


def test_a_text_that_is_too_large_is_refused() -> None:
    assert parse(Source("big.nap", "x\n" * LARGEST))[1][0].code == "N0129"


# ---------------------------------------------------------------- pages

PAGES = sorted((ROOT / "docs/errors").glob("N01*.md"))
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_a_page_shows_its_message_and_a_program_that_is_right(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {path.stem}: ")
    blocks = _BLOCK.findall(text)
    programs = [body for tag, body in blocks if tag == "nap"]
    if claims := [body for tag, body in blocks if tag == "error"]:
        _, wrong = parse(Source("page.nap", programs[0]))
        assert {d.code for d in wrong} == {path.stem}
        assert "\n\n".join(map(render, wrong)) + "\n" == claims[0]
    tree(programs[-1])


def test_every_code_has_a_page() -> None:
    codes = set(re.findall(r"N01\d\d", (ROOT / "src/naperian/surface/errors.py").read_text()))
    assert codes == {p.stem for p in PAGES}


def test_what_is_repeated_for_good_is_one_character() -> None:
    """Python before 3.11.5 forgets where a group began that `*+` repeats: there the library's own
    text had a string without an end."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        assert not re.search(r"\)(?:[*+?]|\{[\d,]*\})\+|\(\?>", file.read_text()), file
