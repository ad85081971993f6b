"""What the short commands do: run, check, show, explain, test. Each gives the exit code."""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import naperian as nap
from naperian import cli, pages, trial, values
from naperian.ainf.words import NotWrittenError
from naperian.core.derived import KINDS
from naperian.frontend.messages.report import plural
from naperian.program import listing, source_of
from naperian.session import RESULT, Session
from naperian.source import CompileError


def run(options: argparse.Namespace) -> int:
    """`nap run file [name] [args…]`, or `nap run file:name [args…]`"""
    started = time.perf_counter()
    file, colon, name = options.file.rpartition(":")
    if colon and file.endswith(".nap"):
        texts = [] if options.name is None else [options.name, *options.args]
    else:
        file, name, texts = options.file, options.name, options.args
    function = _derived(nap.load(file), name or None, file)
    given = [_argument(text, file) for text in texts]
    args = [value for key, value in given if key is None]
    named = {key: value for key, value in given if key is not None}
    ready = time.perf_counter()
    try:  # a document on stdout is the only thing there
        with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
            result = function(*args, **named)
    except Exception as e:
        if not nap.at_border(e):
            raise
        if options.json:
            cli.emit({"ok": False, "error": type(e).__name__, "message": str(e)})
        else:
            cli.say(f"{type(e).__name__}: {e}")
        return cli.WRONG
    done = time.perf_counter()
    if options.save:
        _save(options.save, result)
    if options.json:
        cli.emit({"ok": True, "value": values.as_data(result), "seconds": done - ready})
    elif not options.save and not (isinstance(result, tuple) and not result):
        print(values.show(result))
    if options.time:
        cli.say(f"loaded in {ready - started:.3f} s, compiled and run in {done - ready:.3f} s")
    return cli.OK


def _chosen(module: nap.Module, name: str | None, file: str) -> nap.Function:
    """The definition of this name; without one, `main` or the only definition."""
    names = module.names
    if name is None:
        name = "main" if "main" in names else names[0] if len(names) == 1 else None
    if name in names:
        return module[name]
    if not names:
        raise cli.UsageError(f"{file} defines nothing that could be run")
    listed = "\n".join(f"  {n} : {module[n].type}" for n in names)
    if name is None:
        raise cli.UsageError(f"which definition of {file}?\n{listed}")
    close = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean `{close[0]}`?" if close else f". There are\n{listed}"
    raise cli.UsageError(f"{file} has no definition `{name}`{hint}")


def _argument(text: str, file: str) -> tuple[str | None, Any]:
    """`x.npy`, a literal, or an expression in the program's own terms; maybe with `name=`."""
    name, equals, rest = text.partition("=")
    if equals and name.isidentifier() and not rest.startswith(("=", ">")):
        return name, _argument(rest, file)[1]
    if text.endswith(".npy"):
        try:
            return None, np.load(text, allow_pickle=False)
        except OSError as e:
            raise cli.UsageError(f"cannot read the array {text}: {e.strerror or e}") from None
        except (ValueError, EOFError) as e:
            with open(text, "rb") as start:
                plain = start.read(6) == b"\x93NUMPY"
            why = str(e) if plain else "it is no file of `np.save`"
            raise cli.UsageError(f"cannot read the array {text}: {why}") from None
    try:
        return None, values.literal(text)
    except ValueError:
        draft = Session.of(source_of(file)).draft(text, "<argument>")
        try:
            return None, nap.compile(draft.source.text, draft.source.name)[RESULT]()
        except CompileError as e:
            raise draft.explained(e) from None


def _save(path: str, result: Any) -> None:
    try:
        if path.endswith(".npz"):
            np.savez(path, *(result if isinstance(result, tuple) else (result,)))
        elif isinstance(result, tuple):
            raise cli.UsageError("the result is a tuple: save it to a .npz file")
        else:
            np.save(path, result)
    except OSError as e:
        raise cli.UsageError(f"cannot write {path}: {e.strerror}") from None


def check(options: argparse.Namespace) -> int:
    """`nap check file…`, `file:name…`, and with `--grad`"""
    if options.grad:
        return _tried(options)
    reports: list[dict[str, Any]] = []
    for place in options.files:
        head, _, name = place.rpartition(":")
        file = head if head.endswith(".nap") else place
        entry: dict[str, Any] = {"file": file, "ok": True, "diagnostics": [], "types": {}}
        reports.append(entry)
        try:
            module = nap.load(file)
        except CompileError as e:
            entry |= {"ok": False, "diagnostics": [cli.as_data(d) for d in e.diagnostics]}
            if not options.json:
                cli.report(e.diagnostics)
            continue
        names = module.names if file == place else [_chosen(module, name, file).__name__]
        entry["types"] = {n: module[n].type for n in names}
        if not options.json:
            for name, signature in entry["types"].items():
                print(f"{name} : {signature}")
    if options.json:
        cli.emit(reports)
    return cli.OK if all(r["ok"] for r in reports) else cli.WRONG


def doc(options: argparse.Namespace) -> int:
    """`nap doc`, `nap doc linalg`, `nap doc solve`, `nap doc file.nap`"""
    name = options.name or "std"
    if name.endswith(".nap"):
        module = nap.load(name)
        for n in module.names:
            said, _, more = (module[n].__doc__ or "").partition("\n\n")
            print(said)
            if more:
                print(f"    {' '.join(more.split()).partition('. ')[0].rstrip('.')}.")
    else:
        library = listing()
        every = [x for module in library.values() for x in module]
        found = library.get(name) or [x for x in every if name in (x.name, x.short)]
        if not found:
            near = difflib.get_close_matches(name, [*library, *(x.short for x in every)], 1)
            hint = f"; is it `{near[0]}`?" if near else ""
            raise cli.UsageError(f"the library has no `{name}`{hint}")
        for x in found:
            print(x)
    return cli.OK


def _tried(options: argparse.Namespace) -> int:
    """`nap check --grad file…`: calls what can be called, with arguments drawn from its type."""
    found: list[trial.Checked] = []
    for place in options.files:
        if place.rpartition(":")[0].endswith(".nap"):
            chosen = [_definition(place)]
        else:
            module = nap.load(place)
            every = [module[n] for n in module.names]
            chosen = [f for f in every if trial.can_be_tried(f)]
        for f in chosen:
            try:
                found.append(trial.check(f, progress=_progress()))
            except TypeError as e:
                if trial.can_be_tried(f):
                    raise
                raise cli.UsageError(str(e)) from None
            if not options.json:
                print(found[-1])
    if options.json:
        cli.emit([c.as_data() for c in found])
    return cli.OK if all(found) else cli.WRONG


def _progress() -> trial.Progress | None:
    """A line on the terminal that says how far long work is."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    started = time.perf_counter()

    def told(name: str, done: int, cases: int) -> None:
        if done == cases:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.perf_counter() - started > 0.5:
            line = f"\r\x1b[K{name}: {done} of {cases} cases"
            print(line, end="", file=sys.stderr, flush=True)

    return told


def _definition(place: str) -> nap.Function:
    """`file.nap:name`; or `file.nap`, for `main` or the only definition."""
    file, _, name = (place if ":" in place else f"{place}:").rpartition(":")
    if not file.endswith(".nap"):
        raise cli.UsageError(f"`{place}` should be file.nap:name")
    return _derived(nap.load(file), name or None, file)


def _differentiated(place: str) -> nap.Function | None:
    """What a derivative is one of: `f.nap:loss` of `f.nap:grad(loss)`."""
    file, _, name = place.rpartition(":")
    found = _DERIVED.fullmatch(name)
    return _definition(f"{file}:{found[2]}") if found is not None else None


_DERIVED = re.compile(r"(\w+)\((.*?)(?:, *wrt=(.*))?\)")


def _derived(module: nap.Module, name: str | None, file: str) -> nap.Function:
    """A definition, or a derivative of one: `grad(loss)`, `grad(loss, wrt="w")`."""
    found = _DERIVED.fullmatch(name) if name is not None else None
    if found is None:
        return _chosen(module, name, file)
    kind, inner, wrt = found.groups()
    if kind not in KINDS:
        raise cli.UsageError(f"`{name}`: the derivatives are {', '.join(KINDS)}")
    f = _derived(module, inner, file)
    try:
        chosen = 0 if wrt is None else _parameters(ast.parse(wrt, mode="eval").body)
        made: nap.Function = getattr(nap, kind)(f, chosen)
    except SyntaxError:
        raise cli.UsageError(f'`{name}`: write wrt="w", or wrt=("w", "b")') from None
    except (TypeError, ValueError) as e:
        raise cli.UsageError(str(e)) from None
    return made


def _parameters(e: ast.expr) -> object:
    """What is differentiated by, as it is written: a name, which a shell may have taken the quotes
    from, a number, or several."""
    match e:
        case ast.Name(name):
            return name
        case ast.Tuple(items) | ast.List(items):
            return tuple(map(_parameters, items))
        case ast.Constant(value):
            return value
        case _:
            raise SyntaxError


def show(options: argparse.Namespace) -> int:
    """`nap show file:name --stage …`"""
    function = _definition(options.place)
    if options.stage != "all" and options.stage not in nap.STAGES:
        raise cli.UsageError(
            f"no stage `{options.stage}`; there are {', '.join(nap.STAGES)} and all"
        )
    stages = nap.STAGES if options.stage == "all" else [options.stage]
    try:
        texts = {stage: function.show(stage) for stage in stages}
    except NotWrittenError as e:
        raise cli.UsageError(f"`{options.place}` cannot be written in the language: {e}") from None
    except TypeError as e:
        raise cli.UsageError(str(e)) from None
    if options.json:
        cli.emit({"definition": options.place, "stages": texts})
    elif len(texts) == 1:
        print(*texts.values())
    else:
        print("\n\n".join(f"# {stage}\n{text}" for stage, text in texts.items()))
    return cli.OK


def explain(options: argparse.Namespace) -> int:
    """`nap explain file:name`"""
    function = _definition(options.place)
    text = function.explain()
    try:
        notes = list(function.notes) if options.loops or options.parallel else []
    except TypeError as e:
        raise cli.UsageError(str(e)) from None
    costs = list(function.account) if options.loops else []
    whose = _differentiated(options.place) if options.loops else None
    beside = list(whose.account) if whose is not None else []
    if options.parallel:
        text, notes = "", [n for n in notes if n.startswith("loop over")]
    if options.json:
        told = {"definition": options.place, "text": text, "notes": notes, "account": costs}
        if whose is not None:
            told |= {"of": {"definition": whose.__name__, "account": beside}}
        cli.emit(told)
    else:
        if text:
            print(text)
        for note in [*notes, *costs]:
            print(f"# {note}")
        if whose is not None:
            print(f"# beside it, `{whose.__name__}` itself:")
        for cost in beside:
            print(f"#   {cost}")
    return cli.OK


def test(options: argparse.Namespace) -> int:
    """`nap test [paths…]`"""
    wrong: list[pages.Difference] = []
    files = _testable([Path(p) for p in options.paths or ["."]])
    for file in files:
        text = source_of(str(file)).text
        try:
            if file.suffix == ".nap":
                wrong += pages.check_docstrings(str(file), text)
                continue
            if options.accept and (true := pages.accept(text, file.parent)) != text:
                file.write_text(true, encoding="utf-8")
                text = true
            wrong += pages.check(str(file), text, file.parent)
        except pages.PageError as e:
            wrong.append(pages.Difference(str(file), 1, "page", "", str(e)))
    if options.json:
        cli.emit(
            {
                "files": [str(f) for f in files],
                "failures": [
                    {"file": d.path, "line": d.line, "said": d.said, "true": d.true} for d in wrong
                ],
            }
        )
    else:
        tally = f"{plural(len(files), 'file')}, {plural(len(wrong), 'failure')}"
        print("\n\n".join([*map(str, wrong), tally]))
    return cli.WRONG if wrong else cli.OK


def _testable(paths: list[Path]) -> list[Path]:
    """The .nap and .md files among and below the paths."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(
                f
                for f in path.rglob("*")
                if f.suffix in (".nap", ".md")
                and not any(part.startswith(".") for part in f.relative_to(path).parts)
            )
        elif path.exists():
            found.append(path)
        else:
            raise cli.UsageError(f"no such file or directory: {path}")
    return found
