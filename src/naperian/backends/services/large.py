"""Memory for large results, as LLVM IR: an allocator for NumPy that uses memory again.

The C library gives the arrays of many results back to the system and gets them anew page by page,
which takes as long as writing them. Here the last few stay. The first 64 MiB are simply kept; what
goes beyond is marked as free for the system to take when it needs it (`MADV_FREE`), which takes the
contents away and nothing else.

NumPy takes allocators as capsules around a structure (NEP 49), in force only while an array
is made, and which the array keeps for its end. NumPy calls it with the GIL, so it needs no lock.
"""

from __future__ import annotations

import sys

LARGE = 1 << 14  # elements of a result, from which on its memory comes from here
KEPT = 16  # blocks that wait to be used again, at most: the last ones
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

@kept = internal global [{KEPT} x ptr] zeroinitializer  ; blocks to be used again, or null
@held = internal global i64 0                      ; bytes in them

@turn = internal global i64 0                      ; whose block goes next when all slots are taken
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
  br label %look
look:
  %k = phi i64 [ 0, %search ], [ %after, %on ]
  %slot = getelementptr ptr, ptr @kept, i64 %k
  %block = load ptr, ptr %slot
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %on, label %fits
fits:
  %capacity = load i64, ptr %block
  %enough = icmp uge i64 %capacity, %size
  %quarter = lshr i64 %size, 2
  %most = add i64 %size, %quarter
  %not_much = icmp ule i64 %capacity, %most
  %good = and i1 %enough, %not_much
  br i1 %good, label %take, label %on
on:
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {KEPT}
  br i1 %more, label %look, label %fresh
take:
  store ptr null, ptr %slot
  %held = load i64, ptr @held
  %less = sub i64 %held, %capacity
  store i64 %less, ptr @held
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

define internal void @large.free(ptr %context, ptr %start, i64 %bytes) {{
entry:
  %nothing = icmp eq ptr %start, null
  br i1 %nothing, label %done, label %weigh
weigh:
  %block = call ptr @large.block(ptr %start)
  %capacity = load i64, ptr %block
  %held = load i64, ptr @held
  %sum = add i64 %held, %capacity
  %few = icmp ule i64 %sum, {MOST}
  br i1 %few, label %look, label %give
look:
  %k = phi i64 [ 0, %weigh ], [ %after, %on ]
  %slot = getelementptr ptr, ptr @kept, i64 %k
  %there = load ptr, ptr %slot
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %keep, label %on
on:
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {KEPT}
  br i1 %more, label %look, label %replace
replace:
  %turn = load i64, ptr @turn
  %second = add i64 %turn, 1
  %next = urem i64 %second, {KEPT}
  store i64 %next, ptr @turn
  %taken = getelementptr ptr, ptr @kept, i64 %turn
  %old = load ptr, ptr %taken
  %size = load i64, ptr %old
  %rest = sub i64 %sum, %size
  call i32 @munmap(ptr %old, i64 %size)
  br label %keep
keep:
  %place = phi ptr [ %slot, %look ], [ %taken, %replace ]
  %total = phi i64 [ %sum, %look ], [ %rest, %replace ]
  %many = icmp ugt i64 %total, {PLAIN}
  br i1 %many, label %mark, label %put
mark:
  call i32 @madvise(ptr %block, i64 %capacity, i32 {_FREE})
  br label %put
put:
  store i64 %capacity, ptr %block                  ; the page with its size is in use
  store ptr %block, ptr %place
  store i64 %total, ptr @held
  br label %done
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
