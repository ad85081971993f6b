"""Kernels as functions of C: plain parameters, checked, and an answer.

    int64_t stats_mean(int64_t n, const double *x, double *out, int64_t *error)

`View` is what such a function takes; `c_entry` writes it as LLVM IR around the kernel, and
`start` what a library does when it is loaded. Before the kernel runs, sizes that are negative or
break a promise of the type answer PRECONDITION, an index outside its set OUTSIDE.
"""

from __future__ import annotations

from collections.abc import Collection

from naperian.ainf.syntax import OUTSIDE
from naperian.backends.code import MEMORY, Code, Value
from naperian.dtypes import DType
from naperian.node import node
from naperian.signature import Form, Given, Instance, Leaf, Opened, Record, Rows, Tagged
from naperian.sizes import Clamp, Quotient, Remainder, Size

PRECONDITION = -4

_RESERVED = """
alignas alignof and and_eq asm auto bitand bitor bool break calloc case catch char class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
decltype default delete do double dynamic_cast else enum error explicit export extern false
float for free friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq printf private protected public register reinterpret_cast requires
restrict return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned
using virtual void volatile wchar_t while xor xor_eq NULL
"""
RESERVED = frozenset(_RESERVED.split())
"""What no parameter is called: the keywords of C and of C++, which reads the same header, and what
the header and the example use."""


@node
class View:
    """The parameters of a function: sizes that no scalar argument gives, by slot; the names of all
    slots, and of the leaves that go in and come out."""

    symbol: str
    sizes: tuple[int, ...]
    slots: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def view(prefix: str, inst: Instance) -> View:
    """How an instance looks from C."""
    sig = inst.signature
    given = {step.slot for step in sig.plan if isinstance(step, Given)}
    sizes = tuple(k for k in range(len(sig.slots)) if k not in given)
    slots: list[str] = []
    for name in sig.slots:
        slots.append(unused(name, RESERVED.union(slots)))
    taken = RESERVED.union(slots[k] for k in sizes)
    inputs = [""] * len(sig.inputs)
    outputs = [""] * len(sig.outputs)
    for p in sig.params:
        _name(p.form, p.name, inputs)
    _name(sig.result, "out", outputs)
    for names in (inputs, outputs):
        for k, name in enumerate(names):
            names[k] = unused(name, taken)
            taken |= {names[k]}
    return View(f"{prefix}_{sig.name}", sizes, tuple(slots), tuple(inputs), tuple(outputs))


def unused(name: str, taken: Collection[str]) -> str:
    """The name, or one like it that is not taken."""
    while name in taken:
        name += "_"
    return name


def _name(form: Form, name: str, names: list[str]) -> None:
    match form:
        case int():
            names[form] = name
        case Record(_, fields, items):
            for f, x in zip(fields, items, strict=True):
                _name(x, f"{name}_{f}", names)
        case Tagged(_, _, items):
            for k, x in enumerate(items):
                _name(x, f"{name}_{k}" if k else f"{name}_tag", names)
        case Rows(_, rows, values):
            names[rows] = f"{name}_rows"
            _name(values, f"{name}_values", names)
        case Opened(sizes, value):
            for k, (_, leaf) in enumerate(sizes):
                names[leaf] = f"{name}_size_{k}" if k else f"{name}_size"
            _name(value, name, names)
        case tuple():
            for k, x in enumerate(form):
                _name(x, f"{name}_{k}", names)


def parameters(v: View, inst: Instance) -> list[tuple[str, str]]:
    """(LLVM type, name) of every parameter, in order."""
    sig = inst.signature
    out = [("i64", v.slots[k]) for k in v.sizes]
    for name, leaf in zip(v.inputs, sig.inputs, strict=True):
        out.append(("ptr" if leaf.shape else MEMORY[inst.dtype(leaf)], name))
    out += [("ptr", name) for name in v.outputs]
    return [*out, ("ptr", "error")]


def c_entry(v: View, inst: Instance, base: int) -> str:
    """The function around `@<symbol>.kernel`. Failures are counted from `base` in this library."""
    return _Writer(v, inst, base).text()


class _Writer:
    def __init__(self, v: View, inst: Instance, base: int) -> None:
        self.v = v
        self.inst = inst
        self.base = base
        self.code = Code()
        self.slots = {k: f"%a{n}" for n, k in enumerate(v.sizes)}
        self.first = len(v.sizes)

    def text(self) -> str:
        inst, code, sig = self.inst, self.code, self.inst.signature
        ins, outs = len(sig.inputs), len(sig.outputs)
        kinds = parameters(self.v, inst)
        for step in sig.plan:
            if isinstance(step, Given):
                x = f"%a{self.first + step.leaf}"
                dtype = inst.dtype(sig.inputs[step.leaf])
                self.slots[step.slot] = self.wide(x, dtype)
        for k in self.v.sizes:
            self.refuse(code.let(f"icmp slt i64 {self.slots[k]}, 0"), PRECONDITION)
        for fact, _ in sig.facts:
            self.refuse(code.let(f"icmp slt i64 {self.size(fact)}, 0"), PRECONDITION)
        for k, leaf in enumerate(sig.inputs):
            if leaf.low is not None and leaf.high is not None:
                self.bounds(leaf, f"%a{self.first + k}")
        sizes = code.first(f"alloca [{max(1, len(inst.order))} x i64]")
        buffers = code.first(f"alloca [{max(1, ins + outs)} x ptr]")
        scalars = code.first(f"alloca [{max(1, ins + outs)} x i64]")
        spare = code.first("alloca [4 x i64]")
        for n, k in enumerate(inst.order):
            self.put(sizes, n, "i64", self.slots[k])
        for n in range(ins + outs):
            kind, _ = kinds[self.first + n]
            if kind == "ptr":
                self.put(buffers, n, "ptr", f"%a{self.first + n}")
            else:
                at = code.let(f"getelementptr i64, ptr {scalars}, i64 {n}")
                code.put(f"store {kind} %a{self.first + n}, ptr {at}")
                self.put(buffers, n, "ptr", at)
        last = f"%a{len(kinds) - 1}"
        none = code.let(f"icmp eq ptr {last}, null")
        error = code.let(f"select i1 {none}, ptr {spare}, ptr {last}")
        answer = code.let(
            f"call i64 @{self.v.symbol}.kernel"
            f"(ptr {sizes}, ptr {buffers}, ptr {scalars}, ptr {error})"
        )
        failed = code.let(f"icmp sgt i64 {answer}, 0")
        numbered = code.let(f"add i64 {answer}, {self.base}")
        code.put(f"ret i64 {code.let(f'select i1 {failed}, i64 {numbered}, i64 {answer}')}")
        params = ", ".join(f"{kind} %a{n}" for n, (kind, _) in enumerate(kinds))
        return (
            f"declare i64 @{self.v.symbol}.kernel(ptr, ptr, ptr, ptr)\n"
            f"define i64 @{self.v.symbol}({params}) {{\n{code.text()}\n}}\n"
        )

    def put(self, array: Value, n: int, kind: str, value: Value) -> None:
        at = self.code.let(f"getelementptr i64, ptr {array}, i64 {n}")
        self.code.put(f"store {kind} {value}, ptr {at}")

    def refuse(self, bad: Value, answer: int) -> None:
        code = self.code
        no, fine = code.label("refuse"), code.label("fine")
        code.branch(bad, no, fine)
        code.begin(no)
        code.put(f"ret i64 {answer}")
        code.begin(fine)

    def wide(self, x: Value, dtype: DType) -> Value:
        """An integer with 64 bits."""
        if dtype.bits == 64:
            return x
        extend = "sext" if dtype.is_signed else "zext"
        return self.code.let(f"{extend} {MEMORY[dtype]} {x} to i64")

    def size(self, s: Size) -> Value:
        code = self.code
        total = "0"
        for monomial, c in s.terms:
            product = str(c)
            for a in monomial:
                product = code.let(f"mul i64 {product}, {self.atom(a)}")
            total = code.let(f"add i64 {total}, {product}")
        return total

    def atom(self, a: object) -> Value:
        """Sizes and divisors are not negative, so quotients are rounded down by themselves but for
        negative dividends, which stand for empty sets."""
        match a:
            case int():
                return self.slots[a]
            case Quotient(x, y):
                return self.code.let(f"sdiv i64 {self.size(x)}, {self.size(y)}")
            case Remainder(x, y):
                return self.code.let(f"srem i64 {self.size(x)}, {self.size(y)}")
            case Clamp(x, y):
                last = self.code.let(f"sub i64 {self.size(y)}, 1")
                low = self.code.let(f"call i64 @llvm.smin.i64(i64 {self.size(x)}, i64 {last})")
                return self.code.let(f"call i64 @llvm.smax.i64(i64 {low}, i64 0)")
            case _:
                raise ValueError(f"a size mentions {a!r}")

    def bounds(self, leaf: Leaf, x: Value) -> None:
        """Every element is in low … high-1."""
        assert leaf.low is not None
        assert leaf.high is not None
        code, dtype = self.code, self.inst.dtype(leaf)
        low, high = self.size(leaf.low), self.size(leaf.high)
        span = code.let(f"sub i64 {high}, {low}")
        width = code.let(f"call i64 @llvm.smax.i64(i64 {span}, i64 0)")

        def outside(value: Value) -> Value:
            from_low = code.let(f"sub i64 {self.wide(value, dtype)}, {low}")
            return code.let(f"icmp uge i64 {from_low}, {width}")

        if not leaf.shape:
            self.refuse(outside(x), OUTSIDE)
            return
        count = "1"
        for extent in leaf.shape:
            n = code.let(f"call i64 @llvm.smax.i64(i64 {self.size(extent)}, i64 0)")
            count = code.let(f"mul i64 {count}, {n}")
        loop, body, done = code.label("each"), code.label("look"), code.label("done")
        before, index, after = code.block, code.name(), code.name()
        code.jump(loop)
        code.begin(loop)
        at = len(code.lines)
        code.branch(code.let(f"icmp slt i64 {index}, {count}"), body, done)
        code.begin(body)
        place = code.let(f"getelementptr {MEMORY[dtype]}, ptr {x}, i64 {index}")
        self.refuse(outside(code.let(f"load {MEMORY[dtype]}, ptr {place}")), OUTSIDE)
        code.put(f"{after} = add i64 {index}, 1")
        code.lines.insert(at, f"  {index} = phi i64 [ 0, %{before} ], [ {after}, %{code.block} ]")
        code.jump(loop)
        code.begin(done)


def start(prefix: str, messages: tuple[str, ...]) -> str:
    """The rest of a library: how many threads it uses, and what its answers mean."""
    texts = [_constant(f"@m{k}", m) for k, m in enumerate(messages)]
    cases = "\n".join(f"    i64 {k + 1}, label %l{k}" for k in range(len(messages)))
    blocks = "\n".join(f"l{k}:\n  ret ptr @m{k}" for k in range(len(messages)))
    known = {
        0: "done", -2: "there is not enough memory for an intermediate array",
        OUTSIDE: "an element of an array of indices is not in its set",
        PRECONDITION: "the sizes are negative or break a promise of the type",
    }  # fmt: skip
    fixed = [_constant(f"@k{-k}", m) for k, m in known.items()]
    cases += "\n" + "\n".join(f"    i64 {k}, label %k{-k}" for k in known)
    blocks += "\n" + "\n".join(f"k{-k}:\n  ret ptr @k{-k}" for k in known)
    return f"""
{chr(10).join([*texts, *fixed])}
{_constant("@unknown", "unknown")}
{_constant("@variable", "NAPERIAN_THREADS")}
@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] \
[{{ i32, ptr, ptr }} {{ i32 65535, ptr @start, ptr null }}]
declare void @nap_set_threads(i32, i64)
declare void @nap_forked(i64)
declare void @nap_free(ptr)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_atfork(ptr, ptr, ptr)
declare ptr @getenv(ptr)
declare i64 @strtol(ptr, ptr, i32)
declare i64 @llvm.ctpop.i64(i64)

define internal void @child() {{
  call void @nap_forked(i64 0)
  ret void
}}

; as many threads as NAPERIAN_THREADS says, else as there are processors for this process
define internal void @start() {{
entry:
  %set = alloca [16 x i64]
  call i32 @pthread_atfork(ptr null, ptr null, ptr @child)
  %text = call ptr @getenv(ptr @variable)
  %silent = icmp eq ptr %text, null
  br i1 %silent, label %count, label %told
told:
  %wish = call i64 @strtol(ptr %text, ptr null, i32 10)
  %wished = trunc i64 %wish to i32
  call void @{prefix}_set_threads(i32 %wished)
  ret void
count:
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %set)
  %bytes = sext i32 %got to i64
  br label %each
each:
  %k = phi i64 [ 0, %count ], [ %next, %word ]
  %n = phi i64 [ 0, %count ], [ %more, %word ]
  %end = mul i64 %k, 8
  %inside = icmp slt i64 %k, 16
  br i1 %inside, label %word, label %done
word:
  %at = getelementptr i64, ptr %set, i64 %k
  %bits = load i64, ptr %at
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %more = add i64 %n, %ones
  %next = add i64 %k, 1
  br label %each
done:
  %failed = icmp slt i64 %bytes, 0
  %chosen = select i1 %failed, i64 1, i64 %n
  %threads = trunc i64 %chosen to i32
  call void @{prefix}_set_threads(i32 %threads)
  ret void
}}

define void @{prefix}_set_threads(i32 %n) {{
  %few = icmp slt i32 %n, 1
  %many = icmp sgt i32 %n, 1024
  %least = select i1 %few, i32 1, i32 %n
  %threads = select i1 %many, i32 1024, i32 %least
  call void @nap_set_threads(i32 %threads, i64 0)
  ret void
}}

define void @{prefix}_free(ptr %p) {{
  call void @nap_free(ptr %p)
  ret void
}}

define ptr @{prefix}_message(i64 %answer) {{
  switch i64 %answer, label %unknown [
{cases}
  ]
{blocks}
unknown:
  ret ptr @unknown
}}
"""


def _constant(name: str, text: str) -> str:
    data = text.encode()
    escaped = "".join(f"\\{b:02X}" for b in (*data, 0))
    return f'{name} = internal constant [{len(data) + 1} x i8] c"{escaped}"'
