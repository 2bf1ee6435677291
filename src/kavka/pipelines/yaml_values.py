"""YAML files of a project, rules of alerts and cases of tests: reading, and checks of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def yaml_documents(path: Path | str, *, error: type[ValueError] = ValueError) -> list[Any]:
    """Read the documents of a file. Raise `error`, with the path, for one that is no YAML in UTF-8, and OSError."""
    import yaml

    with yaml_errors(path, error):
        return list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))


@contextmanager
def yaml_errors(path: Path | str, error: type[Exception]) -> Iterator[None]:
    """Raise `error`, with the path, where a file that is read is no YAML in UTF-8."""
    import yaml

    try:
        yield
    except yaml.YAMLError as found:
        raise error(f"{path} is not valid YAML: {' '.join(str(found).split())}") from found
    except UnicodeDecodeError as found:
        raise error(f"{path} is not UTF-8 at byte {found.start}") from found
    except RecursionError as found:
        raise error(f"{path} nests values too deeply") from found


def mapping_of(
    value: Any, name: str, allowed: Sequence[str] = (), *, error: type[ValueError] = ValueError
) -> Mapping[str, Any]:
    """Return a mapping with texts as keys; `name` is the value's name in messages.

    Raise `error` for another type, and for keys other than `allowed`, if any are given.
    """
    if not isinstance(value, Mapping):
        raise error(f"{name} is not a mapping, but {type(value).__name__}")
    for key in value:
        if allowed and key not in allowed:
            raise error(f"{name} has no {key!r}; it may have {', '.join(allowed)}")
    return {str(key): item for key, item in value.items()}


def list_of(value: Any, name: str, *, error: type[ValueError] = ValueError) -> Sequence[Any]:
    """Return a list; `name` is the value's name in messages. Raise `error` for another type."""
    if not isinstance(value, list):
        raise error(f"{name} is no list, but {type(value).__name__}")
    return value
