"""The sides of the comparison, and Java programs that drive them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from kavka_compat.apache import SHIPPED_TOOL
from kavka_compat.artifacts import cache_directory, jars, java
from kavka_compat.word_count import compile_java

SIDES = ("apache", "kavka")
_LIBRARIES = "streams-4.1"


def java_program(source: Path) -> list[str]:
    """Return the command that runs a Java program with Apache Kafka's clients; compile it when its text is new."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = cache_directory(_LIBRARIES) / f"classes-{digest}"
    if not (classes / f"{source.stem}.class").exists():
        compile_java(_LIBRARIES, classes, source)
    path = ":".join(map(str, [classes, *jars(_LIBRARIES)]))
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java(), *SHIPPED_TOOL, logging, "-cp", path, source.stem]
