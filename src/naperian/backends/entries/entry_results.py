"""How the native entry makes results, runs the kernel, and gives what it made."""

from __future__ import annotations

from naperian.ainf.syntax import OUTSIDE
from naperian.backends.entries.entry_sizes import NEVER
from naperian.backends.entries.entry_words import (
    ARRAY,
    BOOL,
    DATA,
    DESCR,
    DIMS,
    FLAGS,
    FLOAT,
    INT,
    ITEMS,
    LATE,
    ND,
    OB_TYPE,
    RELEASE,
    SIGNED,
    SINGLE,
    SINGLE_ARRAY,
    SIZE,
    TUPLE,
    WELL,
    WORD,
    WRITABLE,
    dispatch,
    field,
    item,
    loop,
    put,
)

_RESULTS = """
results:
  %result_count = call i64 @word(ptr %table)
  %form = call i64 @word(ptr %table)
  %hidden = call i64 @word(ptr %table)
  %takes_out = icmp eq i64 %form, """ + str(SINGLE_ARRAY) + """
  %served = or i1 %takes_out, %no_out
  br i1 %served, label %make_results, label %slow
make_results:""" + loop(
    "result",
    "%i",
    "%result_count",
    """
  %slot_of = add i64 %inputs, %result_k
  %result_kind = call i64 @word(ptr %table)"""
    + put("i64", "%result_kind", "%kinds", "%result_k", "kind")
    + f"""
  %tells = icmp eq i64 %result_kind, {SIZE}
  br i1 %tells, label %tell, label %own_result
tell:
  %told_slot = call i64 @word(ptr %table)"""
    + item("%told", "%slots", "%told_slot")
    + put("i64", "%told", "%outs", "%result_k", "told")
    + put("i64", str(INT), "%kinds", "%result_k", "told_kind")
    + f"""
  br label %result_next
own_result:
  %makes_array = icmp eq i64 %result_kind, {ARRAY}
  br i1 %makes_array, label %new_array, label %new_scalar
new_scalar:
  %cell = getelementptr i64, ptr %outs, i64 %result_k"""
    + put("i64", "0", "%outs", "%result_k", "zero")
    + put("ptr", "%cell", "%buffers", "%slot_of", "cell")
    + """
  br label %result_next
new_array:
  %number_of_type = call i64 @word(ptr %table)
  %result_descriptor = call i64 @word(ptr %table)
  %result_element = call i64 @word(ptr %table)
  %result_axes = call i64 @word(ptr %table)
  store i64 1, ptr %product"""
    + loop(
        "extent",
        "%j",
        "%result_axes",
        f"""
  %extent_raw = call i64 @poly(ptr %table, ptr %slots)
  %too_large = icmp eq i64 %extent_raw, {NEVER}
  br i1 %too_large, label %slow, label %extent_fine
extent_fine:
  %extent = call i64 @llvm.smax.i64(i64 %extent_raw, i64 0)"""
        + put("i64", "%extent", "%shape", "%extent_k", "extent")
        + """
  %volume2 = load i64, ptr %product
  %larger2 = mul i64 %volume2, %extent
  store i64 %larger2, ptr %product
  br label %extent_next""",
        "make",
    )
    + """
make:
  %elements2 = load i64, ptr %product
  %work3 = load i64, ptr %work
  %work4 = add i64 %work3, %elements2
  store i64 %work4, ptr %work
  br i1 %no_out, label %make_new, label %given_out
given_out:"""
    + field("%given_type", "ptr", "%out_object", OB_TYPE)
    + """
  %given_is_array = icmp eq ptr %given_type, @PyArray_Type
  br i1 %given_is_array, label %given_layout, label %slow
given_layout:"""
    + field("%given_descr", "i64", "%out_object", DESCR)
    + field("%given_nd", "i32", "%out_object", ND)
    + field("%given_flags", "i32", "%out_object", FLAGS)
    + field("%given_dims", "ptr", "%out_object", DIMS)
    + field("%given_data", "i64", "%out_object", DATA)
    + f"""
  %given_dtype = icmp eq i64 %given_descr, %result_descriptor
  %given_wide = sext i32 %given_nd to i64
  %given_rank = icmp eq i64 %given_wide, %result_axes
  %given_well = and i32 %given_flags, {WELL | WRITABLE}
  %given_laid = icmp eq i32 %given_well, {WELL | WRITABLE}
  %given_two = and i1 %given_dtype, %given_rank
  %given_good = and i1 %given_two, %given_laid
  br i1 %given_good, label %given_extents, label %slow
given_extents:"""
    + loop(
        "match",
        "%j",
        "%result_axes",
        item("%given_dim", "%given_dims", "%match_k")
        + item("%asked_dim", "%shape", "%match_k")
        + """
  %same_dim = icmp eq i64 %given_dim, %asked_dim
  br i1 %same_dim, label %match_next, label %slow""",
        "matched",
    )
    + """
matched:
  ; does it lie beside the arguments?
  %given_bytes = mul i64 %elements2, %result_element
  %given_end = add i64 %given_data, %given_bytes"""
    + loop(
        "apart",
        "%j",
        "%inputs",
        item("%beside", "%buffers", "%apart_k")
        + item("%beside_length", "%lengths", "%apart_k")
        + item("%beside_bytes", "%spans", "%apart_k")
        + """
  %beside_end = add i64 %beside, %beside_bytes
  %begins_before = icmp ult i64 %beside, %given_end
  %ends_after = icmp ult i64 %given_data, %beside_end
  %beside_some = icmp ne i64 %beside_length, 0
  %meets = and i1 %begins_before, %ends_after
  %overlaps = and i1 %meets, %beside_some
  br i1 %overlaps, label %slow, label %apart_next""",
        "take_given",
    )
    + """
take_given:
  call void @Py_IncRef(ptr %out_object)
  br label %keep_array
make_new:
  %number32 = trunc i64 %number_of_type to i32
  %axes32 = trunc i64 %result_axes to i32
  %made = call ptr @make_array(ptr @PyArray_Type, i32 %axes32, ptr %shape, i32 %number32,
                               i64 %elements2)
  %refused = icmp eq ptr %made, null
  br i1 %refused, label %slow, label %keep_array
keep_array:
  %result_array = phi ptr [ %made, %make_new ], [ %out_object, %take_given ]"""
    + put("ptr", "%result_array", "%objects", "%result_k", "made")
    + field("%its_memory", "ptr", "%result_array", DATA)
    + put("ptr", "%its_memory", "%buffers", "%slot_of", "memory")
    + """
  br label %result_next""",
    "run",
)

_RUN = f"""
run:
  %all_work = load i64, ptr %work
  %long = icmp sge i64 %all_work, {RELEASE}
  %release = zext i1 %long to i64
  %code = call i64 @nap_call(ptr %kernel, ptr %sizes, ptr %buffers, ptr %scalars, ptr %error,
                             i64 %release)
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %find_sizes, label %failure
find_sizes:
  %found_count = call i64 @word(ptr %table)""" + loop(
    "found",
    "%i",
    "%found_count",
    """
  %found_slot = call i64 @word(ptr %table)
  %found_result = call i64 @word(ptr %table)"""
    + item("%found_raw", "%outs", "%found_result")
    + item("%found_rows", "%objects", "%found_result", "ptr")
    + """
  %found_size = call i64 @found_size(i64 %found_raw, ptr %found_rows)"""
    + put("i64", "%found_size", "%slots", "%found_slot", "found")
    + """
  br label %found_next""",
    "convert_results",
) + """
convert_results:""" + loop(
    "give",
    "%i",
    "%result_count",
    item("%give_kind", "%kinds", "%give_k")
    + "\n  %out = getelementptr i64, ptr %outs, i64 %give_k"
    + dispatch(
        "give_kind",
        {FLOAT: "give_float", SINGLE: "give_single", INT: "give_int", BOOL: "give_bool",
         LATE: "give_late", WORD: "give_word"}
        | {SIGNED + bits: "give_narrow" for bits in (8, 16, 32)},
        "give_next",
    )
    + """
give_late:
  %late_data = load ptr, ptr %out
  store i64 0, ptr %out
  %late_object = call ptr @late_array(ptr %table, ptr %slots, ptr %shape, ptr %late_data)
  br label %give_object
give_float:
  %out_float = load double, ptr %out
  %float_object = call ptr @PyFloat_FromDouble(double %out_float)
  br label %give_object
give_single:
  %single_object = call ptr @PyArray_Scalar(ptr %out, ptr @nap_single, ptr null)
  br label %give_object
give_narrow:
  ; the rest of its eight bytes are zeros
  %out_narrow = load i64, ptr %out
  %lost = sub i64 """ + str(64 + SIGNED) + """, %give_kind
  %out_high = shl i64 %out_narrow, %lost
  %out_signed = ashr i64 %out_high, %lost
  %narrow_object = call ptr @PyLong_FromLongLong(i64 %out_signed)
  br label %give_object
give_word:
  %out_word = load i64, ptr %out
  %word_object = call ptr @PyLong_FromUnsignedLongLong(i64 %out_word)
  br label %give_object
give_int:
  %out_int = load i64, ptr %out
  %int_object = call ptr @PyLong_FromLongLong(i64 %out_int)
  br label %give_object
give_bool:
  %out_bool = load i8, ptr %out
  %out_truth = zext i8 %out_bool to i64
  %bool_object = call ptr @PyBool_FromLong(i64 %out_truth)
  br label %give_object
give_object:
  %object_made = phi ptr [ %float_object, %give_float ], [ %single_object, %give_single ],
                         [ %int_object, %give_int ], [ %bool_object, %give_bool ],
                         [ %late_object, %give_late ], [ %narrow_object, %give_narrow ],
                         [ %word_object, %give_word ]"""
    + put("ptr", "%object_made", "%objects", "%give_k", "object")
    + """
  %no_object = icmp eq ptr %object_made, null
  br i1 %no_object, label %raise, label %give_next""",
    "deliver",
) + f"""
deliver:
  %packs = icmp eq i64 %form, {TUPLE}
  br i1 %packs, label %pack, label %single_result
single_result:
  %only_place = getelementptr ptr, ptr %objects, i64 %hidden
  %only_result = load ptr, ptr %only_place
  ret ptr %only_result
pack:
  %seen_count = sub i64 %result_count, %hidden
  %tuple = call ptr @PyTuple_New(i64 %seen_count)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %raise, label %fill
fill:
  %places = getelementptr i8, ptr %tuple, i64 {ITEMS}""" + loop(
    "fill",
    "%i",
    "%seen_count",
    "\n  %seen_k = add i64 %fill_k, %hidden"
    + item("%component", "%objects", "%seen_k", "ptr")
    + put("ptr", "%component", "%places", "%fill_k", "component")
    + """
  br label %fill_next""",
    "filled",
) + """
filled:
  ret ptr %tuple
failure:
  call void @drop_late(ptr %kinds, ptr %outs, i64 %result_count)
  %outside = icmp eq i64 %code, """ + str(OUTSIDE) + """
  br i1 %outside, label %slow, label %failed
failed:
  call void @release(ptr %objects)
  %pending = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %pending, null
  br i1 %raised, label %error_set, label %explain
explain:""" + "".join(
    item(f"%value{k}", "%error", str(k)) for k in range(4)
) + """
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %fail, ptr @five, i64 %code,
    i64 %value0, i64 %value1, i64 %value2, i64 %value3)
  ret ptr %answer
raise:
  call void @drop_late(ptr %kinds, ptr %outs, i64 %result_count)
  call void @release(ptr %objects)
  br label %error_set
error_set:
  ret ptr null
slow:
  call void @release(ptr %objects)
  call void @PyErr_Clear()
  %result = call ptr @PyObject_Vectorcall(ptr %otherwise, ptr %arguments, i64 %nargs, ptr %names)
  ret ptr %result
}
"""

RESULTS = _RESULTS + _RUN
"""From the block `results` to the end."""
