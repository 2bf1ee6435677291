"""Functions compiled at run time, with source that tracebacks and debuggers show.

The codec writes a flat function per message and version, the declarations write constructors. Each is
compiled on first use and put into `linecache`, as a file of its own.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any


class Source:
    """The lines of a function that is being written, and the objects that it refers to by name."""

    def __init__(self) -> None:
        """Begin without lines."""
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self._lines.append("    " * self._depth + text)

    def block(self, opening: str) -> Source:
        """Add a line that opens a block; `with source.block("if n < 0:"):` writes its body."""
        self.line(opening)
        self._depth += 1
        return self

    def __enter__(self) -> None:
        """Enter the block that was just opened."""

    def __exit__(self, *exception: object) -> None:
        """Close the innermost block."""
        self._depth -= 1

    def variable(self, stem: str) -> str:
        """Return a name that nothing else in the function has."""
        self._variables += 1
        return f"{stem}_{self._variables}"

    def refer(self, name: str, value: object) -> str:
        """Bind `name` to `value` in the generated function; the same name must mean the same value."""
        assert self.names.setdefault(name, value) == value, f"{name} means two things"
        return name

    def text(self) -> str:
        """Return what was written so far."""
        return "\n".join(self._lines) + "\n"


def compile_function(
    name: str, source: str, title: str, names: dict[str, Any]
) -> Callable[..., Any]:
    """Return the function `name` that `source` defines, run with the globals `names`.

    `title` is what a traceback calls the file; the same title replaces the earlier source.
    """
    filename = f"<kavka {title}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), names)
    function: Callable[..., Any] = names[name]
    return function


def source_of(function: Callable[..., Any]) -> str:
    """Return the source that `compile_function` was given for `function`."""
    return "".join(linecache.getlines(function.__code__.co_filename))
