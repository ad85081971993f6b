"""How the native entry reads arguments: those given by name into their places, defaults into those
left, then each as its kind in the table says."""

from __future__ import annotations

from naperian.backends.entries.entry_sizes import LARGEST
from naperian.backends.entries.entry_words import (
    ARRAY,
    BOOL,
    DATA,
    DESCR,
    DIMS,
    DOUBLE,
    FLAGS,
    FLOAT,
    FLOAT_ONLY,
    INT,
    INT_ONLY,
    ITEMS,
    LENGTH,
    LONG_SUBCLASS,
    NARROW,
    ND,
    OB_TYPE,
    SINGLE,
    SINGLE_ONLY,
    SIZE,
    WELL,
    WIDE,
    dispatch,
    field,
    item,
    loop,
    put,
    short,
)
from naperian.backends.services.large import LARGE

_KEYWORDS = (
    """
arrange:
  store ptr %ordered, ptr %given_place"""
    + loop(
        "copy",
        "%j",
        "%count",
        """
  %is_positional = icmp slt i64 %copy_k, %nargs
  br i1 %is_positional, label %copy_given, label %copy_none
copy_given:"""
        + item("%positional_object", "%arguments", "%copy_k", "ptr")
        + put("ptr", "%positional_object", "%ordered", "%copy_k", "copied")
        + """
  br label %copy_next
copy_none:"""
        + put("ptr", "null", "%ordered", "%copy_k", "nothing")
        + """
  br label %copy_next""",
        "copied_all",
    )
    + """
copied_all:
  br i1 %no_names, label %fill_in, label %keywords
keywords:"""
    + field("%keyword_count", "i64", "%names", LENGTH)
    + f"""
  %keyword_names = getelementptr i8, ptr %names, i64 {ITEMS}"""
    + loop(
        "keyword",
        "%i",
        "%keyword_count",
        item("%keyword", "%keyword_names", "%keyword_k", "ptr")
        + """
  %keyword_place = add i64 %nargs, %keyword_k"""
        + item("%keyword_object", "%arguments", "%keyword_place", "ptr")
        + loop(
            "name",
            "%j",
            "%count",
            """
  %name_place = mul i64 %name_k, 2"""
            + item("%name", "%known", "%name_place", "ptr")
            + """
  %is_name = icmp eq ptr %name, %keyword
  br i1 %is_name, label %named, label %name_next""",
            "unnamed",
        )
        + """
named:
  %twice = icmp slt i64 %name_k, %nargs
  br i1 %twice, label %slow, label %keep_named
keep_named:"""
        + put("ptr", "%keyword_object", "%ordered", "%name_k", "named_object")
        + """
  br label %keyword_next
unnamed:
  %is_out = icmp eq ptr %keyword, @nap_out
  br i1 %is_out, label %keep_out, label %slow
keep_out:
  store ptr %keyword_object, ptr %out_place
  br label %keyword_next""",
        "fill_in",
    )
    + """
fill_in:"""
    + loop(
        "default",
        "%j",
        "%count",
        item("%so_far", "%ordered", "%default_k", "ptr")
        + """
  %is_there = icmp ne ptr %so_far, null
  br i1 %is_there, label %default_next, label %use_default
use_default:
  %twofold = mul i64 %default_k, 2
  %default_place = add i64 %twofold, 1"""
        + item("%default", "%known", "%default_place", "ptr")
        + put("ptr", "%default", "%ordered", "%default_k", "default_object")
        + """
  %none_given = icmp eq ptr %default, null
  br i1 %none_given, label %slow, label %default_next""",
        "arguments_loop",
    )
    + """
arguments_loop:
  %given = load ptr, ptr %given_place
  %out_object = load ptr, ptr %out_place
  %no_out = icmp eq ptr %out_object, null"""
)

_ARGUMENTS = loop(
    "argument",
    "%i",
    "%count",
    item("%object", "%given", "%argument_k", "ptr")
    + field("%type", "ptr", "%object", OB_TYPE)
    + "\n  %kind = call i64 @word(ptr %table)"
    + dispatch(
        "kind",
        {ARRAY: "array", BOOL: "bool", SIZE: "size", NARROW: "narrow_int"}
        | dict.fromkeys((INT, INT_ONLY), "int")
        | dict.fromkeys((FLOAT, SINGLE, FLOAT_ONLY, SINGLE_ONLY, WIDE), "float"),
        "slow",
    )
    + """
array:
  %descriptor = call i64 @word(ptr %table)
  %element = call i64 @word(ptr %table)
  %axes = call i64 @word(ptr %table)
  %is_array = icmp eq ptr %type, @PyArray_Type
  br i1 %is_array, label %layout, label %slow
layout:"""
    + field("%descr", "i64", "%object", DESCR)
    + field("%nd", "i32", "%object", ND)
    + field("%flags", "i32", "%object", FLAGS)
    + field("%dims", "ptr", "%object", DIMS)
    + field("%data", "ptr", "%object", DATA)
    + f"""
  %same_dtype = icmp eq i64 %descr, %descriptor
  %nd_wide = sext i32 %nd to i64
  %same_rank = icmp eq i64 %nd_wide, %axes
  %well = and i32 %flags, {WELL}
  %laid_out = icmp eq i32 %well, {WELL}
  %both = and i1 %same_dtype, %same_rank
  %ready = and i1 %both, %laid_out
  br i1 %ready, label %accept, label %slow
accept:"""
    + put("ptr", "%data", "%buffers", "%argument_k", "data")
    + put("ptr", "%dims", "%shapes", "%argument_k", "dims")
    + """
  store i64 1, ptr %product"""
    + loop(
        "axis",
        "%j",
        "%axes",
        item("%dim", "%dims", "%axis_k")
        + """
  %volume = load i64, ptr %product
  %larger = mul i64 %volume, %dim
  store i64 %larger, ptr %product
  br label %axis_next""",
        "counted",
    )
    + """
counted:
  %elements = load i64, ptr %product"""
    + put("i64", "%elements", "%lengths", "%argument_k", "length")
    + """
  %span = mul i64 %elements, %element"""
    + put("i64", "%span", "%spans", "%argument_k", "its_span")
    + f"""
  %work1 = load i64, ptr %work
  %work2 = add i64 %work1, %elements
  store i64 %work2, ptr %work
  %is_large = icmp uge i64 %elements, {LARGE}
  br i1 %is_large, label %noted, label %argument_next
noted:
  store ptr %data, ptr @beside
  br label %argument_next
float:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  %is_float64 = icmp eq ptr %type, @nap_float64
  %both_floats = or i1 %is_float, %is_float64
  br i1 %both_floats, label %read_float, label %try_single
read_float:"""
    + field("%direct", "double", "%object", DOUBLE)
    + f"""
  br label %keep_float
try_single:
  ; numpy.float32 where all is of single precision; elsewhere it has a say in which instance it is
  %may_be_single = icmp eq i64 %kind, {SINGLE}
  %must_be_single = icmp eq i64 %kind, {SINGLE_ONLY}
  %wants_single = or i1 %may_be_single, %must_be_single
  %is_float32 = icmp eq ptr %type, @nap_float32
  %has_single = and i1 %wants_single, %is_float32
  br i1 %has_single, label %read_single, label %try_int
read_single:"""
    + field("%given_single", "float", "%object", DOUBLE)
    + f"""
  br label %put_single
try_int:
  %only = icmp eq i64 %kind, {FLOAT_ONLY}
  %only_single = icmp eq i64 %kind, {SINGLE_ONLY}
  %exact = or i1 %only, %only_single
  %is_long = icmp eq ptr %type, @PyLong_Type
  %not_exact = xor i1 %exact, true
  %convert = and i1 %is_long, %not_exact
  br i1 %convert, label %int_to_float, label %try_other
try_other:
  ; numpy.int64 is of double precision; the others have a say, but not where an array has chosen
  %is_wide = icmp eq i64 %kind, {WIDE}
  %is_double = icmp eq i64 %kind, {FLOAT}
  %may_be_int64 = or i1 %is_wide, %is_double
  %float_is_int64 = icmp eq ptr %type, @nap_int64
  %takes_int64 = and i1 %may_be_int64, %float_is_int64
  br i1 %takes_int64, label %read_float_int64, label %try_wide
try_wide:
  br i1 %is_wide, label %try_wide_single, label %slow
try_wide_single:
  br i1 %is_float32, label %read_wide_single, label %wide_short_test0"""
    + short("wide_short", "-9223372036854775808", "9223372036854775807", "keep_wide", "slow")
    + """
read_float_int64:"""
    + field("%float_int64", "i64", "%object", DOUBLE)
    + """
  br label %keep_wide
keep_wide:
  %wide_int = phi i64 [ %float_int64, %read_float_int64 ], [ %wide_short, %wide_short_read ]
  %wide_number = sitofp i64 %wide_int to double
  br label %keep_float
read_wide_single:"""
    + field("%wide_single", "float", "%object", DOUBLE)
    + f"""
  %widened = fpext float %wide_single to double
  br label %keep_float
int_to_float:
  %converted = call double @PyLong_AsDouble(ptr %object)
  %suspect = fcmp oeq double %converted, -1.0
  br i1 %suspect, label %slow, label %keep_float
keep_float:
  %number = phi double [ %direct, %read_float ], [ %converted, %int_to_float ],
                    [ %wide_number, %keep_wide ], [ %widened, %read_wide_single ]
  %to_single = icmp eq i64 %kind, {SINGLE}
  %to_single_only = icmp eq i64 %kind, {SINGLE_ONLY}
  %is_single = or i1 %to_single, %to_single_only
  br i1 %is_single, label %keep_single, label %keep_double
keep_single:
  ; numpy.float64 has a precision of its own, which this instance would lose
  br i1 %is_float64, label %slow, label %narrow
narrow:
  %narrowed = fptrunc double %number to float
  br label %put_single
put_single:
  %short = phi float [ %given_single, %read_single ], [ %narrowed, %narrow ]"""
    + put("float", "%short", "%scalars", "%argument_k", "single")
    + """
  br label %argument_next
keep_double:"""
    + put("double", "%number", "%scalars", "%argument_k", "double")
    + """
  br label %argument_next
int:
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %read_int, label %try_int64
try_int64:
  %is_int64 = icmp eq ptr %type, @nap_int64
  br i1 %is_int64, label %read_int64, label %try_member
try_member:
  ; members of an enum.IntEnum are integers of a class of their own; so are Booleans, which are none
  %is_truth = icmp eq ptr %type, @PyBool_Type
  %flags_of_type = call i64 @PyType_GetFlags(ptr %type)
  %int_flag = and i64 %flags_of_type, """
    + str(LONG_SUBCLASS)
    + """
  %is_integer = icmp ne i64 %int_flag, 0
  %is_no_truth = xor i1 %is_truth, true
  %is_member = and i1 %is_integer, %is_no_truth
  br i1 %is_member, label %read_int, label %try_short
try_short:
  ; narrower numbers of NumPy have a say in which instance it is, unless the type is said
  %may_be_short = icmp eq i64 %kind, """
    + str(INT)
    + """
  br i1 %may_be_short, label %given_short_test0, label %slow"""
    + short("given_short", "-9223372036854775808", "9223372036854775807", "keep_int", "slow")
    + """
read_int64:"""
    + field("%given_int", "i64", "%object", DOUBLE)
    + """
  br label %keep_int
read_int:
  %integer = call i64 @PyLong_AsLongLong(ptr %object)
  %odd = icmp eq i64 %integer, -1
  br i1 %odd, label %int_error, label %keep_int
int_error:
  %problem = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %problem, null
  br i1 %none, label %keep_int, label %slow
keep_int:
  %whole_number = phi i64 [ %integer, %read_int ], [ %integer, %int_error ],
                      [ %given_int, %read_int64 ], [ %given_short, %given_short_read ]"""
    + put("i64", "%whole_number", "%scalars", "%argument_k", "integer")
    + """
  br label %argument_next
narrow_int:
  %lowest = call i64 @word(ptr %table)
  %highest = call i64 @word(ptr %table)
  %is_small = icmp eq ptr %type, @PyLong_Type
  br i1 %is_small, label %read_small, label %small_short_test0"""
    + short("small_short", "%lowest", "%highest", "keep_small", "slow")
    + """
read_small:
  ; one that has no 64 bits is -1, and so is -1
  %small = call i64 @PyLong_AsLongLong(ptr %object)
  %small_odd = icmp eq i64 %small, -1
  br i1 %small_odd, label %slow, label %check_small
check_small:
  %not_below = icmp sge i64 %small, %lowest
  %not_above = icmp sle i64 %small, %highest
  %small_fits = and i1 %not_below, %not_above
  br i1 %small_fits, label %keep_small, label %slow
keep_small:
  %small_number = phi i64 [ %small, %check_small ], [ %small_short, %small_short_read ]"""
    + put("i64", "%small_number", "%scalars", "%argument_k", "small")
    + """
  br label %argument_next
bool:
  %is_pure_true = icmp eq ptr %object, @_Py_TrueStruct
  %is_pure_false = icmp eq ptr %object, @_Py_FalseStruct
  %is_numpy_true = icmp eq ptr %object, @nap_true
  %is_numpy_false = icmp eq ptr %object, @nap_false
  %is_true = or i1 %is_pure_true, %is_numpy_true
  %is_false = or i1 %is_pure_false, %is_numpy_false
  %is_bool = or i1 %is_true, %is_false
  br i1 %is_bool, label %keep_bool, label %slow
keep_bool:
  %truth = zext i1 %is_true to i64"""
    + put("i64", "%truth", "%scalars", "%argument_k", "truth")
    + """
  br label %argument_next
size:
  %size_slot = call i64 @word(ptr %table)
  %is_size = icmp eq ptr %type, @PyLong_Type
  br i1 %is_size, label %read_size, label %try_size64
try_size64:
  %is_size64 = icmp eq ptr %type, @nap_int64
  br i1 %is_size64, label %read_size64, label %slow
read_size64:"""
    + field("%given_size", "i64", "%object", DOUBLE)
    + """
  br label %keep_size
read_size:
  %size_number = call i64 @PyLong_AsLongLong(ptr %object)
  br label %keep_size
keep_size:
  %asked_size = phi i64 [ %size_number, %read_size ], [ %given_size, %read_size64 ]
  %is_possible = icmp ult i64 %asked_size, """
    + str(LARGEST)
    + """
  br i1 %is_possible, label %put_size, label %slow
put_size:"""
    + put("i64", "%asked_size", "%slots", "%size_slot", "asked")
    + """
  br label %argument_next""",
    "steps",
)

ARGUMENTS = _KEYWORDS + _ARGUMENTS
"""From the block `arrange` to the end of the arguments; then `steps`."""
