"""`nap repl`: the language, line by line.

An entry is a definition, which stays, or an expression, whose value is printed. It goes on while
brackets or blocks are open; an empty line ends a block. Lines that start with a colon are commands
(`:help` lists them). Without a terminal it reads its input silently, which is how it is tested.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import naperian as nap
from naperian import __version__, cli
from naperian.program import Program, known_type, source_of
from naperian.session import RESULT, Draft, Session
from naperian.source import CompileError, Source
from naperian.surface.lex import KEYWORDS
from naperian.surface.parse import parse_entry
from naperian.values import duration, show

try:
    import readline
except ImportError:  # a Python built without it, or Windows: no history, no completion
    readline = None  # type: ignore[assignment]

HISTORY = Path("~/.naperian_history").expanduser()
PROMPT, MORE = "nap> ", "...> "
_LONGEST_HISTORY = 2000


class Repl:
    """The loop's state: the session and where lines come from."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self.read = read
        self.session = Session()
        self.count = 0

    # -------------------------------------------------------- reading

    def run(self) -> None:
        """Until the end of the input or `:quit`. Nothing the user enters ends it otherwise."""
        while True:
            try:
                entry = self.entry()
                if entry is None:
                    return
                if entry.strip():
                    self.obey(entry)
            except KeyboardInterrupt:
                # after what is on the terminal's line already: an entry half written, or `^C`
                cli.say("\ninterrupted" if sys.stdin.isatty() else "interrupted")
            except CompileError as e:
                cli.report(e.diagnostics)
            except Told as e:
                cli.say(str(e))
            except _Quit:
                return
            except Exception as e:
                cli.say(cli.our_bug(e))

    def entry(self) -> str | None:
        """The lines of the next entry; None at the end of the input."""
        try:
            lines = [self.read(PROMPT)]
        except EOFError:
            return None
        while not lines[0].lstrip().startswith(":") and goes_on(lines):
            try:
                lines.append(self.read(MORE))
            except EOFError:
                break
        return "\n".join(lines)

    # -------------------------------------------------------- obeying

    def obey(self, entry: str) -> None:
        """Carry out a command, take in a definition or print a value."""
        if not entry.startswith(":"):
            self.evaluate(entry)
            return
        word, _, rest = entry[1:].partition(" ")
        meant = next((c for c in COMMANDS if word and c.startswith(word)), None)
        if meant is None:
            raise Told(f"`:{word}` is no command; `:help` lists them")
        COMMANDS[meant][2](self, rest.strip())

    def compiled(self, entry: str) -> tuple[nap.Module, Draft]:
        """The program with this entry at its end, compiled."""
        self.count += 1
        draft = self.session.draft(entry, f"<repl {self.count}>")
        try:
            return nap.compile(draft.source.text, draft.source.name), draft
        except CompileError as e:
            raise draft.explained(e) from None

    def definition(self, expression: str) -> nap.Function | None:
        """What is defined under this name, if the expression is one."""
        if not expression.isidentifier():
            return None
        whole = self.session.draft().source
        module = nap.compile(whole.text, whole.name)
        return module[expression] if expression in module.names else None

    def built_in(self, expression: str) -> str | None:
        """The type of a function of the language's own that no entry hides."""
        hidden = any(expression in p.names for p in self.session.pieces)
        return known_type(expression) if expression.isidentifier() and not hidden else None

    def imported(self, expression: str) -> str | None:
        """The general type of what an import gives this name."""
        name = self.session.imported(expression)
        return Program(self.session.draft().source, Path()).imported_type(name) if name else None

    def evaluate(self, entry: str) -> None:
        word = entry.strip().removesuffix("()")
        known = self.definition(word)
        if known is None and word in _PYTHON:
            raise Told(_PYTHON[word])
        said = known.type if known is not None else self.built_in(word) or self.imported(word)
        if said is not None and "->" in said and word == entry.strip():
            print(f"{word} : {said}")
            return
        module, draft = self.compiled(entry)
        if draft.names:
            self.session = self.session.after(draft)
            for name in sorted(draft.names & set(module.names)):
                print(f"{name} : {module[name].type}")
            return
        function = module[RESULT]
        if "->" in function.result_type:
            print(f"<{function.result_type}>")
            return
        value = called(function, draft)
        if not (isinstance(value, tuple) and not value):
            print(show(value))

    # -------------------------------------------------------- commands

    def type(self, expression: str) -> None:
        if (known := self.definition(_given(expression))) is not None:
            print(known.type)
            return
        if (said := self.built_in(expression) or self.imported(expression)) is not None:
            print(said)
            return
        module, draft = self.compiled(_given(expression))
        for name in draft.names or {RESULT}:
            print(module[name].type)

    def show(self, words: str) -> None:
        stage, _, expression = words.partition(" ")
        if stage and stage not in nap.STAGES:
            raise Told(f"no stage `{stage}`; there are {', '.join(nap.STAGES)}")
        function = self.definition(_given(expression))
        if function is None:
            module, draft = self.compiled(expression.strip())
            function = module[next(iter(draft.names), RESULT)]
        print(function.show(stage))

    def time(self, expression: str) -> None:
        start = time.perf_counter()
        module, draft = self.compiled(_given(expression))
        if draft.names:
            raise Told("a definition takes no time; give an expression")
        function = module[RESULT]
        value = called(function, draft)
        first = time.perf_counter() - start
        runs, spent = 0, 0.0
        while runs < 3 or (spent < 0.2 and runs < 10_000):
            begin = time.perf_counter()
            function()
            spent += time.perf_counter() - begin
            runs += 1
        print(show(value))
        print(f"compiled and run once in {duration(first)}, then {duration(spent / runs)} a run")

    def load(self, path: str) -> None:
        source = source_of(_given(path))
        module = nap.compile(source.text, source.name)
        self.session = Session.of(source)
        for name in module.names:
            print(f"{name} : {module[name].type}")

    def quit(self, _: str) -> None:
        raise _Quit

    def help(self, _: str) -> None:
        for name, (argument, what, _action) in COMMANDS.items():
            print(f"  :{name} {argument}".ljust(24) + what)
        print("  anything else: a definition, which stays, or an expression, which is printed")

    # -------------------------------------------------------- completion

    def words(self) -> list[str]:
        """What the Tab key offers."""
        own = {n for p in self.session.pieces for n in p.names}
        texts = " ".join(p.text for p in self.session.pieces if not p.names)
        own |= set(re.findall(r"^(?:def|enum|struct)\s+(\w+)", texts, re.MULTILINE))
        return sorted(own | set(nap.library_names()) | set(KEYWORDS) | {f":{c}" for c in COMMANDS})

    def complete(self, prefix: str, number: int) -> str | None:
        if not prefix and readline is not None and not readline.get_line_buffer().strip():
            return "    " if number == 0 else None  # at the start of a line Tab indents
        matching = [w for w in self.words() if w.startswith(prefix)]
        return matching[number] if number < len(matching) else None


def called(function: nap.Function, draft: Draft) -> Any:
    """The value of `it`, or what stopped it in the user's own entry."""
    try:
        return function()
    except nap.RunError as e:
        raise Told(draft.stopped(e)) from None
    except Exception as e:
        if not nap.at_border(e):
            raise
        raise Told(str(e).replace(f"{RESULT}()", "this")) from None


class Told(Exception):
    """A sentence for the user instead of a result."""


class _Quit(Exception):
    """`:quit`."""


COMMANDS: dict[str, tuple[str, str, Callable[[Repl, str], None]]] = {
    "type": ("e", "the type of an expression", Repl.type),
    "show": ("STAGE e", "an expression at a stage: core, ainf, loops, llvm", Repl.show),
    "time": ("e", "how long it takes", Repl.time),
    "load": ("FILE", "start again from a file's definitions", Repl.load),
    "help": ("", "this list", Repl.help),
    "quit": ("", "leave (so does the end of the input)", Repl.quit),
}


_PYTHON = {  # what people type out of habit
    "exit": "`:quit` leaves; so does Ctrl-D",
    "quit": "`:quit` leaves; so does Ctrl-D",
    "help": "`:help` lists the commands",
}


def _given(text: str) -> str:
    if not text.strip():
        raise Told("what of? (see `:help`)")
    return text.strip()


def goes_on(lines: list[str]) -> bool:
    """Whether an entry wants another line: a bracket, a string or a block is open. An empty line
    ends a block."""
    return parse_entry(Source("<entry>", "\n".join(lines) + "\n"))[2]


@contextlib.contextmanager
def _terminal(repl: Repl) -> Iterator[None]:
    """History and completion, where there are any."""
    if readline is None or not sys.stdin.isatty():
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(HISTORY)
    readline.set_completer(repl.complete)
    readline.set_completer_delims(" \t\n()[]{},+-*/%@=<>|&^~.")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_history_length(_LONGEST_HISTORY)
        with contextlib.suppress(OSError):
            readline.write_history_file(HISTORY)


def run(options: argparse.Namespace) -> int:
    """The command `nap repl`."""
    on_terminal = sys.stdin.isatty()
    repl = Repl(input if on_terminal else lambda _: _line())
    if options.file:
        repl.load(options.file)
    if on_terminal:
        print(f"Naperian {__version__}  (:help, :quit)")
    with _terminal(repl):
        repl.run()
    if on_terminal:
        print()
    return cli.OK


def _line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
