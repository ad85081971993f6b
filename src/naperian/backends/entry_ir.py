"""`nap_entry` and `nap_call` as LLVM IR; `entry.py` says what they do.

The text is written as a C compiler writes it before optimising: locals live in `alloca`s, which
the optimiser turns into registers.
"""

from __future__ import annotations

from naperian.ainf.syntax import OUTSIDE
from naperian.backends.large import large_ir

MOST = 16  # arguments, sizes and results; more go the slow way
RELEASE = 8192  # elements from which on other Python threads may run
ELEMENTS, SCALAR, EMPTY = range(3)  # what to look at: an array's elements, a scalar, only the set
ARRAY, FLOAT, FLOAT_ONLY, SINGLE, SINGLE_ONLY, INT, BOOL = range(7)

# offsets in CPython's and NumPy's objects
OB_TYPE, LENGTH, ITEMS, BYTES, DOUBLE = 8, 16, 24, 32, 16
DATA, ND, DIMS, DESCR, FLAGS = 16, 24, 32, 56, 64
WELL = 0x0001 | 0x0100  # contiguous by rows, aligned
WRITABLE = 0x0400
SINGLE_RESULT, TUPLE, SINGLE_ARRAY = range(3)  # what a call gives; the last may be given as `out`

# what the entry uses of Python
PYTHON = (
    "PyLong_AsDouble", "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_Clear", "PyErr_NoMemory",
    "PyFloat_FromDouble", "PyLong_FromLongLong", "PyBool_FromLong", "PyTuple_New",
    "PyObject_Vectorcall", "PyObject_CallFunction", "Py_IncRef", "Py_DecRef",
    "PyFloat_Type", "PyLong_Type", "_Py_TrueStruct", "_Py_FalseStruct",
    "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip

_NEVER = -(1 << 63)  # a size that is too large to compute


def _loop(name: str, counter: str, limit: str, body: str, after: str) -> str:
    """Blocks that run `body` (which ends by jumping to `{name}_next`) with counter = 0 … limit-1,
    then go to `after`. The counter is an `alloca`."""
    return f"""
  store i64 0, ptr {counter}
  br label %{name}_test
{name}_test:
  %{name}_k = load i64, ptr {counter}
  %{name}_more = icmp slt i64 %{name}_k, {limit}
  br i1 %{name}_more, label %{name}_body, label %{after}
{name}_next:
  %{name}_old = load i64, ptr {counter}
  %{name}_new = add i64 %{name}_old, 1
  store i64 %{name}_new, ptr {counter}
  br label %{name}_test
{name}_body:{body}"""


def _field(result: str, kind: str, base: str, offset: int) -> str:
    return f"""
  {result}_at = getelementptr i8, ptr {base}, i64 {offset}
  {result} = load {kind}, ptr {result}_at"""


def _item(result: str, array: str, index: str, kind: str = "i64") -> str:
    return f"""
  {result}_at = getelementptr i64, ptr {array}, i64 {index}
  {result} = load {kind}, ptr {result}_at"""


def _put(kind: str, value: str, array: str, index: str, name: str) -> str:
    return f"""
  %{name}_to = getelementptr i64, ptr {array}, i64 {index}
  store {kind} {value}, ptr %{name}_to"""


_FACTORS = _loop(
    "factors",
    "%f",
    "%factors",
    "\n  %slot = call i64 @word(ptr %table)"
    + _item("%v", "%slots", "%slot")
    + """
  %p = load i64, ptr %product
  %multiplied = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %p, i64 %v)
  %p2 = extractvalue { i64, i1 } %multiplied, 0
  %over = extractvalue { i64, i1 } %multiplied, 1
  %bad1 = load i1, ptr %bad
  %bad2 = or i1 %bad1, %over
  store i1 %bad2, ptr %bad
  store i64 %p2, ptr %product
  br label %factors_next""",
    "sum",
)

_TERMS = _loop(
    "terms",
    "%t",
    "%terms",
    f"""
  %c = call i64 @word(ptr %table)
  store i64 %c, ptr %product
  %factors = call i64 @word(ptr %table){_FACTORS}
sum:
  %q = load i64, ptr %product
  %s = load i64, ptr %total
  %added = call {{ i64, i1 }} @llvm.sadd.with.overflow.i64(i64 %q, i64 %s)
  %s2 = extractvalue {{ i64, i1 }} %added, 0
  %over2 = extractvalue {{ i64, i1 }} %added, 1
  %bad3 = load i1, ptr %bad
  %bad4 = or i1 %bad3, %over2
  store i1 %bad4, ptr %bad
  store i64 %s2, ptr %total
  br label %terms_next""",
    "done",
)


_HELPERS = f"""
declare double @PyLong_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyTuple_New(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64, i64)
declare {{ i64, i1 }} @llvm.sadd.with.overflow.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

@PyArray_Type = external global i8
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
@nap_float64 = external global i8                  ; the type numpy.float64
@nap_float32 = external global i8
@nap_int64 = external global i8
@nap_true = external global i8                     ; the object numpy.True_
@nap_false = external global i8
@nap_single = external global i8                   ; the dtype float32
@nap_out = external global i8                      ; the name "out"
@five = internal constant [6 x i8] c"LLLLL\\00"

; run a kernel, letting other Python threads run meanwhile if that is worth while
define i64 @nap_call(ptr %kernel, ptr %sizes, ptr %buffers, ptr %scalars, ptr %error, i64 %long) {{
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
}}

; the next word of the table
define internal i64 @word(ptr %table) alwaysinline {{
  %p = load ptr, ptr %table
  %value = load i64, ptr %p
  %after = getelementptr i64, ptr %p, i64 1
  store ptr %after, ptr %table
  ret i64 %value
}}

; the value of the table's next polynomial, or {_NEVER} if it is too large
define internal i64 @poly(ptr %table, ptr %slots) noinline {{
  %t = alloca i64
  %f = alloca i64
  %total = alloca i64
  %product = alloca i64
  %bad = alloca i1
  store i64 0, ptr %total
  store i1 false, ptr %bad
  %terms = call i64 @word(ptr %table){_TERMS}
done:
  %result = load i64, ptr %total
  %lost = load i1, ptr %bad
  %answer = select i1 %lost, i64 {_NEVER}, i64 %result
  ret i64 %answer
}}

; whether every one of n numbers is in low … high-1
define internal i1 @within(ptr %data, i64 %n, i64 %low, i64 %high) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %range, label %yes
range:
  %filled = icmp slt i64 %low, %high
  %width = sub i64 %high, %low
  br i1 %filled, label %next, label %no
next:
  %k = phi i64 [ 0, %range ], [ %after, %next ]
  %out = phi i64 [ 0, %range ], [ %out2, %next ]
  %at = getelementptr i64, ptr %data, i64 %k
  %value = load i64, ptr %at
  %offset = sub i64 %value, %low
  %outside = icmp uge i64 %offset, %width
  %one = zext i1 %outside to i64
  %out2 = or i64 %out, %one
  %after = add i64 %k, 1
  %more = icmp slt i64 %after, %n
  br i1 %more, label %next, label %seen
seen:
  %fine = icmp eq i64 %out2, 0
  ret i1 %fine
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _dispatch(name: str, cases: dict[int, str], otherwise: str) -> str:
    arms = " ".join(f"i64 {k}, label %{label}" for k, label in cases.items())
    return f"""
  switch i64 %{name}, label %{otherwise} [ {arms} ]"""


_ARGUMENTS = _loop(
    "argument",
    "%i",
    "%count",
    _item("%object", "%arguments", "%argument_k", "ptr")
    + _field("%type", "ptr", "%object", OB_TYPE)
    + "\n  %kind = call i64 @word(ptr %table)"
    + _dispatch(
        "kind",
        {ARRAY: "array", INT: "int", BOOL: "bool"}
        | dict.fromkeys((FLOAT, SINGLE, FLOAT_ONLY, SINGLE_ONLY), "float"),
        "slow",
    )
    + """
array:
  %descriptor = call i64 @word(ptr %table)
  %axes = call i64 @word(ptr %table)
  %is_array = icmp eq ptr %type, @PyArray_Type
  br i1 %is_array, label %layout, label %slow
layout:"""
    + _field("%descr", "i64", "%object", DESCR)
    + _field("%nd", "i32", "%object", ND)
    + _field("%flags", "i32", "%object", FLAGS)
    + _field("%dims", "ptr", "%object", DIMS)
    + _field("%data", "ptr", "%object", DATA)
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
    + _put("ptr", "%data", "%buffers", "%argument_k", "data")
    + _put("ptr", "%dims", "%shapes", "%argument_k", "dims")
    + """
  store i64 1, ptr %product"""
    + _loop(
        "axis",
        "%j",
        "%axes",
        _item("%dim", "%dims", "%axis_k")
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
    + _put("i64", "%elements", "%lengths", "%argument_k", "length")
    + """
  %work1 = load i64, ptr %work
  %work2 = add i64 %work1, %elements
  store i64 %work2, ptr %work
  br label %argument_next
float:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  %is_float64 = icmp eq ptr %type, @nap_float64
  %both_floats = or i1 %is_float, %is_float64
  br i1 %both_floats, label %read_float, label %try_single
read_float:"""
    + _field("%direct", "double", "%object", DOUBLE)
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
    + _field("%given_single", "float", "%object", DOUBLE)
    + f"""
  br label %put_single
try_int:
  %only = icmp eq i64 %kind, {FLOAT_ONLY}
  %only_single = icmp eq i64 %kind, {SINGLE_ONLY}
  %exact = or i1 %only, %only_single
  %is_long = icmp eq ptr %type, @PyLong_Type
  %not_exact = xor i1 %exact, true
  %convert = and i1 %is_long, %not_exact
  br i1 %convert, label %int_to_float, label %slow
int_to_float:
  %converted = call double @PyLong_AsDouble(ptr %object)
  %suspect = fcmp oeq double %converted, -1.0
  br i1 %suspect, label %slow, label %keep_float
keep_float:
  %number = phi double [ %direct, %read_float ], [ %converted, %int_to_float ]
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
    + _put("float", "%short", "%scalars", "%argument_k", "single")
    + """
  br label %argument_next
keep_double:"""
    + _put("double", "%number", "%scalars", "%argument_k", "double")
    + """
  br label %argument_next
int:
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %read_int, label %try_int64
try_int64:
  %is_int64 = icmp eq ptr %type, @nap_int64
  br i1 %is_int64, label %read_int64, label %slow
read_int64:"""
    + _field("%given_int", "i64", "%object", DOUBLE)
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
                      [ %given_int, %read_int64 ]"""
    + _put("i64", "%whole_number", "%scalars", "%argument_k", "integer")
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
    + _put("i64", "%truth", "%scalars", "%argument_k", "truth")
    + """
  br label %argument_next""",
    "steps",
)

_STEPS = """
steps:
  %step_count = call i64 @word(ptr %table)""" + _loop(
    "step",
    "%i",
    "%step_count",
    """
  %of = call i64 @word(ptr %table)
  %axis_number = call i64 @word(ptr %table)
  %slot = call i64 @word(ptr %table)"""
    + _item("%its_dims", "%shapes", "%of", "ptr")
    + _item("%length_now", "%its_dims", "%axis_number")
    + """
  %only_compare = icmp slt i64 %slot, 0
  br i1 %only_compare, label %compare, label %bind
compare:
  %asked_raw = call i64 @poly(ptr %table, ptr %slots)
  %overflow = icmp eq i64 %asked_raw, """
    + str(_NEVER)
    + """
  %asked = call i64 @llvm.smax.i64(i64 %asked_raw, i64 0)
  %equal = icmp eq i64 %asked, %length_now
  %not_over = xor i1 %overflow, true
  %agrees = and i1 %equal, %not_over
  br i1 %agrees, label %step_next, label %slow
bind:
  %factor = call i64 @poly(ptr %table, ptr %slots)
  %rest = call i64 @poly(ptr %table, ptr %slots)
  %positive = icmp sgt i64 %factor, 0
  %rest_known = icmp ne i64 %rest, """
    + str(_NEVER)
    + """
  %solvable = and i1 %positive, %rest_known
  br i1 %solvable, label %solve, label %slow
solve:
  %above = sub i64 %length_now, %rest
  %is_one = icmp eq i64 %factor, 1
  br i1 %is_one, label %solved, label %divide
divide:
  %quotient = sdiv i64 %above, %factor
  %left = srem i64 %above, %factor
  %whole = icmp eq i64 %left, 0
  br i1 %whole, label %solved, label %slow
solved:
  %root = phi i64 [ %above, %solve ], [ %quotient, %divide ]
  %real = icmp sge i64 %root, 0
  br i1 %real, label %keep_slot, label %slow
keep_slot:"""
    + _put("i64", "%root", "%slots", "%slot", "root")
    + """
  br label %step_next""",
    "facts",
)

_FACTS = """
facts:
  %fact_count = call i64 @word(ptr %table)""" + _loop(
    "fact",
    "%i",
    "%fact_count",
    """
  %fact = call i64 @poly(ptr %table, ptr %slots)
  %true = icmp sge i64 %fact, 0
  br i1 %true, label %fact_next, label %slow""",
    "bounds",
)

_BOUNDS = """
bounds:
  %bound_count = call i64 @word(ptr %table)""" + _loop(
    "bound",
    "%i",
    "%bound_count",
    f"""
  %whose = call i64 @word(ptr %table)
  %what = call i64 @word(ptr %table)
  %low = call i64 @poly(ptr %table, ptr %slots)
  %high = call i64 @poly(ptr %table, ptr %slots)
  %by_value = icmp eq i64 %what, {SCALAR}
  %by_kernel = icmp eq i64 %what, {EMPTY}
  %own = getelementptr i64, ptr %scalars, i64 %whose"""
    + _item("%its_data", "%buffers", "%whose", "ptr")
    + _item("%its_length", "%lengths", "%whose")
    + """
  %where = select i1 %by_value, ptr %own, ptr %its_data
  %how_many = select i1 %by_value, i64 1, i64 %its_length
  br i1 %by_kernel, label %set_only, label %look
set_only:
  %no_element = icmp eq i64 %its_length, 0
  %inhabited = icmp slt i64 %low, %high
  %harmless = or i1 %no_element, %inhabited
  br i1 %harmless, label %bound_next, label %slow
look:
  %inside = call i1 @within(ptr %where, i64 %how_many, i64 %low, i64 %high)
  br i1 %inside, label %bound_next, label %slow""",
    "order",
)

_ORDER = """
order:
  %size_count = call i64 @word(ptr %table)""" + _loop(
    "size",
    "%i",
    "%size_count",
    """
  %wanted = call i64 @word(ptr %table)"""
    + _item("%wanted_value", "%slots", "%wanted")
    + _put("i64", "%wanted_value", "%sizes", "%size_k", "size")
    + """
  br label %size_next""",
    "results",
)

_RESULTS = """
results:
  %result_count = call i64 @word(ptr %table)
  %form = call i64 @word(ptr %table)
  %takes_out = icmp eq i64 %form, """ + str(SINGLE_ARRAY) + """
  %served = or i1 %takes_out, %no_names
  br i1 %served, label %make_results, label %slow
make_results:""" + _loop(
    "result",
    "%i",
    "%result_count",
    """
  %slot_of = add i64 %count, %result_k
  %result_kind = call i64 @word(ptr %table)"""
    + _put("i64", "%result_kind", "%kinds", "%result_k", "kind")
    + f"""
  %makes_array = icmp eq i64 %result_kind, {ARRAY}
  br i1 %makes_array, label %new_array, label %new_scalar
new_scalar:
  %cell = getelementptr i64, ptr %outs, i64 %result_k"""
    + _put("i64", "0", "%outs", "%result_k", "zero")
    + _put("ptr", "%cell", "%buffers", "%slot_of", "cell")
    + """
  br label %result_next
new_array:
  %number_of_type = call i64 @word(ptr %table)
  %result_descriptor = call i64 @word(ptr %table)
  %result_axes = call i64 @word(ptr %table)
  store i64 1, ptr %product"""
    + _loop(
        "extent",
        "%j",
        "%result_axes",
        f"""
  %extent_raw = call i64 @poly(ptr %table, ptr %slots)
  %too_large = icmp eq i64 %extent_raw, {_NEVER}
  br i1 %too_large, label %slow, label %extent_fine
extent_fine:
  %extent = call i64 @llvm.smax.i64(i64 %extent_raw, i64 0)"""
        + _put("i64", "%extent", "%shape", "%extent_k", "extent")
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
  br i1 %no_names, label %make_new, label %given
given:
  %given_at = getelementptr ptr, ptr %arguments, i64 %nargs
  %given_array = load ptr, ptr %given_at"""
    + _field("%given_type", "ptr", "%given_array", OB_TYPE)
    + """
  %given_is_array = icmp eq ptr %given_type, @PyArray_Type
  br i1 %given_is_array, label %given_layout, label %slow
given_layout:"""
    + _field("%given_descr", "i64", "%given_array", DESCR)
    + _field("%given_nd", "i32", "%given_array", ND)
    + _field("%given_flags", "i32", "%given_array", FLAGS)
    + _field("%given_dims", "ptr", "%given_array", DIMS)
    + _field("%given_data", "i64", "%given_array", DATA)
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
    + _loop(
        "match",
        "%j",
        "%result_axes",
        _item("%given_dim", "%given_dims", "%match_k")
        + _item("%asked_dim", "%shape", "%match_k")
        + """
  %same_dim = icmp eq i64 %given_dim, %asked_dim
  br i1 %same_dim, label %match_next, label %slow""",
        "matched",
    )
    + """
matched:
  ; does it lie beside the arguments? No element has more than 8 bytes
  %given_bytes = mul i64 %elements2, 8
  %given_end = add i64 %given_data, %given_bytes"""
    + _loop(
        "apart",
        "%j",
        "%count",
        _item("%beside", "%buffers", "%apart_k")
        + _item("%beside_length", "%lengths", "%apart_k")
        + """
  %beside_bytes = mul i64 %beside_length, 8
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
  call void @Py_IncRef(ptr %given_array)
  br label %keep_array
make_new:
  %number32 = trunc i64 %number_of_type to i32
  %axes32 = trunc i64 %result_axes to i32
  %made = call ptr @make_array(ptr @PyArray_Type, i32 %axes32, ptr %shape, i32 %number32,
                               i64 %elements2)
  %refused = icmp eq ptr %made, null
  br i1 %refused, label %slow, label %keep_array
keep_array:
  %result_array = phi ptr [ %made, %make_new ], [ %given_array, %take_given ]"""
    + _put("ptr", "%result_array", "%objects", "%result_k", "made")
    + _field("%its_memory", "ptr", "%result_array", DATA)
    + _put("ptr", "%its_memory", "%buffers", "%slot_of", "memory")
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
  br i1 %fine, label %convert_results, label %failure
convert_results:""" + _loop(
    "give",
    "%i",
    "%result_count",
    _item("%give_kind", "%kinds", "%give_k")
    + "\n  %out = getelementptr i64, ptr %outs, i64 %give_k"
    + _dispatch(
        "give_kind",
        {FLOAT: "give_float", SINGLE: "give_single", INT: "give_int", BOOL: "give_bool"},
        "give_next",
    )
    + """
give_float:
  %out_float = load double, ptr %out
  %float_object = call ptr @PyFloat_FromDouble(double %out_float)
  br label %give_object
give_single:
  %single_object = call ptr @PyArray_Scalar(ptr %out, ptr @nap_single, ptr null)
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
                         [ %int_object, %give_int ], [ %bool_object, %give_bool ]"""
    + _put("ptr", "%object_made", "%objects", "%give_k", "object")
    + """
  %no_object = icmp eq ptr %object_made, null
  br i1 %no_object, label %raise, label %give_next""",
    "deliver",
) + f"""
deliver:
  %packs = icmp eq i64 %form, {TUPLE}
  br i1 %packs, label %pack, label %single_result
single_result:
  %only_result = load ptr, ptr %objects
  ret ptr %only_result
pack:
  %tuple = call ptr @PyTuple_New(i64 %result_count)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %raise, label %fill
fill:
  %places = getelementptr i8, ptr %tuple, i64 {ITEMS}""" + _loop(
    "fill",
    "%i",
    "%result_count",
    _item("%component", "%objects", "%fill_k", "ptr")
    + _put("ptr", "%component", "%places", "%fill_k", "component")
    + """
  br label %fill_next""",
    "filled",
) + """
filled:
  ret ptr %tuple
failure:
  %outside = icmp eq i64 %code, """ + str(OUTSIDE) + """
  br i1 %outside, label %slow, label %failed
failed:
  call void @release(ptr %objects)
  %pending = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %pending, null
  br i1 %raised, label %error_set, label %explain
explain:""" + "".join(
    _item(f"%value{k}", "%error", str(k)) for k in range(4)
) + """
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %fail, ptr @five, i64 %code,
    i64 %value0, i64 %value1, i64 %value2, i64 %value3)
  ret ptr %answer
raise:
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

_LOCALS = {"slots": MOST, "sizes": MOST, "buffers": 2 * MOST, "scalars": 2 * MOST, "shapes": MOST,
           "lengths": MOST, "kinds": MOST, "outs": MOST, "shape": 64, "error": 4}  # fmt: skip

_EACH = _loop(
    "each",
    "%i",
    str(MOST),
    _item("%object", "%objects", "%each_k", "ptr")
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
  %i = alloca i64
  %j = alloca i64
  %product = alloca i64
  %work = alloca i64
  %objects = alloca [{MOST} x ptr]"""
    + "".join(f"\n  %{name} = alloca [{n} x i64]" for name, n in _LOCALS.items())
    + f"\n  %parts = getelementptr i8, ptr %self, i64 {ITEMS}"
    + _item("%words", "%parts", "0", "ptr")
    + _item("%otherwise", "%parts", "1", "ptr")
    + _item("%fail", "%parts", "2", "ptr")
    + f"""
  %first = getelementptr i8, ptr %words, i64 {BYTES}
  store ptr %first, ptr %table
  store i64 0, ptr %work
  store [{MOST} x ptr] zeroinitializer, ptr %objects
  store [{MOST} x i64] zeroinitializer, ptr %lengths
  %count = call i64 @word(ptr %table)
  %kernel_number = call i64 @word(ptr %table)
  %kernel = inttoptr i64 %kernel_number to ptr
  %right_count = icmp eq i64 %count, %nargs
  %no_names = icmp eq ptr %names, null
  br i1 %right_count, label %named, label %slow
named:
  br i1 %no_names, label %arguments_loop, label %keywords
keywords:"""
    + _field("%keyword_count", "i64", "%names", LENGTH)
    + """
  %one_keyword = icmp eq i64 %keyword_count, 1
  br i1 %one_keyword, label %keyword, label %slow
keyword:"""
    + _field("%name", "ptr", "%names", ITEMS)
    + """
  %is_out = icmp eq ptr %name, @nap_out
  br i1 %is_out, label %arguments_loop, label %slow
arguments_loop:"""
)


def entry_ir() -> str:
    """The module that defines `nap_entry` and `nap_call`."""
    return (
        _HELPERS
        + large_ir()
        + _PROLOGUE
        + _ARGUMENTS
        + _STEPS
        + _FACTS
        + _BOUNDS
        + _ORDER
        + _RESULTS
        + _RUN
    )
