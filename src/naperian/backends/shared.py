"""What the loops of a module share: functions that are written once and called.

A loop's start, its memory and the merging of its copies are done once a loop, so a call costs
nothing; but LLVM takes its time for every line, and there may be a dozen loops in a gradient.
"""

from __future__ import annotations

from naperian.backends.code import Value
from naperian.backends.frame import Frame

GRAIN = 1 << 16  # additions that are worth another thread: about 20 microseconds

_RUN = """\
; a part for low … high - 1, here if it is little; gives the code of the first failure
define internal i64 @nap.run(ptr %part, ptr %env, i64 %low, i64 %high, i64 %grain, i1 %few) \
noinline nounwind {
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
}"""

_TIMES = """\
; a product of sizes; more than there can be where it overflows
define internal i64 @nap.times(i64 %a, i64 %b) noinline nounwind willreturn memory(none) {
  %n = call i64 @llvm.smax.i64(i64 %b, i64 0)
  %pair = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %a, i64 %n)
  %product = extractvalue {i64, i1} %pair, 0
  %over = extractvalue {i64, i1} %pair, 1
  %result = select i1 %over, i64 -1, i64 %product
  ret i64 %result
}"""

_ZERO = f"""\
; bytes become 0, shared out if they are many
define internal i64 @nap.zero.part(ptr %env, i64 %low, i64 %high, i64 %chunk) noinline nounwind {{
  %at = getelementptr i64, ptr %env, i64 3
  %base = load ptr, ptr %at
  %to = getelementptr i8, ptr %base, i64 %low
  %bytes = sub i64 %high, %low
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %bytes, i1 false)
  ret i64 0
}}

define internal i64 @nap.zero(ptr %p, i64 %bytes) noinline nounwind {{
  %env = alloca [4 x i64], align 8
  %at = getelementptr i64, ptr %env, i64 3
  store ptr %p, ptr %at
  %few = icmp sle i64 %bytes, {8 * GRAIN}
  %status = call i64 @nap.run(ptr @nap.zero.part, ptr %env, i64 0, i64 %bytes, i64 {8 * GRAIN}, \
i1 %few)
  ret i64 %status
}}"""

_MERGE = f"""\
; an array's copies are combined with it by a part, which has them in its environment
define internal i64 @nap.merge(ptr %part, ptr %to, ptr %copies, i64 %stride, i64 %chunks, \
i64 %count) noinline nounwind {{
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
  %status = call i64 @nap.run(ptr %part, ptr %env, i64 0, i64 %count, i64 %grain, i1 %few)
  ret i64 %status
none:
  ret i64 0
}}"""

_TEXTS = {"run": _RUN, "times": _TIMES, "zero": _ZERO, "merge": _MERGE}


def call(frame: Frame, name: str, args: str) -> Value:
    """The 64-bit result of one of the functions above."""
    for needed in ("run", name) if name in ("zero", "merge") else (name,):
        frame.module.definitions[f"@nap.{needed}"] = _TEXTS[needed]
    return frame.code.let(f"call i64 @nap.{name}({args})")
