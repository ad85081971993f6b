"""The command `nap`: what it takes, where its output goes and what its exit code says.

    0  done        1  the program is wrong, or a test failed       2  the command is
    70 our bug     130  interrupted

Results go to stdout, everything said *about* them to stderr. This file knows no array and no
compiler, so that `nap --version` and `--help` answer at once: a command names the function that
carries it out, and only that function's module is imported.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, TextIO

from naperian import __version__
from naperian.broken import REPORT
from naperian.node import node
from naperian.source import CompileError, Diagnostic, render

OK, WRONG, USAGE, BROKEN, INTERRUPTED = 0, 1, 2, 70, 130


class UsageError(Exception):
    """The command cannot be carried out as given; the message says what to do instead."""


@node
class Argument:
    """One argument of a command, as argparse takes it."""

    name: str
    help: str
    nargs: str | None = None
    default: str | None = None
    flag: bool = False


@node
class Command:
    """A subcommand. `action` is `module:function`, called with the parsed options and giving the
    exit code; `needs` are modules, with their projects' names, of the extra `naperian[demo]`."""

    name: str
    summary: str
    examples: str
    action: str
    arguments: tuple[Argument, ...]
    needs: tuple[tuple[str, str], ...] = ()


_FILE = Argument("file", "a .nap file, or `file.nap:name`")
_PLACE = Argument("place", "a definition: `file.nap:name`")
_JSON = Argument("--json", "give the output as JSON", flag=True)

COMMANDS = (
    Command(
        "run",
        "call a definition and print its value",
        """\
nap run stats.nap                          the definition `main`, or the only one
nap run stats.nap mean '[1.0, 2.0, 6.0]'   with a value
nap run stats.nap:mean data.npy            the same definition, with an array from a file
nap run stats.nap histogram x.npy bins=16  with an implicit parameter
nap run stats.nap center x.npy --save y.npy""",
        "naperian.commands:run",
        (
            _FILE,
            Argument("name", "the definition to call", nargs="?"),
            Argument("args", "values, .npy files, or name=value", nargs="*"),
            Argument("--save", "write the result to this .npy file (.npz for a tuple)"),
            Argument("--time", "say on stderr how long it took", flag=True),
            _JSON,
        ),
    ),
    Command(
        "check",
        "find mistakes and print the inferred signatures",
        """\
nap check stats.nap
nap check stats.nap model.nap --json       diagnostics and signatures as data
nap check --grad model.nap                 try every definition and its derivatives
nap check --grad model.nap:loss            only this one""",
        "naperian.commands:check",
        (
            Argument("files", "the .nap files, or `file.nap:name`", nargs="+"),
            Argument("--grad", "call each definition: compiled as interpreted? derivatives as "
                     "finite differences?", flag=True),
            _JSON,
        ),
    ),
    Command(
        "doc",
        "list what the library, or a file, has: types, and a sentence on each",
        """\
nap doc                                    what needs no import
nap doc linalg                             a module: linalg, random, stats, numeric
nap doc solve                              a function
nap doc stats.nap                          a file""",
        "naperian.commands:doc",
        (Argument("name", "a module of the library, a function, or a .nap file", nargs="?"),),
    ),
    Command(
        "show",
        "print a definition at a stage of the compiler",
        """\
nap show stats.nap:mean                    as elaborated: every type and lift written out
nap show stats.nap:mean --stage ainf
nap show 'model.nap:grad(loss)' --stage surface    a derivative, as it could be written
nap show stats.nap:mean --stage all""",
        "naperian.commands:show",
        (
            _PLACE,
            Argument("--stage", "surface, core, ainf, loops, llvm, … or `all`", default="core"),
            _JSON,
        ),
    ),
    Command(
        "explain",
        "print a definition with every lift written as a comprehension",
        """\
nap explain stats.nap:softmax
nap explain stats.nap:softmax --loops      also: what is stored, what runs in parallel, and why""",
        "naperian.commands:explain",
        (_PLACE, Argument("--loops", "also say what is stored and parallel, and why", flag=True),
         Argument("--parallel", "only say which loops are parallel, and why", flag=True), _JSON),
    ),
    Command(
        "repl",
        "talk to the language line by line",
        """\
nap repl
nap repl stats.nap                         with a file's definitions
echo 'sum(i for i in Fin(10))' | nap repl""",
        "naperian.repl:run",
        (Argument("file", "a .nap file to start from", nargs="?"),),
    ),
    Command(
        "test",
        "run the `>>>` examples of .nap docstrings and the claims of Markdown pages",
        """\
nap test                                   everything below this directory
nap test stats.nap docs/
nap test docs/tour.md --accept             rewrite what the pages claim to what is true""",
        "naperian.commands:test",
        (
            Argument("paths", "files or directories", nargs="*"),
            Argument("--accept", "rewrite false claims of pages to what is true", flag=True),
            _JSON,
        ),
    ),
    Command(
        "build",
        "compile a file to a shared library with a C header, or to a Python wheel",
        """\
nap build stats.nap                        libstats.so, stats.h, manifest.json and an example
nap build stats.nap --out lib --precision f32 --target baseline
nap build stats.nap --wheel                a package that needs NumPy alone""",
        "naperian.build:run",
        (
            Argument("file", "the .nap file"),
            Argument("--out", "the directory for what is made", default="."),
            Argument("--name", "what the library is called (the file's name)"),
            Argument("--precision", "what `Float` stands for: f64 or f32", default="f64"),
            Argument("--target", "native, avx2 or baseline (native; of a wheel avx2)"),
            Argument("--wheel", "also make a Python wheel", flag=True),
            _JSON,
        ),
    ),
    Command(
        "doctor",
        "say what was found on this machine, and whether it works",
        "nap doctor\nnap doctor --json",
        "naperian.doctor:run",
        (_JSON,),
    ),
    Command(
        "demo",
        "blur, find edges in and equalise a photograph; pictures go to ./nap-demo",
        """\
nap demo
nap demo --photo holiday.jpg --out pictures""",
        "naperian.demo:run",
        (
            Argument("--photo", "another photograph"),
            Argument("--out", "the directory for the pictures", default="nap-demo"),
            _JSON,
        ),
        needs=(("PIL", "Pillow"), ("matplotlib", "Matplotlib")),
    ),
)


class _Parser(argparse.ArgumentParser):
    """Complains in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = _Parser(
        prog="nap",
        description="Naperian: a typed, differentiable array language for NumPy users.",
        epilog="`nap COMMAND --help` has examples.",
    )
    top.add_argument("--version", action="version", version=f"naperian {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            epilog="examples:\n" + "\n".join(f"  {e}" for e in command.examples.splitlines()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(command=command)
        for a in command.arguments:
            if a.flag:
                sub.add_argument(a.name, help=a.help, action="store_true")
            else:
                sub.add_argument(a.name, help=a.help, nargs=a.nargs, default=a.default)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line; the exit code."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        if isinstance(stream, io.TextIOWrapper):  # `é` on a terminal that has no such letter
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _answered(sys.argv[1:] if argv is None else list(argv))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # the reader has left (`nap … | head`): nothing more can be said, also not by the
        # interpreter when it flushes at the end
        _discard(sys.stdout, sys.stderr)
        return OK
    except OSError as e:
        _discard(sys.stdout)
        say(f"nap: {e.strerror or e}" + (f": {e.filename}" if e.filename else ""))
        return USAGE


def _discard(*streams: TextIO | None) -> None:
    for stream in filter(None, streams):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _answered(argv: list[str]) -> int:
    top = parser()
    as_json = "--json" in argv
    try:
        if not argv:
            top.print_help()
            return OK
        return perform(top.parse_args(argv))
    except UsageError as e:
        say(f"nap: {e}")
        return USAGE
    except CompileError as e:
        report(e.diagnostics, as_json)
        return WRONG
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except OSError:
        raise
    except Exception as e:
        say(our_bug(e))
        return BROKEN


def perform(options: argparse.Namespace) -> int:
    """Import the module that carries out the command, and let it."""
    command: Command = options.command
    if missing := [name for module, name in command.needs if find_spec(module) is None]:
        raise UsageError(
            f"`nap {command.name}` needs {' and '.join(missing)}: pip install 'naperian[demo]',"
            " or '.[demo]' where its source is"
        )
    action: Callable[[argparse.Namespace], int] = pkgutil.resolve_name(command.action)
    return action(options)


def our_bug(e: BaseException) -> str:
    """One sentence for a mistake of ours: what, where, and what to do; the traceback on request."""
    if os.environ.get("NAPERIAN_TRACEBACK"):
        return "".join(traceback.format_exception(e))
    frames = [f for f in traceback.extract_tb(e.__traceback__) if "naperian" in f.filename]
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = str(e).splitlines()[0] if str(e) else "no message"
    return (
        f"nap: internal error{where} ({type(e).__name__}: {what[:200]}). {REPORT};"
        " NAPERIAN_TRACEBACK=1 shows where it happened."
    )


# ---------------------------------------------------------------- what is said


def say(text: str) -> None:
    """A line on stderr, if there is one."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def report(diagnostics: Sequence[Diagnostic], as_json: bool = False) -> None:
    """Diagnostics on stderr; with `--json` as a document on stdout."""
    if as_json:
        emit({"ok": False, "diagnostics": [as_data(d) for d in diagnostics]})
    else:
        say(paint("\n\n".join(render(d) for d in diagnostics), sys.stderr))


def emit(data: object) -> None:
    """A JSON document on stdout."""
    print(json.dumps(data, indent=2))


def as_data(d: Diagnostic) -> dict[str, object]:
    """A diagnostic for other programs; lines and columns count from 1."""
    return {
        "code": d.code,
        "severity": d.severity,
        "message": d.message,
        "labels": [
            {
                "file": label.span.source.name,
                "start": label.span.source.position(label.span.start),
                "end": label.span.source.position(label.span.end),
                "text": label.text,
            }
            for label in d.labels
        ],
        "notes": list(d.notes),
        "helps": list(d.helps),
    }


_STYLES = (
    (re.compile(r"^(error\[\w+\])", re.MULTILINE), "1;31"),
    (re.compile(r"^(warning\[\w+\])", re.MULTILINE), "1;33"),
    (re.compile(r"^( *-->.*)$", re.MULTILINE), "34"),
    (re.compile(r"^ +\| *(?:-+ .*)?(\^+)", re.MULTILINE), "1;31"),
    (re.compile(r"^ *(= (?:note|help):)", re.MULTILINE), "36"),
)


def paint(text: str, stream: TextIO | None) -> str:
    """The rendered text in colours, if the stream is a terminal and `NO_COLOR` is not set."""
    if os.environ.get("NO_COLOR") or stream is None or not stream.isatty():
        return text
    for pattern, style in _STYLES:
        text = pattern.sub(partial(_styled, style), text)
    return text


def _styled(style: str, found: re.Match[str]) -> str:
    return found[0].replace(found[1], f"\x1b[{style}m{found[1]}\x1b[0m", 1)
