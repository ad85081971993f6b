"""Executable Markdown: a program, then claims about it, each checked by running the compiler.

A `nap` block is a module; with `nap continue` it goes on from the block before. The blocks after
it say what becomes of it, their first word naming the stage and the second, where one is needed,
the definition:

    type                the inferred signature of every definition, or of those named
    value               `>>> expression` lines, each with its value below: compiled, and by the
                        interpreter of every stage, which must agree
    error               the diagnostics of the program, as printed
    explain NAME        the definition with every lift written out
    core | ainf | … NAME    the definition at a stage, one of `nap.STAGES`
    python              `>>>` lines of Python, with `nap`, `np`, the program as `m` and the page's
                        folder as `here`
    console             `$ nap …` lines and their output, run in an empty directory that holds the
                        program as `page.nap`; `…` in the output stands for anything

`check` finds the claims that are false, `accept` makes them true and touches nothing else: one
Markdown file is documentation, test and review at once. Blank lines in output are left out.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import naperian as nap
from naperian import cli, oracle
from naperian.node import node
from naperian.session import Session, docstrings
from naperian.source import CompileError, Source

PAGE = "page.nap"
_BUG = "internal error:"
PROMPT, MORE, SHELL, ANYTHING = ">>> ", "... ", "$ ", "…"


class PageError(Exception):
    """A page that cannot be read: an unknown kind of block, or a claim without a program."""


@node
class Block:
    """A fenced block: its info words, its text, where the text is and its line in the page."""

    words: tuple[str, ...]
    text: str
    start: int
    end: int
    line: int


@node
class Claim:
    """A block that says something about a program."""

    stage: str
    words: tuple[str, ...]
    program: str
    block: Block
    folder: Path


@node
class Difference:
    """A false claim: what the page says and what is true."""

    path: str
    line: int
    stage: str
    said: str
    true: str

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: this `{self.stage}` is not so\n"
            f"{_quote('said', self.said)}\n{_quote('true', self.true)}"
        )


def _quote(lead: str, text: str) -> str:
    return "\n".join(f"  {lead} | {line}" for line in text.splitlines() or [""])


# ---------------------------------------------------------------- reading

_FENCE = re.compile(r"^(`{3,})([^`\n]*)$", re.MULTILINE)
_OTHER = frozenset({"text", "sh", "toml", "c", "json", "markdown", "ebnf", "diff"})


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page; a longer fence may hold shorter ones."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(page):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            start, end = opened.end() + 1, fence.start()
            line = page.count("\n", 0, opened.start()) + 1
            yield Block(tuple(opened[2].split()), page[start:end], start, end, line)
            opened = None


def claims(page: str, folder: Path = Path()) -> list[Claim]:
    """The claims of a page in a folder, in order, each with the program it is about."""
    found: list[Claim] = []
    program: str | None = None
    for block in blocks(page):
        match block.words:
            case ("nap",):
                program = block.text
            case ("nap", "continue") if program is not None:
                program = program + "\n" + block.text
            case () | ("nap", *_):
                pass
            case (stage, *words) if stage in STAGES:
                if program is None and stage not in _ALONE:
                    raise PageError(f"line {block.line}: `{stage}` before any program")
                found.append(Claim(stage, tuple(words), program or "", block, folder))
            case (other, *_) if other not in _OTHER:
                raise PageError(f"line {block.line}: no such kind of block as `{other}`")
    return found


def answered(text: str, answer: Callable[[str], str]) -> str:
    """The text with what `answer` gives for it below every input, in place of what stands there up
    to a blank line or the next input."""
    out: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith(PROMPT):
            out.append(lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].startswith(MORE):
            end += 1
        out += lines[at:end]
        entry = "\n".join(line[len(PROMPT) :] for line in lines[at:end])
        out += [line for line in answer(entry).splitlines() if line.strip()]
        at = end
        while at < len(lines) and lines[at].strip() and not lines[at].startswith(PROMPT):
            at += 1
    return "\n".join(out)


# ---------------------------------------------------------------- the stages


def _type(claim: Claim) -> str:
    module = nap.compile(claim.program, PAGE)
    return "\n".join(f"{name} : {module[name].type}" for name in claim.words or module.names)


def _value(claim: Claim) -> str:
    return answered(claim.block.text, Answers(Source(PAGE, claim.program)))


class Answers:
    """What inputs say, one after another: a value, the same in every stage; a failure; or nothing
    for a definition, which later inputs see."""

    def __init__(self, source: Source) -> None:
        self.session = Session.of(source)

    def __call__(self, entry: str) -> str:
        draft = self.session.draft(entry)
        said: list[str] = []
        try:
            if not draft.names:
                value = oracle.agreed(draft.source, said)
                return "\n".join([*said, value] if value != "()" else said or [value])
            nap.compile(draft.source.text)
            self.session = self.session.after(draft)
            return ""
        except CompileError as e:
            return str(draft.explained(e))
        except nap.RunError as e:
            return "\n".join([*said, draft.stopped(e)])
        except Exception as e:
            return _our_bug(e)


def _error(claim: Claim) -> str:
    try:
        nap.compile(claim.program, PAGE)
    except CompileError as e:
        return str(e)
    return "no error"


def _stage(claim: Claim) -> str:
    if len(claim.words) != 1:
        raise PageError(f"line {claim.block.line}: `{claim.stage}` needs a definition's name")
    function = nap.compile(claim.program, PAGE)[claim.words[0]]
    return function.explain() if claim.stage == "explain" else function.show(claim.stage)


def _python(claim: Claim) -> str:
    scope: dict[str, Any] = {"nap": nap, "np": np, "here": claim.folder}
    if claim.program:
        scope["m"] = nap.compile(claim.program, PAGE)

    def answer(entry: str) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                interactive = ast.Interactive(ast.parse(entry).body)
                exec(compile(interactive, "<page>", "single"), scope)
            except Exception as e:
                print(f"{type(e).__name__}: {e}")
        return said.getvalue()

    with np.printoptions(precision=6, suppress=True):
        return answered(claim.block.text, answer)


def _console(claim: Claim) -> str:
    out = []
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        Path(PAGE).write_text(claim.program, encoding="utf-8")
        for line in claim.block.text.splitlines():
            if line.startswith(SHELL):
                out += [line, _run(line[len(SHELL) :])]
    return "\n".join(part.rstrip("\n") for part in out if part)


def _run(line: str) -> str:
    """Output of a `nap …` line, stderr after stdout, as a user without a terminal sees it. The
    command is carried out in this process: starting one takes longer than most commands do."""
    words = shlex.split(line, comments=True)
    if words[0] != "nap":
        raise PageError(f"`{line}`: only `nap` is run from a page")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(words[1:])
        except SystemExit:  # of `--version` and `--help`
            code = cli.OK
    if code == cli.INTERRUPTED:
        raise KeyboardInterrupt
    return out.getvalue() + err.getvalue()


STAGES: dict[str, Callable[[Claim], str]] = {
    "type": _type,
    "value": _value,
    "error": _error,
    "explain": _stage,
    **{stage: _stage for stage in nap.STAGES},
    "python": _python,
    "console": _console,
}
_ALONE = frozenset({"python", "console"})


# ---------------------------------------------------------------- judging


def truth(claim: Claim) -> str:
    """What is true of the claim's program, in the claim's form."""
    try:
        said = STAGES[claim.stage](claim)
    except CompileError as e:
        said = str(e)
    except PageError:
        raise
    except Exception as e:
        said = _our_bug(e)
    return said.rstrip("\n") + "\n" if said.strip() else ""


def _our_bug(e: Exception) -> str:
    """What stands in place of an answer when the compiler fails; it never holds."""
    where = traceback.extract_tb(e.__traceback__)[-1]
    what = str(e).partition("\n")[0]
    return f"{_BUG} {type(e).__name__}: {what} ({Path(where.filename).name}:{where.lineno})"


def holds(said: str, true: str) -> bool:
    """Whether what is said is true; `…` stands for anything."""
    if _BUG in true:
        return False
    if ANYTHING not in said:
        return said == true
    pattern = ".*?".join(re.escape(part) for part in said.split(ANYTHING))
    return re.fullmatch(pattern, true, re.DOTALL) is not None


def check(path: str, page: str, folder: Path = Path()) -> list[Difference]:
    """The false claims of a page in a folder."""
    return [
        Difference(path, c.block.line, c.stage, c.block.text, true)
        for c in claims(page, folder)
        if not holds(c.block.text, true := truth(c))
    ]


def accept(page: str, folder: Path = Path()) -> str:
    """The page with every claim made true that the compiler has an answer to."""
    for c in reversed(claims(page, folder)):
        true = truth(c)
        broken = c.stage in _ALONE and true.startswith("error[")  # the claim's inputs would be lost
        if not holds(c.block.text, true) and _BUG not in true and not broken:
            page = page[: c.block.start] + _kept(c.block.text, true) + page[c.block.end :]
    return page


def _kept(said: str, true: str) -> str:
    """The true text, with the lines that were said with a `…` and hold as they were said."""
    loose = [line for line in said.splitlines(keepends=True) if ANYTHING in line]
    lines = true.splitlines(keepends=True)
    return "".join(next((x for x in loose if holds(x, line)), line) for line in lines)


def check_docstrings(path: str, text: str) -> list[Difference]:
    """The false `>>>` examples in the docstrings of a `.nap` file."""
    source = Source(path, text)
    wrong = []
    for doc, line in docstrings(source):
        said = "\n".join(x.strip() for x in doc.splitlines())
        if PROMPT in said:
            true = answered(said, Answers(source))
            if not holds(said, true):
                wrong.append(Difference(path, line, "example", said, true))
    return wrong
