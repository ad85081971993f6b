"""Memory of a run that is kept for the next one, as LLVM IR.

    ptr nap.again(bytes)     a block that was kept and fits, or null
    i1 nap.keep(ptr, bytes)  whether a block is kept, which a run gives back

The C library gives larger blocks back to the system, and smaller ones if there are many; their
pages come anew in every call, which takes longer than a sweep over them. So the last few stay, each
in a slot of its own, which is emptied and filled by atomic exchanges. A block that finds no empty
slot takes the place of another, and for one that would be too much others go. A gradient through a
loop has a table for each value that it stores, so there are slots for all of them. How large the
block of a slot is stands beside it: a guess, for another thread may change the block at any time,
but one that lets most be.
"""

from __future__ import annotations

SLOTS = 128
LEAST = 1 << 13  # bytes of a block: a hundred smaller ones the C library keeps itself
MOST = 1 << 27  # bytes of all that are kept


def kept_ir() -> str:
    """The two functions; `nap.release` gives memory back, and a block's size stands 16 bytes before
    it."""
    return _IR


_IR = f"""
@nap.kept = internal global [{SLOTS} x i64] zeroinitializer
@nap.sizes = internal global [{SLOTS} x i64] zeroinitializer  ; bytes of each, as a guess
@nap.held = internal global i64 0                  ; bytes in them
@nap.turn = internal global i64 0                  ; whose place is taken next

define internal i64 @nap.size(i64 %block) {{
  %p = inttoptr i64 %block to ptr
  %before = getelementptr i8, ptr %p, i64 -16
  %bytes = load i64, ptr %before
  ret i64 %bytes
}}

define internal void @nap.drop(i64 %block) {{
  %some = icmp ne i64 %block, 0
  br i1 %some, label %give, label %done
give:
  %bytes = call i64 @nap.size(i64 %block)
  %held = atomicrmw sub ptr @nap.held, i64 %bytes monotonic
  %p = inttoptr i64 %block to ptr
  call void @nap.release(ptr %p)
  br label %done
done:
  ret void
}}

define internal i1 @nap.fits(i64 %size, i64 %bytes) {{
  %enough = icmp uge i64 %size, %bytes
  %half = lshr i64 %size, 1
  %near = icmp ule i64 %half, %bytes
  %fits = and i1 %enough, %near
  ret i1 %fits
}}

define internal ptr @nap.again(i64 %bytes) {{
entry:
  %large = icmp uge i64 %bytes, {LEAST}
  br i1 %large, label %look, label %none
look:
  %k = phi i64 [ 0, %entry ], [ %after, %on ]
  %slot = getelementptr i64, ptr @nap.kept, i64 %k
  %seen = load atomic i64, ptr %slot monotonic, align 8
  %empty = icmp eq i64 %seen, 0
  br i1 %empty, label %on, label %guess
guess:
  %about = getelementptr i64, ptr @nap.sizes, i64 %k
  %guessed = load atomic i64, ptr %about monotonic, align 8
  %likely = call i1 @nap.fits(i64 %guessed, i64 %bytes)
  br i1 %likely, label %take, label %on
take:
  %block = atomicrmw xchg ptr %slot, i64 0 acquire
  %gone = icmp eq i64 %block, 0
  br i1 %gone, label %on, label %compare
compare:
  %size = call i64 @nap.size(i64 %block)
  %fits = call i1 @nap.fits(i64 %size, i64 %bytes)
  br i1 %fits, label %use, label %back
use:
  %held = atomicrmw sub ptr @nap.held, i64 %size monotonic
  %result = inttoptr i64 %block to ptr
  ret ptr %result
back:
  %other = atomicrmw xchg ptr %slot, i64 %block acq_rel
  call void @nap.drop(i64 %other)
  br label %on
on:
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {SLOTS}
  br i1 %more, label %look, label %none
none:
  ret ptr null
}}

define internal void @nap.note(i64 %k, i64 %bytes) {{
  %about = getelementptr i64, ptr @nap.sizes, i64 %k
  store atomic i64 %bytes, ptr %about monotonic, align 8
  ret void
}}

; this block, or none, in the place of one whose turn it is
define internal void @nap.put(i64 %block, i64 %bytes) {{
  %turn = atomicrmw add ptr @nap.turn, i64 1 monotonic
  %whose = and i64 %turn, {SLOTS - 1}
  %slot = getelementptr i64, ptr @nap.kept, i64 %whose
  %old = atomicrmw xchg ptr %slot, i64 %block acq_rel
  call void @nap.drop(i64 %old)
  %some = icmp ne i64 %block, 0
  br i1 %some, label %note, label %done
note:
  call void @nap.note(i64 %whose, i64 %bytes)
  br label %done
done:
  ret void
}}

define internal i1 @nap.keep(ptr %p, i64 %bytes) {{
entry:
  %large = icmp uge i64 %bytes, {LEAST}
  %bounded = icmp ule i64 %bytes, {MOST}
  %fits = and i1 %large, %bounded
  br i1 %fits, label %count, label %no
count:
  %tries = phi i64 [ 0, %entry ], [ %tried, %make_room ]
  %held = atomicrmw add ptr @nap.held, i64 %bytes monotonic
  %all = add i64 %held, %bytes
  %possible = icmp ule i64 %all, {MOST}
  br i1 %possible, label %look, label %refuse
refuse:
  %less = atomicrmw sub ptr @nap.held, i64 %bytes monotonic
  %again = icmp ult i64 %tries, {SLOTS}
  br i1 %again, label %make_room, label %no
make_room:
  %tried = add i64 %tries, 1
  call void @nap.put(i64 0, i64 0)
  br label %count
look:
  %k = phi i64 [ 0, %count ], [ %after, %on ]
  %slot = getelementptr i64, ptr @nap.kept, i64 %k
  %block = ptrtoint ptr %p to i64
  %pair = cmpxchg ptr %slot, i64 0, i64 %block acq_rel monotonic
  %put = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %put, label %noted, label %on
noted:
  call void @nap.note(i64 %k, i64 %bytes)
  br label %yes
on:
  %after = add i64 %k, 1
  %more = icmp ult i64 %after, {SLOTS}
  br i1 %more, label %look, label %replace
replace:
  call void @nap.put(i64 %block, i64 %bytes)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}
"""
