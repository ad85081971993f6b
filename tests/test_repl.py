"""The REPL, driven through a list of lines and through a pipe."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from naperian.frontend.builtins import BUILTINS
from naperian.frontend.general import BUILT_IN
from naperian.repl import MORE, PROMPT, Repl


def reading(*lines: str | type[BaseException]) -> Callable[[str], str]:
    """Input that gives these lines, raising where one is an exception, and then ends."""
    left = list(lines)

    def read(prompt: str) -> str:
        if not left:
            raise EOFError
        line = left.pop(0)
        if isinstance(line, str):
            return line
        raise line

    return read


@pytest.fixture
def talk(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    def run(*lines: str | type[BaseException]) -> tuple[str, str]:
        Repl(reading(*lines)).run()
        out, err = capsys.readouterr()
        return out, err

    return run


Talk = Callable[..., tuple[str, str]]


def test_values_and_definitions(talk: Talk) -> None:
    twice = "def twice(x: Float) -> Float = x + x"
    out, err = talk("1 + 2", twice, "twice(0.25)", "y = [1, 2]", "y")
    assert err == ""
    assert out.splitlines()[0] == "3"
    assert "twice : Float -> Float" in out
    assert "\n0.5\n" in out
    assert out.endswith("[1 2]\n")


def test_blocks_end_at_an_empty_line_and_brackets_when_they_close(talk: Talk) -> None:
    out, err = talk("def f(x: Int) -> Int:", "    y = x + 1", "    y * 2", "", "f(1)", "[1,", "2]")
    assert err == ""
    assert out.endswith("4\n[1 2]\n")


def test_prompts_say_whether_an_entry_goes_on() -> None:
    prompts: list[str] = []
    lines = reading("[1,", "2]")

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return lines(prompt)

    Repl(read).run()
    assert prompts == [PROMPT, MORE, PROMPT]


def test_redefinition_replaces_and_is_checked_with_the_rest(talk: Talk) -> None:
    out, err = talk("a = 1", "b = a + 1", "a = 10", "b")
    assert err == ""
    assert out.endswith("11\n")
    out, err = talk("def f(x: Int) = x", "g = f(1)", "def f(x: n=>Int) = x", "g")
    assert err.startswith("error[N0"), "g no longer checks, so the new f is refused"
    assert out.endswith("1\n")


def test_errors_show_the_entry_and_do_not_end_the_session(talk: Talk) -> None:
    out, err = talk("x = 1", "x + zz", "x")
    assert "--> <repl 2>:1:5" in err
    assert "1 | x + zz" in err
    assert out.endswith("1\n")


def test_ctrl_c_ends_the_entry_only(talk: Talk) -> None:
    out, err = talk("def f(x: Int) =", KeyboardInterrupt, "1 + 1")
    assert (out, err) == ("2\n", "interrupted\n")


def test_commands(talk: Talk, tmp_path: Path) -> None:
    assert talk(":t [1.0, 2.0]") == ("Fin(2)=>Float\n", "")
    assert talk(":type [1.0, 2.0]") == ("Fin(2)=>Float\n", "")
    out, _ = talk(":show ainf sum(x * x for x in [1.0, 2.0])")
    assert "return 5.0" in out
    out, _ = talk(":time sum(i for i in Fin(100))")
    assert out.startswith("4950\n")
    assert "a run" in out
    out, _ = talk(":help")
    assert ":load FILE" in out
    assert talk(":quit", "1") == ("", "")
    assert talk(":frob") == ("", "`:frob` is no command; `:help` lists them\n")
    file = tmp_path / "f.nap"
    file.write_text("def three() -> Int = 3\n")
    assert talk(f":load {file}", "three()")[0].endswith("3\n")


def test_what_has_no_value_is_told_in_a_sentence(talk: Talk) -> None:
    twice = "def twice(x: n=>Float) where n >= 1 = 2.0 * x"
    told = "twice : n=>Float -> n=>Float where n >= 1\n"
    assert talk(twice, "twice", ":t twice") == (2 * told + told.partition(" : ")[2], "")
    assert "def twice" in talk(twice, ":show core twice")[0]
    assert talk("lambda x: 2.0 * x") == ("<Float -> Float>\n", "")
    assert talk("zeros(10000000000000)")[1].startswith("the result of this needs 80 TB")
    out, err = talk(":show nonsense 1", "exit", "quit()", "help")
    assert out == ""
    assert err.splitlines()[0].startswith("no stage `nonsense`; there are surface, ")
    assert err.splitlines()[1:] == [
        "`:quit` leaves; so does Ctrl-D", "`:quit` leaves; so does Ctrl-D",
        "`:help` lists the commands",
    ]  # fmt: skip


def test_a_missing_file_does_not_end_the_session(talk: Talk) -> None:
    out, err = talk(":load nowhere.nap", "1")
    assert out == "1\n"
    assert "nowhere.nap" in err


def test_completion_offers_names_keywords_and_commands() -> None:
    repl = Repl(reading("def gaussian(x: Float) = x", "pixels = [1, 2]"))
    repl.run()
    assert repl.complete("gaus", 0) == "gaussian"
    assert repl.complete("pix", 0) == "pixels"
    assert repl.complete("lamb", 0) == "lambda"
    assert repl.complete(":lo", 0) == ":load"
    assert repl.complete("soft_nothing", 0) is None


def test_it_reads_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "naperian", "repl"],
        input="sum(i for i in Fin(10))\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "45\n", "")


def test_what_comes_with_the_language_has_its_general_type(talk: Talk) -> None:
    out, err = talk(":t transpose", ":t sum", "take", ":t exp", ":t Some", "def sum(x: Int) = x",
                    ":t sum")  # fmt: skip
    assert err == ""
    assert out.splitlines() == [
        "n=>m=>a -> m=>n=>a",
        "n=>a -> a where a: Num",
        "take : (Fin(n)=>a, k: Int) -> Fin(k)=>a where n >= k",
        "Float -> Float",
        "a -> Maybe(a)",
        "sum : Int -> Int",
        "Int -> Int",
    ]


def test_what_is_imported_has_its_general_type(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools.nap").write_text(
        "def best(x) = max(x)\n\ndef root(x: Float) = throw() if x < 0 else sqrt(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    out, err = talk("from tools import best, root as r", ":t best", "r", "import tools",
                    ":t tools.best", "import tools as t", ":t t.root")  # fmt: skip
    assert err == ""
    assert out.splitlines() == [
        "n=>a -> a where a: Bounded",
        "r : Float -> {Except} Float",
        "n=>a -> a where a: Bounded",
        "Float -> {Except} Float",
    ]


def test_every_built_in_function_has_a_general_type() -> None:
    assert BUILT_IN.keys() == BUILTINS.keys()
