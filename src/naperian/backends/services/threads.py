"""The threads of the pool, as LLVM IR.

How a region runs. The caller publishes it, opens the *gate*, and takes chunks itself; a worker
that gets to run takes chunks too. The gate counts the workers inside and has a bit that says it is
open; a worker enters only through an open gate. When no chunk is left the caller closes the gate
and waits for those inside: nobody ever waits for a worker that has not been scheduled.

Who takes what. The chunks are cut into as many *shares* as there are threads, and a thread takes
from its own share before it helps with another: in a loop over time the part of an array that a
thread wrote is in its cache when it comes back.

Who is awake. A worker waits for the next region as long as the last one took, up to a millisecond:
it wastes half of its time at most, and the regions of a loop over time find it awake. It lets
others run all the while (a processor that is wanted is given up every two microseconds), and then
it sleeps on a futex. To wake it costs the caller some 10 microseconds, so that is done only
for what is long: by the number of grains, or, where these are few, by what the first chunks took.

Where it runs. Some schedulers wake a thread on the processor of the one that wakes it, which then
waits. A worker that finds itself on the caller's processor moves to another one.

A region inside a region, or beside another one, runs in its caller. Workers start with the first
region that is long and hold no lock while they sleep.
"""

from __future__ import annotations

import platform
import sys

MANY = 48  # grains that are worth a call to the workers: at least 60 microseconds
WORTH = 50_000  # nanoseconds of work left that are
SHARES = 64  # at most
PAUSES = 64  # in a round of waiting, between two offers of the processor: 2 microseconds
ROUNDS = 20  # of waiting at least, and at most
PATIENCE = 400
ROUND = 2500  # nanoseconds

# the number of the futex system call, and how a processor is told that this thread spins
_FUTEX = {
    "x86_64": (202, "llvm.x86.sse2.pause", "", ""),
    "aarch64": (98, "llvm.aarch64.hint", "i32", "i32 1"),
}


def has_threads() -> bool:
    """Whether the pool exists here: Linux on a processor we know. Elsewhere regions run in the
    caller, chunk after chunk, with the same results."""
    return sys.platform.startswith("linux") and platform.machine() in _FUTEX


def threads_ir() -> str:
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
declare i32 @sched_yield()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; the region
@fn = internal global ptr null
@env = internal global ptr null
@low = internal global i64 0
@high = internal global i64 0
@length = internal global i64 0                    ; of a chunk
@chunks = internal global i64 0
@shares = internal global i64 1
@began = internal global i64 0                     ; when, in nanoseconds
@place = internal global i32 0                     ; the caller's processor
@next = internal global [{SHARES} x [8 x i64]] zeroinitializer, align 64  ; a share's first chunk
                                                   ; that nobody has taken
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

define internal i64 @clock() {{
  %now = alloca {{ i64, i64 }}
  call i32 @clock_gettime(i32 1, ptr %now)         ; CLOCK_MONOTONIC
  %seconds = load i64, ptr %now
  %rest = getelementptr i8, ptr %now, i64 8
  %nanoseconds = load i64, ptr %rest
  %large = mul i64 %seconds, 1000000000
  %time = add i64 %large, %nanoseconds
  ret i64 %time
}}

; wait until a word changes, or some rounds; whether it did
define internal i1 @changes(ptr %word, i32 %value, i64 %rounds) {{
entry:
  br label %round
round:
  %n = phi i64 [ 0, %entry ], [ %n1, %offer ]
  br label %spin
spin:
  %k = phi i64 [ 0, %round ], [ %k1, %pause ]
  %current = load atomic i32, ptr %word seq_cst, align 4
  %new = icmp ne i32 %current, %value
  br i1 %new, label %done, label %pause
pause:
  {spin}
  %k1 = add i64 %k, 1
  %on = icmp slt i64 %k1, {PAUSES}
  br i1 %on, label %spin, label %offer
offer:
  call i32 @sched_yield()
  %n1 = add i64 %n, 1
  %again = icmp slt i64 %n1, %rounds
  br i1 %again, label %round, label %done
done:
  %answer = phi i1 [ true, %spin ], [ false, %offer ]
  ret i1 %answer
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

; where a share begins
define internal i64 @start_of(i64 %share, i64 %shares, i64 %chunks) {{
  %part = mul i64 %share, %chunks
  %first = udiv i64 %part, %shares
  ret i64 %first
}}

; take chunks, of one's own share first, until none is left; those after a failed one are not
; needed. Who is to `call` the workers does so as soon as it is seen that much is left.
define internal void @take_chunks(i64 %rank, i1 %call) {{
entry:
  %fn = load ptr, ptr @fn
  %env = load ptr, ptr @env
  %low = load i64, ptr @low
  %high = load i64, ptr @high
  %step = load i64, ptr @length
  %chunks = load i64, ptr @chunks
  %shares = load i64, ptr @shares
  %own = urem i64 %rank, %shares
  br label %share
share:
  %tried = phi i64 [ 0, %entry ], [ %more_tried, %over ]
  %to_call = phi i1 [ %call, %entry ], [ %calling, %over ]
  %is_left = icmp ult i64 %tried, %shares
  br i1 %is_left, label %begin, label %done
begin:
  %far = add i64 %own, %tried
  %s = urem i64 %far, %shares
  %s1 = add i64 %s, 1
  %end = call i64 @start_of(i64 %s1, i64 %shares, i64 %chunks)
  %counter = getelementptr [8 x i64], ptr @next, i64 %s
  br label %take
take:
  %calling = phi i1 [ %to_call, %begin ], [ %calling, %fail ], [ %calling, %interrupted ], \
[ false, %poll ], [ true, %measure ], [ false, %summon ]
  %k = atomicrmw add ptr %counter, i64 1 seq_cst
  %more = icmp slt i64 %k, %end
  br i1 %more, label %consider, label %over
consider:
  %failed = load atomic i64, ptr @failed monotonic, align 8
  %needed = icmp slt i64 %k, %failed
  br i1 %needed, label %run, label %over
run:
  %code = call i64 @run_chunk(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %step, i64 %k)
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %ask, label %fail
ask:
  %stop = call i64 @nap_poll()
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %poll, label %interrupted
poll:
  br i1 %calling, label %measure, label %take
measure:
  %now = call i64 @clock()
  %began = load i64, ptr @began
  %took = sub i64 %now, %began
  %ran = add i64 %k, 1
  %left = sub i64 %chunks, %ran
  %all_left = mul i64 %took, %left                 ; times the chunks that ran
  %little = mul i64 %ran, {WORTH}
  %long = icmp sgt i64 %all_left, %little
  br i1 %long, label %summon, label %take
summon:
  call void @summon()
  br label %take
fail:
  call void @record(i64 %k, i64 %code)
  br label %take
interrupted:
  call void @record(i64 %k, i64 -1)
  br label %take
over:
  %more_tried = add i64 %tried, 1
  br label %share
done:
  ret void
}}

; this thread leaves a processor, if it may use another
define internal void @avoid(i32 %processor, ptr %mask) {{
entry:
  %others = alloca [16 x i64]
  %known = icmp ult i32 %processor, 1024
  br i1 %known, label %copy, label %done
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr %mask, i64 128, i1 false)
  %wide = zext i32 %processor to i64
  %word = lshr i64 %wide, 6
  %bit = and i64 %wide, 63
  %one = shl i64 1, %bit
  %rest = xor i64 %one, -1
  %at = getelementptr i64, ptr %others, i64 %word
  %before = load i64, ptr %at
  %after = and i64 %before, %rest
  store i64 %after, ptr %at
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)  ; refused if none is left
  br label %done
done:
  ret void
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @worker(ptr %number) {{
entry:
  %mask = alloca [16 x i64]                        ; the processors it may use
  %key = load i32, ptr @key
  %mine = ptrtoint ptr %number to i64
  %rank = trunc i64 %mine to i32
  call i32 @pthread_setspecific(i32 %key, ptr %number)
  %unknown = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %movable = icmp sge i32 %unknown, 0
  br label %look
look:
  %seen = load atomic i32, ptr @generation seq_cst, align 4
  %wanted = load atomic i32, ptr @wanted seq_cst, align 4
  %called = icmp sle i32 %rank, %wanted
  br i1 %called, label %where, label %idle
where:
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr @place monotonic, align 4
  %same = icmp eq i32 %here, %there
  %crowd = and i1 %same, %movable
  br i1 %crowd, label %move, label %enter
move:
  call void @avoid(i32 %here, ptr %mask)
  br label %enter
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
  call void @take_chunks(i64 %mine, i1 false)
  %now = call i64 @clock()
  %began = load i64, ptr @began
  %was = atomicrmw sub ptr @gate, i32 1 seq_cst
  %took = sub i64 %now, %began
  %as_long = udiv i64 %took, {ROUND}
  %bounded = call i64 @llvm.umin.i64(i64 %as_long, i64 {PATIENCE})
  %patience = call i64 @llvm.umax.i64(i64 %bounded, i64 {ROUNDS})
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
  %rounds = phi i64 [ {ROUNDS}, %look ], [ {ROUNDS}, %enter ], [ %patience, %work ], \
[ %patience, %tell ], [ %patience, %wake_caller ]
  %new = call i1 @changes(ptr @generation, i32 %seen, i64 %rounds)
  br i1 %new, label %look, label %sleep
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

; the workers that are missing start and those that sleep wake
define internal void @summon() {{
entry:
  call void @start()
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %call, label %done
call:
  ; a worker beyond @wanted may be the one that wakes: call them all when there are such
  %there = load i32, ptr @created
  %allowed = load atomic i32, ptr @wanted seq_cst, align 4
  %exact = icmp eq i32 %there, %allowed
  %chunks = load i64, ptr @chunks
  %needed = trunc i64 %chunks to i32
  %count = select i1 %exact, i32 %needed, i32 2147483647
  call i64 @wake(ptr @generation, i32 %count)
  br label %done
done:
  ret void
}}

define i64 @nap_parallel(ptr %fn, ptr %env, i64 %low, i64 %high, i64 %grain) {{
entry:
  %chunks = call i64 @chunks_of(i64 %low, i64 %high, i64 %grain)
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
  store ptr %fn, ptr @fn
  store ptr %env, ptr @env
  store i64 %low, ptr @low
  store i64 %high, ptr @high
  store i64 %step, ptr @length
  store i64 %chunks, ptr @chunks
  store i64 {_NONE}, ptr @failed
  store i64 0, ptr @code
  store i64 0, ptr @stop
  %place = call i32 @sched_getcpu()
  store atomic i32 %place, ptr @place monotonic, align 4
  %began = call i64 @clock()
  store i64 %began, ptr @began
  %workers = zext i32 %wanted to i64
  %threads = add i64 %workers, 1
  %most = call i64 @llvm.umin.i64(i64 %threads, i64 {SHARES})
  %shares = call i64 @llvm.umin.i64(i64 %most, i64 %chunks)
  store i64 %shares, ptr @shares
  br label %cut
cut:
  %s = phi i64 [ 0, %publish ], [ %s1, %cut ]
  %first = call i64 @start_of(i64 %s, i64 %shares, i64 %chunks)
  %counter = getelementptr [8 x i64], ptr @next, i64 %s
  store atomic i64 %first, ptr %counter monotonic, align 8
  %s1 = add i64 %s, 1
  %uncut = icmp ult i64 %s1, %shares
  br i1 %uncut, label %cut, label %open
open:
  store atomic i32 {_OPEN}, ptr @gate seq_cst, align 4
  atomicrmw add ptr @generation, i32 1 seq_cst
  %least = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %often = sub i64 0, %grain
  %each = call i64 @llvm.smax.i64(i64 %often, i64 1)
  %parts = udiv i64 %n, %least
  %grains = mul i64 %parts, %each
  %few = icmp ult i64 %grains, {MANY}
  br i1 %few, label %work, label %summon
summon:
  call void @summon()
  br label %work
work:
  call void @take_chunks(i64 0, i1 %few)
  atomicrmw sub ptr @gate, i32 {_OPEN} seq_cst
  br label %wait
wait:
  %inside = load atomic i32, ptr @gate seq_cst, align 4
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %leave, label %stay
stay:
  %fewer = call i1 @changes(ptr @gate, i32 %inside, i64 {ROUNDS})
  br i1 %fewer, label %wait, label %sleep
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
