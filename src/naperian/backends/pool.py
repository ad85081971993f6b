"""The thread pool and the other services of a running kernel, as LLVM IR.

A kernel calls

    i64 nap_parallel(fn, env, low, high, grain)   run fn(env, lo, hi, chunk) for chunks of low…high
    i64 nap_chunks(low, high, grain)              how many chunks that makes
    i64 nap_poll()                                not 0: stop, and answer -1
    ptr nap_alloc(bytes), nap_free(ptr)           memory on a 64-byte boundary, or null

Chunks depend on `low`, `high` and `grain` only, never on the number of threads, so what is merged
in the order of chunks is the same on every machine. A failure is that of the first failing chunk.

How a region runs. The caller publishes it, opens the *gate*, and takes chunks itself; a worker
that gets to run takes chunks too. The gate counts the workers inside and has a bit that says it is
open; a worker enters only through an open gate. When no chunk is left the caller closes the gate
and waits for those inside: nobody ever waits for a worker that has not been scheduled. Both sides
spin for a bounded time, then sleep on a futex. A region inside a region, or beside another one,
runs in its caller. Workers start with the first region and hold no lock while they sleep.
"""

from __future__ import annotations

import platform
import sys

CHUNKS = 256  # at most: enough to balance 64 threads, few enough to merge
SPINS = 2000  # rounds of `pause` before sleeping: some 50 microseconds

# the number of the futex system call, and how a processor is told that this thread spins
_FUTEX = {
    "x86_64": (202, "llvm.x86.sse2.pause", "", ""),
    "aarch64": (98, "llvm.aarch64.hint", "i32", "i32 1"),
}


def has_threads() -> bool:
    """Whether the pool exists here: Linux on a processor we know. Elsewhere regions run in the
    caller, chunk after chunk, with the same results."""
    return sys.platform.startswith("linux") and platform.machine() in _FUTEX


def pool_ir(python: bool = True) -> str:
    """The module that defines the services above. Without Python nothing interrupts a run."""
    large = _HUGE_PAGES if sys.platform.startswith("linux") else _ANY_PAGES
    asks = _PYTHON if python else _NOBODY
    return _SERVICES + large + asks + (_threads() if has_threads() else _SEQUENTIAL)


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

; 64-byte aligned; the word before it is what `malloc` gave
define ptr @nap_alloc(i64 %bytes) {{
  %fits = icmp ult i64 %bytes, {1 << 47}
  br i1 %fits, label %ask, label %none
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
  call void @nap.large(ptr %result, i64 %bytes)
  ret ptr %result
none:
  ret ptr null
}}

define void @nap_free(ptr %p) {{
  %nothing = icmp eq ptr %p, null
  br i1 %nothing, label %done, label %give
give:
  %before = getelementptr i8, ptr %p, i64 -8
  %raw = load ptr, ptr %before
  call void @free(ptr %raw)
  br label %done
done:
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

define i64 @nap_chunks(i64 %low, i64 %high, i64 %grain) {{
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
  %k = phi i64 [ 0, %entry ], [ %after, %run ]
  %more = icmp slt i64 %k, %chunks
  br i1 %more, label %run, label %done
run:
  %code = call i64 @run_chunk(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %k)
  %after = add i64 %k, 1
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %next, label %fail
fail:
  ret i64 %code
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
  %chunks = call i64 @nap_chunks(i64 %low, i64 %high, i64 %grain)
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


def _threads() -> str:
    futex, pause, types, values = _FUTEX[platform.machine()]
    spin = f"call void @{pause}({values})"
    return f"""
declare void @{pause}({types})
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @pthread_self()
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @clock_gettime(i32, ptr)

; the region
@fn = internal global ptr null
@env = internal global ptr null
@low = internal global i64 0
@high = internal global i64 0
@length = internal global i64 0                    ; of a chunk
@chunks = internal global i64 0
@next = internal global i64 0, align 64            ; the first chunk nobody has taken
@failed = internal global i64 0, align 64          ; the lowest failed chunk; -1: interrupted
@code = internal global i64 0                      ; and what it answered
@recording = internal global i32 0                 ; guards the two
@stop = internal global i64 0                      ; workers leave at their next poll

; the pool
@busy = internal global i32 0, align 64            ; a region runs
@gate = internal global i32 0, align 64            ; {_OPEN} when open, plus the workers inside
@waiting = internal global i32 0                   ; the caller sleeps on the gate
@generation = internal global i32 0, align 64      ; counts regions; workers sleep on it
@sleepers = internal global i32 0
@created = internal global i32 0                   ; workers there are
@wanted = internal global i32 0                    ; workers that may enter
@key = internal global i32 0                       ; marks a worker's thread
@keyed = internal global i32 0
@main = internal global i64 0                      ; Python's main thread
@looked = internal global i64 0, align 64          ; when signals were last looked at, milliseconds
@looked_elsewhere = internal global i64 0          ; and when another thread last let others run

@tenth = internal constant {{ i64, i64 }} {{ i64 0, i64 100000000 }}
@everything = internal constant [16 x i64] [{", ".join(["i64 -1"] * 16)}]

define void @nap_set_threads(i32 %wanted, i64 %main) {{
  %workers = sub i32 %wanted, 1
  store atomic i32 %workers, ptr @wanted seq_cst, align 4
  store i64 %main, ptr @main
  ret void
}}

; the child of a fork has one thread, and nothing runs in it
define void @nap_forked(i64 %main) {{
  store i32 0, ptr @created
  store i32 0, ptr @gate
  store i32 0, ptr @sleepers
  store i32 0, ptr @recording
  store i32 0, ptr @busy
  store i64 %main, ptr @main
  ret void
}}

define i32 @nap_workers() {{
  %n = load atomic i32, ptr @created seq_cst, align 4
  ret i32 %n
}}

define internal i64 @sleep_on(ptr %word, i32 %value, ptr %limit) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %value, ptr %limit)
  ret i64 %r
}}

define internal i64 @wake(ptr %word, i32 %count) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 129, i32 %count)
  ret i64 %r
}}

define i64 @nap_poll() {{
  %now = alloca {{ i64, i64 }}
  %keyed = load i32, ptr @keyed
  %any = icmp ne i32 %keyed, 0
  br i1 %any, label %who, label %python
who:
  %key = load i32, ptr @key
  %mark = call ptr @pthread_getspecific(i32 %key)
  %worker = icmp ne ptr %mark, null
  br i1 %worker, label %obey, label %python
obey:
  %stop = load atomic i64, ptr @stop monotonic, align 8
  ret i64 %stop
python:
  call i32 @clock_gettime(i32 6, ptr %now)         ; CLOCK_MONOTONIC_COARSE
  %seconds = load i64, ptr %now
  %rest = getelementptr i8, ptr %now, i64 8
  %nanoseconds = load i64, ptr %rest
  %large = mul i64 %seconds, 1000
  %small = sdiv i64 %nanoseconds, 1000000
  %time = add i64 %large, %small
  %self = call i64 @pthread_self()
  %main = load i64, ptr @main
  %is_main = icmp eq i64 %self, %main
  %clock = select i1 %is_main, ptr @looked, ptr @looked_elsewhere
  %last = load atomic i64, ptr %clock monotonic, align 8
  %passed = sub i64 %time, %last
  %due = icmp sgt i64 %passed, 50
  br i1 %due, label %look, label %go
look:
  store atomic i64 %time, ptr %clock monotonic, align 8
  %code = call i64 @ask()
  ret i64 %code
go:
  ret i64 0
}}

; remember the failure of the lowest chunk; an interrupt is below all
define internal void @record(i64 %k, i64 %code) {{
entry:
  %interrupted = icmp eq i64 %code, -1
  %rank = select i1 %interrupted, i64 -1, i64 %k
  br i1 %interrupted, label %halt, label %lock
halt:
  store atomic i64 1, ptr @stop seq_cst, align 8
  br label %lock
lock:
  %held = atomicrmw xchg ptr @recording, i32 1 seq_cst
  %free = icmp eq i32 %held, 0
  br i1 %free, label %compare, label %spin
spin:
  {spin}
  br label %lock
compare:
  %lowest = load i64, ptr @failed
  %lower = icmp slt i64 %rank, %lowest
  br i1 %lower, label %note, label %unlock
note:
  store atomic i64 %rank, ptr @failed seq_cst, align 8
  store i64 %code, ptr @code
  br label %unlock
unlock:
  store atomic i32 0, ptr @recording seq_cst, align 4
  ret void
}}

; take chunks until none is left; those after a failed one are not needed
define internal void @take_chunks() {{
entry:
  %fn = load ptr, ptr @fn
  %env = load ptr, ptr @env
  %low = load i64, ptr @low
  %high = load i64, ptr @high
  %step = load i64, ptr @length
  %chunks = load i64, ptr @chunks
  br label %take
take:
  %k = atomicrmw add ptr @next, i64 1 seq_cst
  %more = icmp slt i64 %k, %chunks
  br i1 %more, label %consider, label %done
consider:
  %failed = load atomic i64, ptr @failed monotonic, align 8
  %needed = icmp slt i64 %k, %failed
  br i1 %needed, label %run, label %done
run:
  %code = call i64 @run_chunk(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %k)
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %poll, label %fail
poll:
  %stop = call i64 @nap_poll()
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %take, label %interrupted
fail:
  call void @record(i64 %k, i64 %code)
  br label %take
interrupted:
  call void @record(i64 %k, i64 -1)
  br label %take
done:
  ret void
}}

define internal ptr @worker(ptr %number) {{
entry:
  %key = load i32, ptr @key
  %mine = ptrtoint ptr %number to i64
  %rank = trunc i64 %mine to i32
  call i32 @pthread_setspecific(i32 %key, ptr %number)
  br label %look
look:
  %seen = load atomic i32, ptr @generation seq_cst, align 4
  %wanted = load atomic i32, ptr @wanted seq_cst, align 4
  %called = icmp sle i32 %rank, %wanted
  br i1 %called, label %enter, label %idle
enter:
  %before = load atomic i32, ptr @gate seq_cst, align 4
  %open = icmp sge i32 %before, {_OPEN}
  br i1 %open, label %step_in, label %idle
step_in:
  %after = add i32 %before, 1
  %swap = cmpxchg ptr @gate, i32 %before, i32 %after seq_cst seq_cst
  %inside = extractvalue {{ i32, i1 }} %swap, 1
  br i1 %inside, label %work, label %enter
work:
  call void @take_chunks()
  %was = atomicrmw sub ptr @gate, i32 1 seq_cst
  %last = icmp eq i32 %was, 1
  br i1 %last, label %tell, label %idle
tell:
  %sleeping = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %sleeping, 0
  br i1 %asleep, label %wake_caller, label %idle
wake_caller:
  call i64 @wake(ptr @gate, i32 1)
  br label %idle
idle:
  br label %spin
spin:
  %round = phi i32 [ 0, %idle ], [ %rounds, %pause ]
  %current = load atomic i32, ptr @generation seq_cst, align 4
  %new = icmp ne i32 %current, %seen
  br i1 %new, label %look, label %pause
pause:
  {spin}
  %rounds = add i32 %round, 1
  %enough = icmp sge i32 %rounds, {SPINS}
  br i1 %enough, label %sleep, label %spin
sleep:
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  call i64 @sleep_on(ptr @generation, i32 %seen, ptr null)
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
}}

; start the workers that are wanted and not there yet, with every signal blocked: signals are for
; Python's threads. One that cannot be started is not missed. (The caller holds @busy.)
define internal void @start() {{
entry:
  %id = alloca i64
  %mask = alloca [16 x i64]
  %wanted = load atomic i32, ptr @wanted seq_cst, align 4
  %there = load i32, ptr @created
  %enough = icmp sge i32 %there, %wanted
  br i1 %enough, label %done, label %prepare
prepare:
  %keyed = load i32, ptr @keyed
  %has_key = icmp ne i32 %keyed, 0
  br i1 %has_key, label %block, label %make_key
make_key:
  %refused = call i32 @pthread_key_create(ptr @key, ptr null)
  %made = icmp eq i32 %refused, 0
  br i1 %made, label %keep_key, label %give_up
keep_key:
  store i32 1, ptr @keyed
  br label %block
block:
  call i32 @pthread_sigmask(i32 2, ptr @everything, ptr %mask)
  br label %create
create:
  %n = phi i32 [ %there, %block ], [ %rank, %created ]
  %more = icmp slt i32 %n, %wanted
  br i1 %more, label %one, label %unblock
one:
  %rank = add i32 %n, 1
  %wide = zext i32 %rank to i64
  %number = inttoptr i64 %wide to ptr
  %error = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr %number)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %created, label %short
created:
  %thread = load i64, ptr %id
  call i32 @pthread_detach(i64 %thread)
  store atomic i32 %rank, ptr @created seq_cst, align 4
  br label %create
short:
  store atomic i32 %n, ptr @wanted seq_cst, align 4
  br label %unblock
unblock:
  call i32 @pthread_sigmask(i32 2, ptr %mask, ptr null)
  br label %done
give_up:
  store atomic i32 0, ptr @wanted seq_cst, align 4
  br label %done
done:
  ret void
}}

define i64 @nap_parallel(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %grain) {{
entry:
  %chunks = call i64 @nap_chunks(i64 %low, i64 %high, i64 %grain)
  %n = sub i64 %high, %low
  %step = call i64 @step(i64 %n, i64 %grain)
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %ask_threads, label %alone
ask_threads:
  %wanted = load atomic i32, ptr @wanted seq_cst, align 4
  %threaded = icmp sgt i32 %wanted, 0
  br i1 %threaded, label %reserve, label %alone
reserve:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue {{ i32, i1 }} %swap, 1
  br i1 %mine, label %publish, label %alone
alone:
  %answer = call i64 @in_order(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %chunks)
  ret i64 %answer
publish:
  call void @start()
  store ptr %fn, ptr @fn
  store ptr %env, ptr @env
  store i64 %low, ptr @low
  store i64 %high, ptr @high
  store i64 %step, ptr @length
  store i64 %chunks, ptr @chunks
  store i64 {_NONE}, ptr @failed
  store i64 0, ptr @code
  store i64 0, ptr @stop
  store atomic i64 0, ptr @next seq_cst, align 8
  store atomic i32 {_OPEN}, ptr @gate seq_cst, align 4
  atomicrmw add ptr @generation, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %call_workers, label %work
call_workers:
  ; a worker beyond @wanted may be the one that wakes: call them all when there are such
  %there = load i32, ptr @created
  %allowed = load atomic i32, ptr @wanted seq_cst, align 4
  %exact = icmp eq i32 %there, %allowed
  %others = sub i64 %chunks, 1
  %needed = trunc i64 %others to i32
  %count = select i1 %exact, i32 %needed, i32 2147483647
  call i64 @wake(ptr @generation, i32 %count)
  br label %work
work:
  call void @take_chunks()
  atomicrmw sub ptr @gate, i32 {_OPEN} seq_cst
  br label %spin
spin:
  %round = phi i32 [ 0, %work ], [ %rounds, %pause ]
  %inside = load atomic i32, ptr @gate seq_cst, align 4
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %leave, label %pause
pause:
  {spin}
  %rounds = add i32 %round, 1
  %enough = icmp sge i32 %rounds, {SPINS}
  br i1 %enough, label %sleep, label %spin
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  br label %again
again:
  %left = load atomic i32, ptr @gate seq_cst, align 4
  %finished = icmp eq i32 %left, 0
  br i1 %finished, label %awake, label %doze
doze:
  call i64 @sleep_on(ptr @gate, i32 %left, ptr @tenth)
  %signal = call i64 @nap_poll()
  %calm = icmp eq i64 %signal, 0
  br i1 %calm, label %again, label %interrupted
interrupted:
  call void @record(i64 0, i64 -1)
  br label %again
awake:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  br label %leave
leave:
  %code = load i64, ptr @code
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret i64 %code
}}
"""


_OPEN = 1 << 30
_NONE = (1 << 63) - 1
