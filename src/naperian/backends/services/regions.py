"""What kernels do around their loops, written once for all of them: services of the run time.

    i64 nap_run(part, env, low, high, grain, few)     the loop that `part` is, here or by the pool
    i64 nap_parts(low, high, grain, few)              how many chunks that makes
    i64 nap_grain(work)                               of iterations, or less than 0 (see `GRAIN`)
    i64 nap_zero(p, bytes)                            0, or not: the bytes become 0
    i64 nap_merge(part, to, copies, stride, n, count) an array's n copies are combined with it
    i64 nap_times(a, b)                               a product of sizes, -1 where it overflows
    void nap_report(env, error, chunk, code, a…d)     what a failing part says

A loop's start, its memory and the merging of its copies are done once a loop, so a call costs
nothing; but LLVM takes its time for every line and more for every function, and most programs have
one or two of them.

    i64 nap_merge_add_f64(env, low, high, chunk)      the `part` of `nap_merge` for sums; _f32, _i64

An environment starts with three words: a lock, the lowest chunk that failed and its code.
"""

from __future__ import annotations

CHUNKS = 256  # at most: enough to balance 64 threads, few enough to merge
GRAIN = 1 << 16
"""Additions that are worth another thread: about 20 microseconds. The grain of a loop is how many
iterations have so many, or minus how often one iteration has them."""

PART = "ptr %env, i64 %low, i64 %high, i64 %chunk"
"""The parameters of a part: what it mentions, its range, and which chunk of the loop that is."""

DECLARATIONS = """\
declare i64 @nap_run(ptr, ptr, i64, i64, i64, i1) nounwind
declare i64 @nap_parts(i64, i64, i64, i1) nounwind willreturn memory(none)
declare i64 @nap_grain(i64) nounwind willreturn memory(none)
declare i64 @nap_zero(ptr, i64) nounwind
declare i64 @nap_merge(ptr, ptr, ptr, i64, i64, i64) nounwind
declare i64 @nap_times(i64, i64) nounwind willreturn memory(none)
declare void @nap_report(ptr, ptr, i64, i64, i64, i64, i64, i64) cold nounwind
"""
SUMMED = {"f64": ("double", 8, "fadd"), "f32": ("float", 16, "fadd"), "i64": ("i64", 8, "add")}
"""The numbers that `nap_merge_add_…` are for: LLVM's type, how many are a vector, the operation."""


def _added(name: str) -> str:
    """The part that adds an array's copies to it, vectors first."""
    t, lanes, add = SUMMED[name]
    v = f"<{lanes} x {t}>"
    align = 64 // lanes
    return f"""
define i64 @nap_merge_add_{name}(ptr %env, i64 %low, i64 %high, i64 %chunk) {{
entry:
  %env3 = getelementptr i64, ptr %env, i64 3
  %to = load ptr, ptr %env3
  %env4 = getelementptr i64, ptr %env, i64 4
  %copies = load ptr, ptr %env4
  %env5 = getelementptr i64, ptr %env, i64 5
  %stride = load i64, ptr %env5
  %env6 = getelementptr i64, ptr %env, i64 6
  %others = load i64, ptr %env6
  %count = sub i64 %high, %low
  %whole = and i64 %count, -{lanes}
  %end = add i64 %low, %whole
  br label %copy
copy:
  %c = phi i64 [ 0, %entry ], [ %c.next, %next ]
  %distance = mul i64 %c, %stride
  %from = getelementptr i8, ptr %copies, i64 %distance
  br label %vectors
vectors:
  %k = phi i64 [ %low, %copy ], [ %k.next, %vector ]
  %more = icmp slt i64 %k, %end
  br i1 %more, label %vector, label %rest
vector:
  %y.at = getelementptr {t}, ptr %to, i64 %k
  %x.at = getelementptr {t}, ptr %from, i64 %k
  %y = load {v}, ptr %y.at, align {align}
  %x = load {v}, ptr %x.at, align {align}
  %sum = {add} {v} %y, %x
  store {v} %sum, ptr %y.at, align {align}
  %k.next = add i64 %k, {lanes}
  br label %vectors
rest:
  %j = phi i64 [ %end, %vectors ], [ %j.next, %one ]
  %left = icmp slt i64 %j, %high
  br i1 %left, label %one, label %next
one:
  %b.at = getelementptr {t}, ptr %to, i64 %j
  %a.at = getelementptr {t}, ptr %from, i64 %j
  %b = load {t}, ptr %b.at
  %a = load {t}, ptr %a.at
  %both = {add} {t} %b, %a
  store {t} %both, ptr %b.at
  %j.next = add i64 %j, 1
  br label %rest
next:
  %c.next = add i64 %c, 1
  %again = icmp slt i64 %c.next, %others
  br i1 %again, label %copy, label %done
done:
  ret i64 0
}}
"""


REGIONS = f"""
; a part for low … high - 1, here if it is little; gives the code of the first failure
define i64 @nap_run(ptr %part, ptr %env, i64 %low, i64 %high, i64 %grain, i1 %few) {{
entry:
  store i64 0, ptr %env
  %lowest = getelementptr i64, ptr %env, i64 1
  store i64 9223372036854775807, ptr %lowest
  %code = getelementptr i64, ptr %env, i64 2
  store i64 0, ptr %code
  br i1 %few, label %here, label %pool
here:
  %alone = call i64 %part(ptr %env, i64 %low, i64 %high, i64 0)
  br label %both
pool:
  %shared = call i64 @nap_parallel(ptr %part, ptr %env, i64 %low, i64 %high, i64 %grain)
  br label %both
both:
  %status = phi i64 [ %alone, %here ], [ %shared, %pool ]
  %failed = icmp sgt i64 %status, 0
  %first = load i64, ptr %code
  %result = select i1 %failed, i64 %first, i64 %status
  ret i64 %result
}}

define i64 @nap_parts(i64 %low, i64 %high, i64 %grain, i1 %few) {{
  br i1 %few, label %one, label %many
one:
  ret i64 1
many:
  %chunks = call i64 @chunks_of(i64 %low, i64 %high, i64 %grain)
  ret i64 %chunks
}}

define i64 @nap_grain(i64 %work) {{
  %several = udiv i64 {GRAIN}, %work
  %often = udiv i64 %work, {GRAIN}
  %minus = sub i64 0, %often
  %none = icmp eq i64 %several, 0
  %grain = select i1 %none, i64 %minus, i64 %several
  ret i64 %grain
}}

; bytes become 0, shared out if they are many
define internal i64 @nap.zero.part(ptr %env, i64 %low, i64 %high, i64 %chunk) {{
  %at = getelementptr i64, ptr %env, i64 3
  %base = load ptr, ptr %at
  %to = getelementptr i8, ptr %base, i64 %low
  %bytes = sub i64 %high, %low
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %bytes, i1 false)
  ret i64 0
}}

define i64 @nap_zero(ptr %p, i64 %bytes) {{
  %env = alloca [4 x i64], align 8
  %at = getelementptr i64, ptr %env, i64 3
  store ptr %p, ptr %at
  %few = icmp sle i64 %bytes, {8 * GRAIN}
  %status = call i64 @nap_run(ptr @nap.zero.part, ptr %env, i64 0, i64 %bytes, i64 {8 * GRAIN}, \
i1 %few)
  ret i64 %status
}}

; an array's copies are combined with it by a part, which has them in its environment
define i64 @nap_merge(ptr %part, ptr %to, ptr %copies, i64 %stride, i64 %chunks, \
i64 %count) {{
entry:
  %some = icmp sgt i64 %chunks, 1
  br i1 %some, label %merge, label %none
merge:
  %env = alloca [7 x i64], align 8
  %env3 = getelementptr i64, ptr %env, i64 3
  store ptr %to, ptr %env3
  %env4 = getelementptr i64, ptr %env, i64 4
  store ptr %copies, ptr %env4
  %env5 = getelementptr i64, ptr %env, i64 5
  store i64 %stride, ptr %env5
  %env6 = getelementptr i64, ptr %env, i64 6
  %others = sub i64 %chunks, 1
  store i64 %others, ptr %env6
  %share = udiv i64 {GRAIN}, %chunks
  %grain = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %few = icmp sle i64 %count, %grain
  %status = call i64 @nap_run(ptr %part, ptr %env, i64 0, i64 %count, i64 %grain, i1 %few)
  ret i64 %status
none:
  ret i64 0
}}

; a product of sizes; more than there can be where it overflows
define i64 @nap_times(i64 %a, i64 %b) {{
  %n = call i64 @llvm.smax.i64(i64 %b, i64 0)
  %pair = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 %a, i64 %n)
  %product = extractvalue {{i64, i1}} %pair, 0
  %over = extractvalue {{i64, i1}} %pair, 1
  %result = select i1 %over, i64 -1, i64 %product
  ret i64 %result
}}

; the failure of the lowest chunk wins: its number, its code and its values
define void @nap_report(ptr %env, ptr %error, i64 %chunk, i64 %code, \
i64 %a, i64 %b, i64 %c, i64 %d) {{
entry:
  br label %wait
wait:
  %seen = cmpxchg ptr %env, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %seen, 1
  br i1 %mine, label %compare, label %wait
compare:
  %at = getelementptr i64, ptr %env, i64 1
  %lowest = load i64, ptr %at
  %lower = icmp slt i64 %chunk, %lowest
  br i1 %lower, label %write, label %leave
write:
  store i64 %chunk, ptr %at
  %at.code = getelementptr i64, ptr %env, i64 2
  store i64 %code, ptr %at.code
  store i64 %a, ptr %error
  %e1 = getelementptr i64, ptr %error, i64 1
  store i64 %b, ptr %e1
  %e2 = getelementptr i64, ptr %error, i64 2
  store i64 %c, ptr %e2
  %e3 = getelementptr i64, ptr %error, i64 3
  store i64 %d, ptr %e3
  br label %leave
leave:
  store atomic i64 0, ptr %env release, align 8
  ret void
}}
""" + "".join(map(_added, SUMMED))
