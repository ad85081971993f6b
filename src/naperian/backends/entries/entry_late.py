"""Results whose sizes the run finds: arrays in memory that the kernel made.

Such an array does not own its memory. A capsule does, which the array keeps and whose end gives
the memory back.
"""

from __future__ import annotations

from naperian.backends.entries.entry_sizes import NEVER
from naperian.backends.entries.entry_words import (
    DATA,
    DIMS,
    LATE,
    ND,
    USUAL,
    field,
    item,
    loop,
    put,
)

_DROP = loop(
    "each",
    "%i",
    "%count",
    item("%kind", "%kinds", "%each_k")
    + f"""
  %late = icmp eq i64 %kind, {LATE}
  br i1 %late, label %drop, label %each_next
drop:"""
    + item("%data", "%outs", "%each_k", "ptr")
    + """
  call void @nap_free(ptr %data)
  br label %each_next""",
    "done",
)

_SHAPE = loop(
    "extent",
    "%j",
    "%axes",
    f"""
  %raw = call i64 @poly(ptr %table, ptr %slots)
  %too_large = icmp eq i64 %raw, {NEVER}
  br i1 %too_large, label %never, label %fine
fine:
  %extent = call i64 @llvm.smax.i64(i64 %raw, i64 0)"""
    + put("i64", "%extent", "%shape", "%extent_k", "extent")
    + """
  br label %extent_next""",
    "known",
)

_SUM = field("%lengths", "ptr", "%rows", DATA) + loop(
    "axis",
    "%i",
    "%axes",
    item("%extent", "%dims", "%axis_k")
    + """
  %so_far = load i64, ptr %total
  %longer = mul i64 %so_far, %extent
  store i64 %longer, ptr %total
  br label %axis_next""",
    "add",
) + """
add:
  %elements = load i64, ptr %total
  store i64 0, ptr %total""" + loop(
    "row",
    "%i",
    "%elements",
    item("%length", "%lengths", "%row_k")
    + """
  %positive = call i64 @llvm.smax.i64(i64 %length, i64 0)
  %before = load i64, ptr %total
  %after = add i64 %before, %positive
  store i64 %after, ptr %total
  br label %row_next""",
    "added",
)

LATE_ARRAYS = f"""
@made_by = internal constant [9 x i8] c"naperian\\00"

; give back the memory of results that nobody has taken
define internal void @drop_late(ptr %kinds, ptr %outs, i64 %count) {{
  %i = alloca i64{_DROP}
done:
  ret void
}}

; the size that a result says: itself, or the lengths of rows together
define internal i64 @found_size(i64 %said, ptr %rows) {{
  %i = alloca i64
  %total = alloca i64
  %alone = icmp eq ptr %rows, null
  br i1 %alone, label %number, label %table
number:
  %size = call i64 @llvm.smax.i64(i64 %said, i64 0)
  ret i64 %size
table:
  store i64 1, ptr %total{field("%axes32", "i32", "%rows", ND)}
  %axes = sext i32 %axes32 to i64{field("%dims", "ptr", "%rows", DIMS)}{_SUM}
added:
  %sum = load i64, ptr %total
  ret i64 %sum
}}

; the end of a capsule
define internal void @late_end(ptr %capsule) {{
  %data = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @made_by)
  call void @nap_free(ptr %data)
  ret void
}}

; the array that the table describes next, in this memory, which is its own from now on
define internal ptr @late_array(ptr %table, ptr %slots, ptr %shape, ptr %data) {{
  %j = alloca i64
  %number = call i64 @word(ptr %table)
  %axes = call i64 @word(ptr %table)
  %number32 = trunc i64 %number to i32
  %axes32 = trunc i64 %axes to i32{_SHAPE}
known:
  %made = call ptr @PyArray_New(ptr @PyArray_Type, i32 %axes32, ptr %shape, i32 %number32, ptr null,
                                ptr %data, i32 0, i32 {USUAL}, ptr null)
  %none = icmp eq ptr %made, null
  br i1 %none, label %give_up, label %there
there:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %done, label %own
own:
  %capsule = call ptr @PyCapsule_New(ptr %data, ptr @made_by, ptr @late_end)
  %refused = icmp eq ptr %capsule, null
  br i1 %refused, label %drop, label %keep
keep:
  %failed = call i32 @PyArray_SetBaseObject(ptr %made, ptr %capsule)  ; it drops what it refuses
  %unkept = icmp ne i32 %failed, 0
  br i1 %unkept, label %drop_array, label %done
drop:
  call void @Py_DecRef(ptr %made)
  br label %give_up
drop_array:
  call void @Py_DecRef(ptr %made)
  ret ptr null
never:
  %raised = call ptr @PyErr_NoMemory()
  br label %give_up
give_up:
  call void @nap_free(ptr %data)
  ret ptr null
done:
  ret ptr %made
}}
"""
