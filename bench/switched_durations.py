"""`kavka`, with a broker that stops measuring the durations of requests at SIGUSR1 and begins again at SIGUSR2.

Two processes of one program differ by some percent of CPU for as long as they live, by where their objects lie in
memory; one process that is switched shows less than that.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from kavka.broker.requests.responses import Responses
from kavka.cli.main import main


def switched_command(*arguments: str) -> list[str]:
    """Return the command line of such a broker."""
    return [sys.executable, str(Path(__file__).resolve()), *arguments]


def _run() -> int:
    made: list[Any] = []
    begin = Responses.__init__

    def begin_and_note(self: Responses, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        made.append(self)

    def switch(number: int, _frame: object) -> None:
        for responses in made:
            responses._records_times = number == signal.SIGUSR2

    Responses.__init__ = begin_and_note  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, switch)
    signal.signal(signal.SIGUSR2, switch)
    return main()


if __name__ == "__main__":
    sys.exit(_run())
