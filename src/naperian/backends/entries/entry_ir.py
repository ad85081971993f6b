"""`nap_entry` and `nap_call` as LLVM IR; `entry.py` says what they do.

    entry_arguments     the arguments, in their order, and what is read of them
    entry_sizes         the sizes they give, and what must hold
    entry_results       the results, the run, and what is given back
    entry_late          results that the kernel makes memory for
    entry_words         the words all of this is written with
"""

from __future__ import annotations

from naperian.backends.entries.entry_arguments import ARGUMENTS
from naperian.backends.entries.entry_late import LATE_ARRAYS
from naperian.backends.entries.entry_results import RESULTS
from naperian.backends.entries.entry_sizes import CHECKS, SIZES
from naperian.backends.entries.entry_words import BYTES, ITEMS, MOST, item, loop
from naperian.backends.services.large import large_ir

# what the entry uses of Python
PYTHON = (
    "PyLong_AsDouble", "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_Clear", "PyErr_NoMemory",
    "PyFloat_FromDouble", "PyLong_FromLongLong", "PyLong_FromUnsignedLongLong", "PyBool_FromLong",
    "PyTuple_New",
    "PyObject_Vectorcall", "PyObject_CallFunction", "Py_IncRef", "Py_DecRef",
    "PyFloat_Type", "PyLong_Type", "PyBool_Type", "PyType_GetFlags",
    "_Py_TrueStruct", "_Py_FalseStruct", "PyEval_SaveThread", "PyEval_RestoreThread",
    "PyCapsule_New", "PyCapsule_GetPointer",
)  # fmt: skip

_HELPERS = """
declare double @PyLong_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyTuple_New(i64)
declare i64 @PyType_GetFlags(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare i32 @PyArray_SetBaseObject(ptr, ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @nap_free(ptr)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

@PyArray_Type = external global i8
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyBool_Type = external global i8
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
@nap_float64 = external global i8                  ; the type numpy.float64
@nap_float32 = external global i8
@nap_int64 = external global i8
@nap_int32 = external global i8
@nap_int16 = external global i8
@nap_int8 = external global i8
@nap_uint32 = external global i8
@nap_uint16 = external global i8
@nap_uint8 = external global i8
@nap_true = external global i8                     ; the object numpy.True_
@nap_false = external global i8
@nap_single = external global i8                   ; the dtype float32
@nap_out = external global i8                      ; the name "out"
@five = internal constant [6 x i8] c"LLLLL\\00"

; run a kernel, letting other Python threads run meanwhile if that is worth while
define i64 @nap_call(ptr %kernel, ptr %sizes, ptr %buffers, ptr %scalars, ptr %error, i64 %long) {
  %free = icmp ne i64 %long, 0
  br i1 %free, label %released, label %held
held:
  %quick = call i64 %kernel(ptr %sizes, ptr %buffers, ptr %scalars, ptr %error)
  ret i64 %quick
released:
  %thread = call ptr @PyEval_SaveThread()
  %code = call i64 %kernel(ptr %sizes, ptr %buffers, ptr %scalars, ptr %error)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %code
}

"""


_LOCALS = {"slots": MOST, "sizes": MOST, "buffers": 2 * MOST, "scalars": 2 * MOST, "shapes": MOST,
           "lengths": MOST, "spans": MOST, "ordered": MOST, "kinds": MOST, "outs": MOST,
           "shape": 64, "error": 4}  # fmt: skip

_EACH = loop(
    "each",
    "%i",
    str(MOST),
    item("%object", "%objects", "%each_k", "ptr")
    + """
  %there = icmp ne ptr %object, null
  br i1 %there, label %drop, label %each_next
drop:
  call void @Py_DecRef(ptr %object)
  br label %each_next""",
    "done",
)

_PROLOGUE = (
    f"""
; drop the results made so far; the rest are null
define internal void @release(ptr %objects) {{
  %i = alloca i64{_EACH}
done:
  ret void
}}

define ptr @nap_entry(ptr %self, ptr %arguments, i64 %nargs, ptr %names) {{
  %table = alloca ptr
  %given_place = alloca ptr
  %out_place = alloca ptr
  %i = alloca i64
  %j = alloca i64
  %product = alloca i64
  %work = alloca i64
  %objects = alloca [{MOST} x ptr]"""
    + "".join(f"\n  %{name} = alloca [{n} x i64]" for name, n in _LOCALS.items())
    + f"\n  %parts = getelementptr i8, ptr %self, i64 {ITEMS}"
    + item("%words", "%parts", "0", "ptr")
    + item("%otherwise", "%parts", "1", "ptr")
    + item("%fail", "%parts", "2", "ptr")
    + f"""
  %first = getelementptr i8, ptr %words, i64 {BYTES}
  store ptr %first, ptr %table
  store i64 0, ptr %work
  store [{MOST} x ptr] zeroinitializer, ptr %objects
  store [{MOST} x i64] zeroinitializer, ptr %lengths
  %inputs = call i64 @word(ptr %table)
  %positional = call i64 @word(ptr %table)
  %count = call i64 @word(ptr %table)
  %kernel_number = call i64 @word(ptr %table)
  %kernel = inttoptr i64 %kernel_number to ptr
  %known = load ptr, ptr %table
  %known_words = mul i64 %count, 2
  %behind = getelementptr i64, ptr %known, i64 %known_words
  store ptr %behind, ptr %table
  store ptr %arguments, ptr %given_place
  store ptr null, ptr %out_place
  %no_names = icmp eq ptr %names, null
  %too_many = icmp sgt i64 %nargs, %positional
  br i1 %too_many, label %slow, label %countable
countable:
  %right_count = icmp eq i64 %count, %nargs
  %in_order = and i1 %right_count, %no_names
  br i1 %in_order, label %arguments_loop, label %arrange"""
)


def entry_ir() -> str:
    """The module that defines `nap_entry` and `nap_call`."""
    return _HELPERS + SIZES + large_ir() + LATE_ARRAYS + _PROLOGUE + ARGUMENTS + CHECKS + RESULTS
