"""Functions written at run time, whose source shows in tracebacks and debuggers.

The codec writes a flat function per message and version, the declarations write constructors. Each is
compiled on first use and put into `linecache`, as a file of its own.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any


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
