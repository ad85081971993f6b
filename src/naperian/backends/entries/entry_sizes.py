"""Sizes in the native entry: polynomials over slots, how arguments give the slots, and what must
hold of them.

A factor of a polynomial is a slot, or, below 0, a way to make a number of two polynomials.
"""

from __future__ import annotations

from naperian.backends.entries.entry_words import (
    EMPTY,
    EQUAL,
    GIVEN,
    SCALAR,
    SEARCH,
    item,
    loop,
    put,
)

QUOTIENT, REMAINDER, CLAMP = -1, -2, -3
LARGEST = 1 << 47  # more than any axis has
NEVER = -(1 << 63)  # a size that is too large to compute
MANY = (1 << 63) - 1

_FACTORS = loop(
    "factors",
    "%f",
    "%factors",
    """
  %slot = call i64 @word(ptr %table)
  %is_slot = icmp sge i64 %slot, 0
  br i1 %is_slot, label %plain_factor, label %derived_factor
derived_factor:
  %derived = call i64 @derived(ptr %table, ptr %slots, i64 %slot)
  %unknown = icmp eq i64 %derived, """
    + str(NEVER)
    + """
  %bad5 = load i1, ptr %bad
  %bad6 = or i1 %bad5, %unknown
  store i1 %bad6, ptr %bad
  br label %factor
plain_factor:"""
    + item("%held", "%slots", "%slot")
    + """
  br label %factor
factor:
  %v = phi i64 [ %derived, %derived_factor ], [ %held, %plain_factor ]
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

_TERMS = loop(
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

SIZES = f"""; the next word of the table
define internal i64 @word(ptr %table) alwaysinline {{
  %p = load ptr, ptr %table
  %value = load i64, ptr %p
  %after = getelementptr i64, ptr %p, i64 1
  store ptr %after, ptr %table
  ret i64 %value
}}

; the value of the table's next polynomial, or {NEVER} if it is too large
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
  %answer = select i1 %lost, i64 {NEVER}, i64 %result
  ret i64 %answer
}}

; the next two polynomials' quotient or remainder, both rounded down, or the first as an index below
; the second; {NEVER} if one is too large or divided by what is no size
define internal i64 @derived(ptr %table, ptr %slots, i64 %how) noinline {{
  %x = call i64 @poly(ptr %table, ptr %slots)
  %y = call i64 @poly(ptr %table, ptr %slots)
  %x_lost = icmp eq i64 %x, {NEVER}
  %y_lost = icmp slt i64 %y, 1
  %lost = or i1 %x_lost, %y_lost
  br i1 %lost, label %none, label %known
known:
  %left = srem i64 %x, %y
  %below = icmp slt i64 %left, 0
  switch i64 %how, label %none [ i64 {QUOTIENT}, label %divide i64 {REMAINDER}, label %rest
                                 i64 {CLAMP}, label %inside ]
divide:
  %rounded = sdiv i64 %x, %y
  %one = zext i1 %below to i64
  %quotient = sub i64 %rounded, %one
  ret i64 %quotient
rest:
  %again = add i64 %left, %y
  %remainder = select i1 %below, i64 %again, i64 %left
  ret i64 %remainder
inside:
  %last = sub i64 %y, 1
  %low = call i64 @llvm.smin.i64(i64 %x, i64 %last)
  %clamped = call i64 @llvm.smax.i64(i64 %low, i64 0)
  ret i64 %clamped
none:
  ret i64 {NEVER}
}}

; the value of the polynomial at `place` with a number for a slot, as large as can be if too large
define internal i64 @tried(ptr %place, ptr %slots, i64 %slot, i64 %n) {{
  %table = alloca ptr
  store ptr %place, ptr %table
  %at = getelementptr i64, ptr %slots, i64 %slot
  store i64 %n, ptr %at
  %value = call i64 @poly(ptr %table, ptr %slots)
  %lost = icmp eq i64 %value, {NEVER}
  %known = select i1 %lost, i64 {MANY}, i64 %value
  ret i64 %known
}}

; the smallest number >= 0 for a slot at which the next polynomial, which does not fall, has a
; value: left in the slot; whether there is one
define internal i1 @search(ptr %table, ptr %slots, i64 %slot, i64 %wanted) {{
entry:
  %place = load ptr, ptr %table
  br label %further
further:
  %before = phi i64 [ -1, %entry ], [ %reach, %double ]
  %reach = phi i64 [ 1, %entry ], [ %farther, %double ]
  %there = call i64 @tried(ptr %place, ptr %slots, i64 %slot, i64 %reach)
  %short = icmp slt i64 %there, %wanted
  br i1 %short, label %double, label %between
double:
  %farther = shl i64 %reach, 1
  %sane = icmp slt i64 %farther, {LARGEST}
  br i1 %sane, label %further, label %none
between:
  %low = phi i64 [ %before, %further ], [ %next_low, %halve ]
  %high = phi i64 [ %reach, %further ], [ %next_high, %halve ]
  %gap = sub i64 %high, %low
  %apart = icmp sgt i64 %gap, 1
  br i1 %apart, label %halve, label %decide
halve:
  %sum = add i64 %low, %high
  %middle = ashr i64 %sum, 1
  %here = call i64 @tried(ptr %place, ptr %slots, i64 %slot, i64 %middle)
  %less = icmp slt i64 %here, %wanted
  %next_low = select i1 %less, i64 %middle, i64 %low
  %next_high = select i1 %less, i64 %high, i64 %middle
  br label %between
decide:
  %found = call i64 @tried(ptr %place, ptr %slots, i64 %slot, i64 %high)
  %passed = call i64 @poly(ptr %table, ptr %slots)
  %equal = icmp eq i64 %found, %wanted
  ret i1 %equal
none:
  ret i1 false
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

_STEPS = """
steps:
  %step_count = call i64 @word(ptr %table)""" + loop(
    "step",
    "%i",
    "%step_count",
    """
  %what_step = call i64 @word(ptr %table)
  %of = call i64 @word(ptr %table)
  %is_scalar = icmp eq i64 %what_step, """
    + str(GIVEN)
    + """
  br i1 %is_scalar, label %take, label %axis_step
take:
  %own_slot = call i64 @word(ptr %table)"""
    + item("%own_value", "%scalars", "%of")
    + put("i64", "%own_value", "%slots", "%own_slot", "own")
    + """
  br label %step_next
axis_step:
  %axis_number = call i64 @word(ptr %table)"""
    + item("%its_dims", "%shapes", "%of", "ptr")
    + item("%length_now", "%its_dims", "%axis_number")
    + """
  %only_compare = icmp eq i64 %what_step, """
    + str(EQUAL)
    + """
  br i1 %only_compare, label %compare, label %slot_step
compare:
  %asked_raw = call i64 @poly(ptr %table, ptr %slots)
  %overflow = icmp eq i64 %asked_raw, """
    + str(NEVER)
    + """
  %asked = call i64 @llvm.smax.i64(i64 %asked_raw, i64 0)
  %equal = icmp eq i64 %asked, %length_now
  %not_over = xor i1 %overflow, true
  %agrees = and i1 %equal, %not_over
  br i1 %agrees, label %step_next, label %slow
slot_step:
  %slot = call i64 @word(ptr %table)
  %searches = icmp eq i64 %what_step, """
    + str(SEARCH)
    + """
  br i1 %searches, label %search_step, label %bind
search_step:
  %was_found = call i1 @search(ptr %table, ptr %slots, i64 %slot, i64 %length_now)
  br i1 %was_found, label %step_next, label %slow
bind:
  %factor = call i64 @poly(ptr %table, ptr %slots)
  %rest = call i64 @poly(ptr %table, ptr %slots)
  %positive = icmp sgt i64 %factor, 0
  %rest_known = icmp ne i64 %rest, """
    + str(NEVER)
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
    + put("i64", "%root", "%slots", "%slot", "root")
    + """
  br label %step_next""",
    "facts",
)

_FACTS = """
facts:
  %fact_count = call i64 @word(ptr %table)""" + loop(
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
  %bound_count = call i64 @word(ptr %table)""" + loop(
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
    + item("%its_data", "%buffers", "%whose", "ptr")
    + item("%its_length", "%lengths", "%whose")
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
  %size_count = call i64 @word(ptr %table)""" + loop(
    "size",
    "%i",
    "%size_count",
    """
  %wanted = call i64 @word(ptr %table)"""
    + item("%wanted_value", "%slots", "%wanted")
    + put("i64", "%wanted_value", "%sizes", "%size_k", "size")
    + """
  br label %size_next""",
    "results",
)

CHECKS = _STEPS + _FACTS + _BOUNDS + _ORDER
"""From the blocks `steps` to `order`; then `results`."""
