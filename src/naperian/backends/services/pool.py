"""The thread pool and the other services of a running kernel, as LLVM IR.

A kernel calls

    i64 nap_parallel(fn, env, low, high, grain)   run fn(env, lo, hi, chunk) for chunks of low…high
    i64 nap_poll()                                not 0: stop, and answer -1
    ptr nap_alloc(bytes), nap_free(ptr)           memory on a 64-byte boundary, or null

and what `regions.py` has, which is written with these.

Chunks depend on `low`, `high` and `grain` only, never on the number of threads, so what is merged
in the order of chunks is the same on every machine. A failure is that of the first failing chunk.

How chunks come to threads is in `threads.py`.
"""

from __future__ import annotations

import sys

from naperian.backends.services.kept import kept_ir
from naperian.backends.services.regions import CHUNKS, REGIONS
from naperian.backends.services.threads import has_threads, threads_ir


def pool_ir(python: bool = True) -> str:
    """The module that defines the services above. Without Python nothing interrupts a run."""
    large = _HUGE_PAGES if sys.platform.startswith("linux") else _ANY_PAGES
    asks = _PYTHON if python else _NOBODY
    pool = threads_ir() if has_threads() else _SEQUENTIAL
    return _SERVICES + REGIONS + kept_ir() + large + asks + pool


# A large array's memory comes fresh from the system, page by page as it is first touched: in pages
# of 4 KiB that takes longer than many a sweep over it, so larger ones are asked for (14 is
# MADV_HUGEPAGE; what the system answers changes nothing).
_HUGE_PAGES = f"""
declare i32 @madvise(ptr, i64, i32)

define internal void @nap.large(ptr %p, i64 %bytes) {{
  %much = icmp uge i64 %bytes, {1 << 22}
  br i1 %much, label %ask, label %done
ask:
  %number = ptrtoint ptr %p to i64
  %past = add i64 %number, 4095
  %place = and i64 %past, -4096
  %page = inttoptr i64 %place to ptr
  %less = sub i64 %bytes, 4096
  %whole = and i64 %less, -4096
  %status = call i32 @madvise(ptr %page, i64 %whole, i32 14)
  br label %done
done:
  ret void
}}
"""

_ANY_PAGES = """
define internal void @nap.large(ptr %p, i64 %bytes) {
  ret void
}
"""

_SERVICES = f"""
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; 64-byte aligned; the words before it are its size and what `malloc` gave
define ptr @nap_alloc(i64 %bytes) {{
  %fits = icmp ult i64 %bytes, {1 << 47}
  br i1 %fits, label %look, label %none
look:
  %again = call ptr @nap.again(i64 %bytes)
  %there = icmp ne ptr %again, null
  br i1 %there, label %use, label %ask
use:
  ret ptr %again
ask:
  %room = add i64 %bytes, 72
  %raw = call ptr @malloc(i64 %room)
  %got = icmp ne ptr %raw, null
  br i1 %got, label %align, label %none
align:
  %number = ptrtoint ptr %raw to i64
  %past = add i64 %number, 72
  %place = and i64 %past, -64
  %result = inttoptr i64 %place to ptr
  %before = getelementptr i8, ptr %result, i64 -8
  store ptr %raw, ptr %before
  %first = getelementptr i8, ptr %result, i64 -16
  store i64 %bytes, ptr %first
  call void @nap.large(ptr %result, i64 %bytes)
  ret ptr %result
none:
  ret ptr null
}}

define void @nap_free(ptr %p) {{
  %nothing = icmp eq ptr %p, null
  br i1 %nothing, label %done, label %keep
keep:
  %first = getelementptr i8, ptr %p, i64 -16
  %bytes = load i64, ptr %first
  %kept = call i1 @nap.keep(ptr %p, i64 %bytes)
  br i1 %kept, label %done, label %give
give:
  call void @nap.release(ptr %p)
  br label %done
done:
  ret void
}}

define internal void @nap.release(ptr %p) {{
  %before = getelementptr i8, ptr %p, i64 -8
  %raw = load ptr, ptr %before
  call void @free(ptr %raw)
  ret void
}}

; how many iterations a chunk has: the grain, but not more than {CHUNKS} chunks, and whole cache
; lines of elements when it is long
define internal i64 @step(i64 %n, i64 %grain) {{
  %round = add i64 %n, {CHUNKS - 1}
  %least = sdiv i64 %round, {CHUNKS}
  %wanted = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %exact = call i64 @llvm.smax.i64(i64 %least, i64 %wanted)
  %up = add i64 %exact, 63
  %lines = and i64 %up, -64
  %long = icmp sgt i64 %exact, 64
  %step = select i1 %long, i64 %lines, i64 %exact
  ret i64 %step
}}

define internal i64 @chunks_of(i64 %low, i64 %high, i64 %grain) {{
  %n = sub i64 %high, %low
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %count, label %none
count:
  %step = call i64 @step(i64 %n, i64 %grain)
  %past = add i64 %n, %step
  %round = sub i64 %past, 1
  %chunks = sdiv i64 %round, %step
  ret i64 %chunks
none:
  ret i64 0
}}

define internal i64 @run_chunk(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %k) {{
  %offset = mul i64 %k, %step
  %from = add i64 %low, %offset
  %past = add i64 %from, %step
  %to = call i64 @llvm.smin.i64(i64 %past, i64 %high)
  %code = call i64 %fn(ptr %env, i64 %from, i64 %to, i64 %k)
  ret i64 %code
}}

; every chunk in the caller, in order, to the first that fails
define internal i64 @in_order(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %chunks) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %ask ]
  %more = icmp slt i64 %k, %chunks
  br i1 %more, label %run, label %done
run:
  %code = call i64 @run_chunk(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %k)
  %after = add i64 %k, 1
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %ask, label %fail
ask:
  %stop = call i64 @nap_poll()
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %next, label %interrupted
fail:
  ret i64 %code
interrupted:
  ret i64 %stop
done:
  ret i64 0
}}

"""

_NOBODY = """
define internal i64 @ask() {
  ret i64 0
}
"""

_PYTHON = """
; Signals. Python runs their handlers in the main thread, holding the GIL; a kernel may have
; released it. A kernel that holds it lets other Python threads run. @ask does it, every time.
declare i32 @PyGILState_Check()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define internal i64 @ask() {
  %held = call i32 @PyGILState_Check()
  %mine = icmp ne i32 %held, 0
  br i1 %mine, label %holding, label %without
holding:
  %caught = call i32 @PyErr_CheckSignals()
  %stopped = icmp ne i32 %caught, 0
  br i1 %stopped, label %stop, label %yield
yield:
  %thread = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 0
without:
  %state = call i32 @PyGILState_Ensure()
  %seen = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %code = sext i32 %seen to i64
  ret i64 %code
stop:
  ret i64 -1
}
"""

_SEQUENTIAL = """
@polls = internal global i64 0

define i64 @nap_parallel(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %grain) {
  %chunks = call i64 @chunks_of(i64 %low, i64 %high, i64 %grain)
  %n = sub i64 %high, %low
  %step = call i64 @step(i64 %n, i64 %grain)
  %code = call i64 @in_order(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %chunks)
  ret i64 %code
}

define i64 @nap_poll() {
  %k = atomicrmw add ptr @polls, i64 1 monotonic
  %low = and i64 %k, 15
  %due = icmp eq i64 %low, 0
  br i1 %due, label %look, label %go
look:
  %code = call i64 @ask()
  ret i64 %code
go:
  ret i64 0
}

define void @nap_set_threads(i32 %wanted, i64 %main) {
  ret void
}

define void @nap_forked(i64 %main) {
  ret void
}

define i32 @nap_workers() {
  ret i32 0
}
"""
