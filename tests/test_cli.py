"""The command `nap`: output, exit codes, and that it never shows a Python traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from naperian import __version__, cli
from naperian.source import Diagnostic, Label, Source, Span
from naperian.values import show

STATS = '''\
"""Little functions of a list of numbers."""

def mean(x: n=>Float) -> Float where n >= 1:
    """The arithmetic mean.

    >>> mean([1.0, 2.0, 6.0])
    3.0
    """
    sum(x) / n

def center(x: n=>Float) where n >= 1 = x - mean(x)

def spread(x: n=>Float) where n >= 1 = (min(x), max(x))

def pick(x: n=>Float, k: Int) -> Float:
    assert 0 <= k, "k must not be negative"
    x.get(k, 0.0)

def counts(x: n=>bins) -> bins=>Int = [sum(1 if x[i] == b else 0 for i) for b]
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stats.nap").write_text(STATS)
    (tmp_path / "bad.nap").write_text("def f(x: Int) -> Int = x + y\n")
    (tmp_path / "one.nap").write_text("def answer() -> Int = 6 * 7\n")
    return tmp_path


def nap(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, in this process."""
    code = cli.main(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_run_prints_a_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nap(capsys, "run", "one.nap") == (0, "42\n", "")
    assert nap(capsys, "run", "stats.nap", "mean", "[1.0, 2.0, 6.0]") == (0, "3.0\n", "")
    assert nap(capsys, "run", "stats.nap", "spread", "[1.0, 2.0]") == (0, "(1.0, 2.0)\n", "")


def test_run_takes_expressions_files_and_keywords(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("x.npy", np.array([1.0, 3.0]))
    assert nap(capsys, "run", "stats.nap", "center", "x.npy") == (0, "[-1.  1.]\n", "")
    code, out, _ = nap(capsys, "run", "stats.nap", "mean", "[1.0 * i for i in Fin(5)]")
    assert (code, out) == (0, "2.0\n")
    code, out, err = nap(capsys, "run", "stats.nap", "counts", "[0, 2, 2]", "bins=4")
    assert (code, out, err) == (0, "[1 0 2 0]\n", "")


def test_run_saves_and_gives_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = nap(capsys, "run", "stats.nap", "center", "[1.0, 3.0]", "--save", "y.npy")
    assert (code, out) == (0, "")
    np.testing.assert_array_equal(np.load("y.npy"), [-1.0, 1.0])
    _, out, _ = nap(capsys, "run", "stats.nap", "spread", "[1.0, 3.0]", "--json")
    assert json.loads(out)["value"] == [1.0, 3.0]
    code, _, err = nap(capsys, "run", "stats.nap", "spread", "[1.0]", "--save", "y.npy")
    assert code == 2
    assert ".npz" in err


def test_a_place_names_what_to_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.nap").write_text("def twice(x: n=>Float) -> n=>Float = 2.0 * x\n")
    assert cli.main(["run", f"{folder / 'one.nap'}:twice", "[1.0, 2.0]"]) == cli.OK
    assert capsys.readouterr().out == "[2. 4.]\n"
    assert cli.main(["show", str(folder / "one.nap"), "--stage", "surface"]) == cli.OK
    assert "def twice" in capsys.readouterr().out


def test_a_failing_run_is_a_document_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.nap").write_text("def twice(x: n=>Float) -> n=>Float = 2.0 * x\n")
    assert cli.main(["run", str(folder / "one.nap"), "twice", "1.0", "--json"]) == cli.WRONG
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["error"]) == (False, "ShapeError")
    assert "1 axis" in said["message"]


def test_a_failing_run_says_why_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = nap(capsys, "run", "stats.nap", "pick", "[1.0]", "-1")
    assert (code, out) == (1, "")
    assert "k must not be negative" in err
    code, _, err = nap(capsys, "run", "stats.nap", "mean", "[[1.0]]")
    assert code == 1
    assert "Traceback" not in err


def test_run_without_a_name_lists_the_definitions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = nap(capsys, "run", "stats.nap")
    assert code == 2
    assert "  mean : " in err
    code, _, err = nap(capsys, "run", "stats.nap", "maen")
    assert code == 2
    assert "did you mean `mean`?" in err


def test_check_prints_signatures_or_diagnostics(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = nap(capsys, "check", "one.nap")
    assert (code, out, err) == (0, "answer : Int\n", "")
    code, out, err = nap(capsys, "check", "bad.nap")
    assert (code, out) == (1, "")
    assert err.startswith("error[N0")
    assert "--> bad.nap:1:28" in err
    code, out, _ = nap(capsys, "check", "one.nap", "bad.nap", "--json")
    good, bad = json.loads(out)
    assert code == 1
    assert good["types"] == {"answer": "Int"}
    assert bad["diagnostics"][0]["labels"][0]["start"] == [1, 28]


def test_show_every_stage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = nap(capsys, "show", "stats.nap:mean", "--stage", "all")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("# ")][:1]
    code, _, err = nap(capsys, "show", "stats.nap:mean", "--stage", "molten")
    assert code == 2
    assert "ainf" in err
    code, _, err = nap(capsys, "show", "stats.nap")
    assert code == 2


@pytest.mark.parametrize("by", ["0", "x", '"x"', "(x,)", '["x"]'])
def test_what_is_differentiated_by(
    folder: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    assert cli.main(["show", f"{folder}/stats.nap:grad(mean, wrt={by})", "--stage", "ainf"]) == 0
    assert capsys.readouterr().out.startswith("def grad(mean)(n; x: F64[n]):")


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("x.y", 'write wrt="w"'),
        ("x +", 'write wrt="w"'),
        ("w", "no parameter 'w'"),
        ("1", "it has x"),
    ],
)
def test_what_cannot_be_differentiated_by(
    folder: Path, capsys: pytest.CaptureFixture[str], by: str, why: str
) -> None:
    assert cli.main(["show", f"{folder}/stats.nap:grad(mean, wrt={by})"]) == 2
    assert why in capsys.readouterr().err


def test_explain_writes_lifts_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = nap(capsys, "explain", "stats.nap:center")
    assert code == 0
    assert "for i" in out


def test_test_runs_docstrings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nap(capsys, "test", "stats.nap") == (0, "1 file, 0 failures\n", "")
    (folder / "stats.nap").write_text(STATS.replace("    3.0\n", "    4.0\n"))
    code, out, _ = nap(capsys, "test", "stats.nap")
    assert code == 1
    assert "stats.nap:3: this `example` is not so" in out


def test_usage_is_one_sentence_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["frobnicate"], ["run"], ["show", "x"], ["test", "nowhere"]):
        code, out, err = nap(capsys, *words)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit) as e:
            cli.main([command.name, "--help"])
        assert e.value.code == 0
        assert f"examples:\n  nap {command.name}" in capsys.readouterr().out


def test_a_missing_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda _: None)
    code, _, err = nap(capsys, "demo")
    assert code == 2
    assert err.startswith("nap: `nap demo` needs Pillow and Matplotlib: pip install ")
    assert len(err.splitlines()) == 1


def test_demo_agrees_with_numpy_and_writes_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = nap(capsys, "demo", "--out", str(tmp_path / "pictures"), "--json")
    told = json.loads(out)
    assert code == 0
    assert all(step["difference"] < 1e-9 for step in told["steps"].values())
    assert len(told["files"]) == 6
    assert all(Path(file).stat().st_size > 1000 for file in told["files"])


def test_our_bugs_say_so_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise RuntimeError("the frobnicator")

    monkeypatch.setattr(cli, "perform", broken)
    code, _, err = nap(capsys, "doctor")
    assert code == 70
    assert "mistake in Naperian" in err
    assert "Traceback" not in err
    monkeypatch.setenv("NAPERIAN_TRACEBACK", "1")
    assert "Traceback" in nap(capsys, "doctor")[2]


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "perform", interrupted)
    assert nap(capsys, "doctor") == (130, "", "interrupted\n")


class Terminal:
    def isatty(self) -> bool:
        return True


def test_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("f.nap", "x = y\n")
    text = cli.render(Diagnostic("N0201", "no `y`", (Label(Span(source, 4, 5), "here"),)))
    monkeypatch.delenv("NO_COLOR", raising=False)
    painted = cli.paint(text, Terminal())  # type: ignore[arg-type]
    assert "\x1b[1;31merror[N0201]\x1b[0m" in painted
    assert "\x1b[1;31m^\x1b[0m" in painted
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.paint(text, Terminal()) == text  # type: ignore[arg-type]


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = nap(capsys, "doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["naperian"] == __version__
    assert found["self-test"].startswith("passed")


def _seconds(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - start


def test_version_answers_at_once() -> None:
    """0.15 s on an idle machine; on a busy one, not much more than Python's own start, in the
    shortest of many runs by turns."""
    python = ours = float("inf")
    for _ in range(25):
        python = min(python, _seconds("-c", "import argparse, dataclasses, json"))
        ours = min(ours, _seconds("-m", "naperian", "--version"))
        if ours < 0.15 or ours < 2.5 * python:
            return
    pytest.fail(f"{ours:.3f} s, Python {python:.3f} s")


def test_version_imports_no_numpy() -> None:
    code = (
        "import sys\nfrom naperian.cli import main\n"
        "try: main(['--version'])\nexcept SystemExit: pass\n"
        "assert not {'numpy', 'llvmlite'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m naperian show stats.nap:mean --stage all | head -1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("ending", "code", "out", "err"),
    [
        ("check stats.nap >/dev/full", 2, "", "nap: No space left on device\n"),
        ("check stats.nap --json >/dev/full", 2, "", "nap: No space left on device\n"),
        ("check stats.nap >&-", 0, "", ""),
        ("check nowhere.nap 2>&-", 1, "", ""),
    ],
)
def test_streams_that_are_full_or_closed(
    folder: Path, ending: str, code: int, out: str, err: str
) -> None:
    if "/dev/full" in ending and not Path("/dev/full").exists():
        pytest.skip("a device that is always full is Linux's")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m naperian {ending}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_letters_that_the_terminal_does_not_have(folder: Path) -> None:
    name = os.fsdecode("\u0153uf\udcff.nap".encode("utf-8", "surrogateescape"))
    (folder / name).write_text("# \u00e9t\u00e9\ndef f(x: Float) = x +\n", encoding="utf-8")
    for encoding in ("ascii", "cp1252", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-m", "naperian", "check", name],
            capture_output=True, check=False, env=os.environ | {"PYTHONIOENCODING": encoding},
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith(b"error[N0101]: expected an expression")


def test_values_print_as_numpy_prints_them() -> None:
    assert show(1.0 / 3) == "0.333333"
    assert show(1e300) == "1.0e+300"
    assert show(-0.0) == "-0.0"
    assert show((1, np.array([1.5, np.nan]))) == "(1, [1.5 nan])"
    assert show(np.float32(0.1)) == "0.1"
    assert show(np.zeros((0, 3))) == "[]  # 0x3 float64"
