"""YAML whose mappings and lists know their lines, so that a mistake is said with its place. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple


class Problem(NamedTuple):
    """A mistake in a file, at a line from 1."""

    line: int
    sentence: str


class Section(dict[str, Any]):
    """A mapping; `lines` are those of its keys."""

    line = 0

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self.lines: dict[str, int] = {}

    def line_of(self, key: str) -> int:
        """Return the line of a key, of the mapping where it has none."""
        return self.lines.get(key, self.line)


class Items(list[Any]):
    """A list; `lines` are those of its items."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self.lines: list[int] = []


class BadYaml(ValueError):
    """The text is not valid YAML."""

    def __init__(self, problem: Problem) -> None:
        """Take the mistake."""
        super().__init__(problem.sentence)
        self.problem = problem


def located(text: str) -> Any:
    """Return the document of a text: `Section`, `Items` and plain values. Raise BadYaml."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _value(loader, node, ())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise BadYaml(Problem(mark.line + 1 if mark else 1, f"not valid YAML: {reason}")) from error
    finally:
        loader.dispose()


def _value(loader: Any, node: Any, above: tuple[int, ...]) -> Any:
    import yaml

    line = node.start_mark.line + 1
    if id(node) in above:
        raise BadYaml(Problem(line, "not valid YAML: an anchor that holds itself"))
    above = (*above, id(node))
    if len(above) > 20:
        raise BadYaml(Problem(line, "not valid YAML: it is nested too deeply"))
    if isinstance(node, yaml.MappingNode):
        section = Section()
        section.line = line
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node, deep=True))
            key_line = key_node.start_mark.line + 1
            if key in section:
                raise BadYaml(Problem(key_line, f"{key!r} stands twice"))
            section[key] = _value(loader, value_node, above)
            section.lines[key] = key_line
        return section
    if isinstance(node, yaml.SequenceNode):
        items = Items()
        for item in node.value:
            items.append(_value(loader, item, above))
            items.lines.append(item.start_mark.line + 1)
        return items
    return loader.construct_object(node, deep=True)
