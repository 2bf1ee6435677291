"""The interactive shell: statements that end with a semicolon, commands that begin with a backslash, completion."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from kavka.errors import KafkaError
from kavka.sql.errors import SqlError
from kavka.sql.output import FORMATS

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

    from kavka.sql.session import Session

HELP: Final = """\
\\d              topics
\\d TOPIC        columns of a topic
\\output FORMAT  table, csv or json
\\follow SELECT  rows as records arrive, until Ctrl-C
\\q              leave, as Ctrl-D
A statement ends with a semicolon. Ctrl-C ends a statement that runs."""
_SHELL_FORMATS: Final = ("table", "csv", "json")
_WORD: Final = re.compile(r'"[^"]*|[\w.\-]*')
_FROM: Final = re.compile(r'\b(?:from|join)\s+("[^"]+"|[\w.\-]+)', re.IGNORECASE)
_AFTER_FROM: Final = re.compile(r'\b(?:from|join|describe)\s+("[^"]*|[\w.\-]*)$', re.IGNORECASE)


class SqlCompleter(Completer):  # type: ignore[misc]
    """Completes topics behind FROM and JOIN, and columns, functions and keywords elsewhere."""

    def __init__(self, session: Session) -> None:
        """Query nothing before the first completion."""
        self._session = session
        self._topics: list[str] | None = None
        self._words: list[tuple[str, str]] | None = None

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what the word before the cursor may become."""
        before = document.text_before_cursor
        if before.lstrip().startswith("\\"):
            yield from self._of_command(before.lstrip())
            return
        after_from = _AFTER_FROM.search(before)
        if after_from is not None:
            yield from self._of_topics(after_from[1])
            return
        words = _WORD.findall(before)
        prefix = next((word for word in reversed(words) if word), "") if before[-1:].strip() else ""
        if not prefix or not re.search(r"[\w\"]$", before):
            return
        yield from _matching(self._candidates(document.text), prefix)

    def forget_topics(self) -> None:
        """Read the topics again at the next completion."""
        self._topics = None

    def _of_command(self, text: str) -> Iterator[Completion]:
        command, space, rest = text.partition(" ")
        if not space:
            names = ("\\d", "\\follow", "\\output", "\\q", "\\?")
            yield from _matching([(name, "") for name in names], command)
        elif command == "\\d":
            yield from self._of_topics(rest)
        elif command == "\\output":
            yield from _matching([(name, "") for name in _SHELL_FORMATS], rest)

    def _of_topics(self, prefix: str) -> Iterator[Completion]:
        if self._topics is None:
            self._topics = self._session.brokers.topics()
        bare = prefix.lstrip('"').lower()
        for topic in self._topics:
            if topic.lower().startswith(bare):
                yield Completion(
                    self._session.quoted(topic), -len(prefix), display=topic, display_meta="topic"
                )

    def _candidates(self, text: str) -> Iterable[tuple[str, str]]:
        for name in _FROM.findall(text):
            for column in self._session.known_columns(name.strip('"')):
                yield self._session.quoted(column), "column"
        if self._words is None:
            self._words = self._session.words()
        yield from self._words


def _matching(candidates: Iterable[tuple[str, str]], prefix: str) -> Iterator[Completion]:
    seen = set()
    bare = prefix.lstrip('"').lower()
    for name, meta in candidates:
        if name.strip('"').lower().startswith(bare) and name not in seen:
            seen.add(name)
            yield Completion(name, -len(prefix), display_meta=meta)


def history_file() -> Path:
    """Return where the statements of former sessions are: below XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "kavka" / "sql_history"


class Shell:
    """Reads statements and runs them, until it is left. Failures of a statement are printed."""

    def __init__(
        self,
        session: Session,
        run: Callable[[str, str], None],
        follow: Callable[[str, str], None],
        **prompt: Any,
    ) -> None:
        """Set the function that runs a statement; `prompt` are arguments of prompt_toolkit's session."""
        self._session = session
        self._run = run
        self._follow = follow
        self._output = "table"
        self._completer = SqlCompleter(session)
        self._prompt: PromptSession[str] = PromptSession(
            completer=self._completer,
            complete_in_thread=True,
            history=_history(),
            multiline=True,
            key_bindings=_keys(),
            **prompt,
        )

    def loop(self) -> int:
        """Run until the end of input or the command to leave; return the exit code."""
        print("Statements end with a semicolon; \\? is help, \\q leaves.")
        while True:
            try:
                text = self._prompt.prompt("kavka> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return 0
            if text in ("\\q", "quit", "exit", "quit;", "exit;"):
                return 0
            if text:
                self.act(text)

    def act(self, text: str) -> None:
        """Run a statement or a command."""
        try:
            self._act(text)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        except BrokenPipeError:
            raise
        except (SqlError, KafkaError, OSError) as error:
            print(error, file=sys.stderr)

    def _act(self, text: str) -> None:
        if not text.startswith("\\"):
            for statement in self._session.statements(text):
                self._run(statement, self._output)
            return
        command, _, rest = text.partition(" ")
        rest = rest.strip().rstrip(";").strip()
        match command:
            case "\\d" if rest:
                self._describe(rest.strip('"'))
            case "\\d":
                self._completer.forget_topics()
                for topic in self._session.brokers.topics():
                    print(topic)
            case "\\follow" if rest:
                self._follow(rest, self._output)
            case "\\output" if rest in _SHELL_FORMATS:
                self._output = rest
            case "\\output":
                print(f"\\output takes one of {', '.join(_SHELL_FORMATS)}", file=sys.stderr)
            case "\\?":
                print(HELP)
            case _:
                print(f"{command} is no command; \\? lists them", file=sys.stderr)

    def _describe(self, topic: str) -> None:
        name = self._session.quoted(self._session.topic_of(topic))
        self._run(f"select column_name, column_type from (describe {name})", self._output)
        print(self._session.note(self._session.topic_of(topic)))


assert set(_SHELL_FORMATS) < set(FORMATS)


def _history() -> FileHistory | InMemoryHistory:
    path = history_file()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        return FileHistory(str(path))
    return InMemoryHistory()


def _keys() -> KeyBindings:
    """Make Enter end a command, and a statement with a semicolon; elsewhere it breaks the line."""
    keys = KeyBindings()

    @keys.add("enter")  # type: ignore[untyped-decorator]
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        is_whole = (
            not text or text.endswith(";") or text.startswith("\\") or text in ("quit", "exit")
        )
        if is_whole:
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
