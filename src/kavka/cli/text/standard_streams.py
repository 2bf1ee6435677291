"""Standard streams that are closed, or have a closed other end, or a full disk behind them."""

from __future__ import annotations

import codecs
import errno
import fcntl
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a write to standard output when the disk or its quota is full."""


class _Nowhere(io.FileIO):
    """Standard output that the caller has closed: it takes everything, and knows whether anything came."""

    was_written = False

    def write(self, content: Any, /) -> int:
        """Discard bytes."""
        self.was_written = True
        return super().write(content)


def open_closed_streams() -> None:
    """Open `/dev/null` where the caller closed a standard stream, so that no file or socket gets its number."""
    mode_of = ("r", "w", "w")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = os.O_WRONLY if number else os.O_RDONLY
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            # They are open as long as the process.
            setattr(sys, name, _nowhere() if number == 1 else open(number, mode_of[number]))  # noqa: SIM115


def print_anything() -> None:
    """Make standard output take any text: what its encoding lacks is escaped, bytes of the command line stay."""
    codecs.register_error("kavka", _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="kavka")


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what stands for the first character that cannot be written, and the place behind it."""
    if isinstance(error, UnicodeDecodeError):
        return codecs.lookup_error("surrogateescape")(error)
    assert isinstance(error, UnicodeEncodeError)
    character, following = error.object[error.start], error.start + 1
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), following
    return character.encode("ascii", "backslashreplace").decode(), following


def _nowhere() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(_Nowhere(1, "w", closefd=False)), encoding="utf-8")


def is_output_lost() -> bool:
    """Return whether something was printed although the caller has closed standard output."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, _Nowhere) and raw.was_written


def is_output_failure(error: BaseException) -> bool:
    """Return whether an exception is about our own output: its reader has gone, or its disk is full."""
    if isinstance(error, BrokenPipeError):
        return True
    return isinstance(error, OSError) and error.errno in _DISK_FULL and error.filename is None


def drop_output() -> None:
    """Discard what is left for standard output, which the interpreter would try to write again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def watched_reader(loop: asyncio.AbstractEventLoop, gone: Callable[[], object]) -> Iterator[None]:
    """Call `gone` once when the other end of a pipe at standard output is closed, though nothing is written then.

    Other kinds of output say it when they are written to.
    """
    number = _pipe_number()
    if number is None:
        yield
        return

    def call() -> None:
        loop.remove_reader(number)
        gone()

    # It is never readable; without readers it is ready with an error.
    loop.add_reader(number, call)
    try:
        yield
    finally:
        loop.remove_reader(number)


def is_reader_gone() -> bool:
    """Return whether standard output is a pipe whose other end is closed, though nothing was written since."""
    number = _pipe_number()
    if number is None:
        return False
    pipe = select.poll()
    pipe.register(number, 0)
    return any(events & select.POLLERR for _, events in pipe.poll(0))


def _pipe_number() -> int | None:
    """Return the descriptor of standard output if that is the end of a pipe that can only be written to."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # it is a buffer in memory
        return None
    is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
    is_for_writing = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    return number if is_pipe and is_for_writing else None
