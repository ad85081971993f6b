"""The REPL as a person meets it: in a terminal, with line editing, Tab and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")
pytest.importorskip("readline")

PROMPT = "nap> "
SLOW = "def slow(k: Int) = sum(sin(1.0 * i) for i in Fin(k))"


class Terminal:
    """A REPL on the other side of a pseudo-terminal."""

    def __init__(self, home: Path) -> None:
        self.seen = ""
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.environ.update(HOME=str(home), TERM="xterm", INPUTRC="/dev/null")
            os.execv(sys.executable, [sys.executable, "-m", "naperian", "repl"])

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def until(self, pattern: str, seconds: float = 30) -> str:
        """What is printed up to and with the pattern."""
        limit = time.monotonic() + seconds
        while (found := re.search(pattern, self.seen)) is None:
            ready, _, _ = select.select([self.end], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"{pattern!r} did not come, but {self.seen!r}"
            self.seen += self._read()
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text

    def _read(self) -> str:
        try:
            text = os.read(self.end, 65536).decode()
        except OSError:  # the other side is closed
            text = ""
        assert text, f"the REPL has left after {self.seen!r}"
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", text)

    def enter(self, *lines: str) -> str:
        """The answer to an entry of these lines."""
        for line in lines:
            self.type(line + "\n")
        return self.until(rf"\n{PROMPT}")

    def left(self) -> int:
        """The exit code."""
        with contextlib.suppress(OSError):
            while os.read(self.end, 65536):
                pass
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    made.until(PROMPT)
    yield made
    os.close(made.end)
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(made.child, signal.SIGKILL)
        os.waitpid(made.child, 0)


def test_entries_of_several_lines_and_history(terminal: Terminal) -> None:
    assert "3" in terminal.enter("1 + 2")
    assert "f : Float -> Float" in terminal.enter(
        "def f(x: Float) -> Float:", "    y = 2.0 * x", "    y + 1.0", ""
    )
    assert "7.0" in terminal.enter("f(3.0)")
    terminal.type("\x1b[A")  # up
    assert "7.0" in terminal.enter("")
    terminal.type("\x04")
    assert terminal.left() == 0


def test_history_is_kept_for_the_next_session(terminal: Terminal, tmp_path: Path) -> None:
    terminal.enter("40 + 2")
    terminal.type(":quit\n")
    assert terminal.left() == 0
    again = Terminal(tmp_path)
    again.until(PROMPT)
    again.type("\x1b[A\x1b[A")
    assert "42" in again.enter("")
    again.type("\x04")
    assert again.left() == 0
    os.close(again.end)


def test_tab_completes_and_indents(terminal: Terminal) -> None:
    terminal.type("softm\t")
    terminal.until("softmax")
    assert "[1.]" in terminal.enter("([0.0])")
    assert "g : Float -> Float" in terminal.enter("def g(x: Float) -> Float:", "\tx + x", "")


def test_ctrl_c_drops_what_is_typed(terminal: Terminal) -> None:
    terminal.type("1 + (2")
    terminal.until(r"\(2")
    time.sleep(0.2)  # CPython's line editor sees no Ctrl-C while it echoes a key, only between two
    terminal.type("\x03")
    assert terminal.until(rf"\n{PROMPT}").endswith(f"\ninterrupted\n{PROMPT}")
    assert "5" in terminal.enter("2 + 3")


@pytest.mark.parametrize("command", ["", ":time "])
def test_ctrl_c_stops_a_long_loop_within_a_second(terminal: Terminal, command: str) -> None:
    terminal.enter(SLOW)
    terminal.enter("slow(10)")
    terminal.type(f"{command}slow(100000000000)\n")
    time.sleep(0.5)
    start = time.monotonic()
    terminal.type("\x03")
    assert "interrupted" in terminal.until(rf"\n{PROMPT}")
    assert time.monotonic() - start < 3  # a second, on a machine that has nothing else to do
    assert "5" in terminal.enter("2 + 3")


def test_mistakes_point_at_the_entry(terminal: Terminal) -> None:
    answer = terminal.enter("1 + nope")
    assert "1 | 1 + nope" in answer
    assert "^^^^ not defined" in answer
    assert "-> Float" in terminal.enter("lambda x: 2.0 * x")
