"""Memory for large results, as LLVM IR: an allocator for NumPy that uses memory again.

The C library gives the arrays of many results back to the system and gets them anew page by page,
which takes as long as writing them. Here the last few stay, and the last of them is used again
first. 64 MiB are simply kept; what was not used for longest, of more, is marked as free for the
system to take when it needs it (`MADV_FREE`), which takes the contents away and nothing else.

NumPy takes allocators as capsules around a structure (NEP 49), in force only while an array
is made, and which the array keeps for its end. NumPy calls it with the GIL, so it needs no lock.
"""

from __future__ import annotations

import sys

LARGE = 1 << 14  # elements of a result, from which on its memory comes from here
KEPT = 16  # blocks that wait to be used again, at most: those used last
MOST = 1 << 29  # bytes in all of them, at most
PLAIN = 1 << 26  # bytes that are kept without a mark
_HEAD = 4096  # bytes before an array, or more, whose first page holds how many there are in all
_APART = 2048  # bytes between the places of an argument and a result in their pages: a read that is
# a few elements behind a store, but for the page, waits for it

_PRIVATE_ANONYMOUS = 0x22
_HUGE, _FREE = 14, 8  # MADV_HUGEPAGE and MADV_FREE: what the system answers changes nothing


def has_large() -> bool:
    """Whether there is such memory here. Elsewhere all results are the C library's."""
    return sys.platform.startswith("linux")


def large_ir() -> str:
    """`nap_allocator`, the structure, and `nap_capsule`, which is set to its capsule;
    `@make_array`, PyArray_New with it, for results beside the argument that `@beside` names."""
    return _LARGE if has_large() else _USUAL


_NAME = "naperian" + r"\00" * 119
_PARAMETERS = "ptr %type, i32 %axes, ptr %shape, i32 %number"

_USUAL = f"""
@beside = internal global i64 0
@nap_allocator = global i64 0
@nap_capsule = global ptr null

define internal ptr @make_array({_PARAMETERS}, i64 %elements) {{
  %made = call ptr @PyArray_New({_PARAMETERS}, ptr null, ptr null, i32 0, i32 0, ptr null)
  ret ptr %made
}}
"""

_LARGE = f"""
%waiting = type {{ ptr, i64, i64, i1 }}

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @PyDataMem_SetHandler(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)

@nap_allocator = global {{ [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }} {{
  [127 x i8] c"{_NAME}", i8 1, ptr null,
  ptr @large.new, ptr @large.cleared, ptr @large.moved, ptr @large.free }}
@nap_capsule = global ptr null                     ; around it

; the blocks to be used again: the block or null, its bytes, when it was given back, and whether
; the system may take it
@kept = internal global [{KEPT} x %waiting] zeroinitializer
@held = internal global i64 0                      ; bytes in them
@plain = internal global i64 0                     ; and in those that the system may not take
@clock = internal global i64 0                     ; counts blocks given back

@beside = internal global i64 0                    ; the argument that a result is written beside

; where in a block the array begins
define internal ptr @large.start(ptr %block) {{
  %argument = load i64, ptr @beside
  %there = add i64 %argument, {_APART}
  %within = and i64 %there, {4096 - 64}
  %offset = add i64 %within, {_HEAD}
  %start = getelementptr i8, ptr %block, i64 %offset
  ret ptr %start
}}

; the block of an array
define internal ptr @large.block(ptr %start) {{
  %number = ptrtoint ptr %start to i64
  %before = sub i64 %number, {_HEAD}
  %page = and i64 %before, -4096
  %block = inttoptr i64 %page to ptr
  ret ptr %block
}}

; a block of at least so many bytes: of whole huge pages, or of a few small ones
define internal ptr @large.new(ptr %context, i64 %bytes) {{
entry:
  %possible = icmp ult i64 %bytes, {1 << 47}
  br i1 %possible, label %search, label %none
search:
  %huge = icmp uge i64 %bytes, {1 << 21}
  %unit = select i1 %huge, i64 {1 << 21}, i64 {1 << 16}
  %past = add i64 %unit, {_HEAD + 4096 - 1}
  %room = add i64 %bytes, %past
  %mask = sub i64 0, %unit
  %size = and i64 %room, %mask
  %quarter = lshr i64 %size, 2
  %most = add i64 %size, %quarter
  br label %look
look:
  %k = phi i64 [ 0, %search ], [ %after, %on ]
  %best = phi ptr [ null, %search ], [ %better, %on ]
  %last = phi i64 [ 0, %search ], [ %later, %on ]
  %slot = getelementptr %waiting, ptr @kept, i64 %k
  %bytes_place = getelementptr %waiting, ptr %slot, i64 0, i32 1
  %capacity = load i64, ptr %bytes_place
  %enough = icmp uge i64 %capacity, %size
  %not_much = icmp ule i64 %capacity, %most
  %fits = and i1 %enough, %not_much
  br i1 %fits, label %compare, label %on
compare:
  %time_place = getelementptr %waiting, ptr %slot, i64 0, i32 2
  %time = load i64, ptr %time_place
  %newer = icmp ugt i64 %time, %last
  br label %on
on:
  %replaces = phi i1 [ false, %look ], [ %newer, %compare ]
  %seen = phi i64 [ 0, %look ], [ %time, %compare ]
  %better = select i1 %replaces, ptr %slot, ptr %best
  %later = select i1 %replaces, i64 %seen, i64 %last
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {KEPT}
  br i1 %more, label %look, label %found
found:
  %some = icmp ne ptr %better, null
  br i1 %some, label %take, label %fresh
take:
  %block = call ptr @large.take(ptr %better)
  %used = call ptr @large.start(ptr %block)
  ret ptr %used
fresh:
  %new = call ptr @mmap(ptr null, i64 %size, i32 3, i32 {_PRIVATE_ANONYMOUS}, i32 -1, i64 0)
  %refused = icmp eq ptr %new, inttoptr (i64 -1 to ptr)
  br i1 %refused, label %none, label %got
got:
  br i1 %huge, label %ask, label %begin
ask:
  call i32 @madvise(ptr %new, i64 %size, i32 {_HUGE})
  br label %begin
begin:
  store i64 %size, ptr %new
  %start = call ptr @large.start(ptr %new)
  ret ptr %start
none:
  ret ptr null
}}

; the block of a slot, which is empty then
define internal ptr @large.take(ptr %slot) {{
  %was = load %waiting, ptr %slot
  %block = extractvalue %waiting %was, 0
  %bytes = extractvalue %waiting %was, 1
  %marked = extractvalue %waiting %was, 3
  store %waiting zeroinitializer, ptr %slot
  %held = load i64, ptr @held
  %less = sub i64 %held, %bytes
  store i64 %less, ptr @held
  %counted = select i1 %marked, i64 0, i64 %bytes
  %plain = load i64, ptr @plain
  %fewer = sub i64 %plain, %counted
  store i64 %fewer, ptr @plain
  ret ptr %block
}}

; the slot whose block waits longest, of those that are not marked or of all; null if there is none
define internal ptr @large.oldest(i1 %all) {{
entry:
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %after, %look ]
  %best = phi ptr [ null, %entry ], [ %better, %look ]
  %first = phi i64 [ -1, %entry ], [ %earlier, %look ]
  %slot = getelementptr %waiting, ptr @kept, i64 %k
  %is = load %waiting, ptr %slot
  %block = extractvalue %waiting %is, 0
  %time = extractvalue %waiting %is, 2
  %marked = extractvalue %waiting %is, 3
  %there = icmp ne ptr %block, null
  %before = icmp ult i64 %time, %first
  %unmarked = xor i1 %marked, true
  %counts = or i1 %all, %unmarked
  %older = and i1 %there, %before
  %replaces = and i1 %older, %counts
  %better = select i1 %replaces, ptr %slot, ptr %best
  %earlier = select i1 %replaces, i64 %time, i64 %first
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {KEPT}
  br i1 %more, label %look, label %done
done:
  ret ptr %better
}}

; an empty slot for a block of so many bytes, for which others go; null if it is too large
define internal ptr @large.room(i64 %bytes) {{
entry:
  %possible = icmp ule i64 %bytes, {MOST}
  br i1 %possible, label %weigh, label %none
weigh:
  %held = load i64, ptr @held
  %sum = add i64 %held, %bytes
  %few = icmp ule i64 %sum, {MOST}
  br i1 %few, label %look, label %drop
look:
  %k = phi i64 [ 0, %weigh ], [ %after, %on ]
  %slot = getelementptr %waiting, ptr @kept, i64 %k
  %there = load ptr, ptr %slot
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %found, label %on
on:
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {KEPT}
  br i1 %more, label %look, label %drop
drop:
  %oldest = call ptr @large.oldest(i1 true)
  %size_place = getelementptr %waiting, ptr %oldest, i64 0, i32 1
  %size = load i64, ptr %size_place
  %block = call ptr @large.take(ptr %oldest)
  call i32 @munmap(ptr %block, i64 %size)
  br label %weigh
found:
  ret ptr %slot
none:
  ret ptr null
}}

define internal void @large.free(ptr %context, ptr %start, i64 %bytes) {{
entry:
  %nothing = icmp eq ptr %start, null
  br i1 %nothing, label %done, label %find
find:
  %block = call ptr @large.block(ptr %start)
  %capacity = load i64, ptr %block
  %slot = call ptr @large.room(i64 %capacity)
  %some = icmp ne ptr %slot, null
  br i1 %some, label %keep, label %give
keep:
  %clock = load i64, ptr @clock
  %now = add i64 %clock, 1
  store i64 %now, ptr @clock
  %held = load i64, ptr @held
  %sum = add i64 %held, %capacity
  store i64 %sum, ptr @held
  %plain = load i64, ptr @plain
  %counted = add i64 %plain, %capacity
  store i64 %counted, ptr @plain
  %of = insertvalue %waiting zeroinitializer, ptr %block, 0
  %sized = insertvalue %waiting %of, i64 %capacity, 1
  %timed = insertvalue %waiting %sized, i64 %now, 2
  store %waiting %timed, ptr %slot
  br label %weigh
weigh:
  %kept = load i64, ptr @plain
  %many = icmp ugt i64 %kept, {PLAIN}
  br i1 %many, label %mark, label %done
mark:
  %oldest = call ptr @large.oldest(i1 false)
  %is = load %waiting, ptr %oldest
  %cold = extractvalue %waiting %is, 0
  %size = extractvalue %waiting %is, 1
  call i32 @madvise(ptr %cold, i64 %size, i32 {_FREE})
  store i64 %size, ptr %cold                       ; the page with its size is in use
  %marked = insertvalue %waiting %is, i1 true, 3
  store %waiting %marked, ptr %oldest
  %before = load i64, ptr @plain
  %less = sub i64 %before, %size
  store i64 %less, ptr @plain
  br label %weigh
give:
  call i32 @munmap(ptr %block, i64 %capacity)
  br label %done
done:
  ret void
}}

define internal ptr @large.cleared(ptr %context, i64 %count, i64 %each) {{
  %product = call {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64 %count, i64 %each)
  %bytes = extractvalue {{ i64, i1 }} %product, 0
  %over = extractvalue {{ i64, i1 }} %product, 1
  %asked = select i1 %over, i64 -1, i64 %bytes
  %made = call ptr @large.new(ptr %context, i64 %asked)
  %got = icmp ne ptr %made, null
  br i1 %got, label %clear, label %done
clear:
  call void @llvm.memset.p0.i64(ptr %made, i8 0, i64 %bytes, i1 false)
  br label %done
done:
  ret ptr %made
}}

define internal ptr @large.moved(ptr %context, ptr %start, i64 %bytes) {{
  %made = call ptr @large.new(ptr %context, i64 %bytes)
  %got = icmp ne ptr %made, null
  %some = icmp ne ptr %start, null
  %both = and i1 %got, %some
  br i1 %both, label %copy, label %done
copy:
  %block = call ptr @large.block(ptr %start)
  %capacity = load i64, ptr %block
  %from = ptrtoint ptr %start to i64
  %first = ptrtoint ptr %block to i64
  %before = sub i64 %from, %first
  %room = sub i64 %capacity, %before
  %length = call i64 @llvm.umin.i64(i64 %room, i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %made, ptr %start, i64 %length, i1 false)
  call void @large.free(ptr %context, ptr %start, i64 0)
  br label %done
done:
  ret ptr %made
}}

define internal ptr @make_array({_PARAMETERS}, i64 %elements) {{
  %capsule = load ptr, ptr @nap_capsule
  %some = icmp ne ptr %capsule, null
  %many = icmp uge i64 %elements, {LARGE}
  %large = and i1 %some, %many
  br i1 %large, label %ours, label %usual
ours:
  %before = call ptr @PyDataMem_SetHandler(ptr %capsule)
  %known = icmp ne ptr %before, null
  br i1 %known, label %make, label %failed
make:
  %special = call ptr @PyArray_New({_PARAMETERS}, ptr null, ptr null, i32 0, i32 0, ptr null)
  %now = call ptr @PyDataMem_SetHandler(ptr %before)
  call void @Py_DecRef(ptr %before)
  %back = icmp ne ptr %now, null
  br i1 %back, label %drop, label %made
drop:
  call void @Py_DecRef(ptr %now)
  br label %made
made:
  ret ptr %special
failed:
  ret ptr null
usual:
  %plain = call ptr @PyArray_New({_PARAMETERS}, ptr null, ptr null, i32 0, i32 0, ptr null)
  ret ptr %plain
}}
"""
