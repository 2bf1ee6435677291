"""YAML whose mappings and lists know their lines, so that a mistake is said with its place. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kavka.console.formats import is_text
from kavka.console.sentences import Sentence, say

_MOST_VALUES: Final = 20_000


class Problem(NamedTuple):
    """A mistake in a file, at a line from 1."""

    line: int
    sentence: Sentence


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

    loader = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        return None if node is None else _Values(loader).of(node, ())
    except BadYaml:
        raise
    except RecursionError:
        raise BadYaml(Problem(1, say("not valid YAML: it is nested too deeply"))) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        sentence = say("not valid YAML: {reason}", reason=reason)
        raise BadYaml(Problem(mark.line + 1 if mark else 1, sentence)) from error
    finally:
        if loader is not None:
            loader.dispose()


class _Values:
    """Makes the values of nodes, at most so many: aliases of aliases would be without number."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._left = _MOST_VALUES

    def of(self, node: Any, above: tuple[int, ...]) -> Any:
        """Return the value of a node below others. Raise BadYaml."""
        import yaml

        line = node.start_mark.line + 1
        self._left -= 1
        if id(node) in above:
            raise BadYaml(Problem(line, say("not valid YAML: an anchor that holds itself")))
        above = (*above, id(node))
        if len(above) > 20:
            raise BadYaml(Problem(line, say("not valid YAML: it is nested too deeply")))
        if self._left < 0:
            raise BadYaml(
                Problem(
                    line,
                    say(
                        "it has more than {most:,} values, with those of aliases", most=_MOST_VALUES
                    ),
                )
            )
        if isinstance(node, yaml.MappingNode):
            return self._section(node, line, above)
        if isinstance(node, yaml.SequenceNode):
            items = Items()
            for item in node.value:
                items.append(self.of(item, above))
                items.lines.append(item.start_mark.line + 1)
            return items
        return self._plain(node, line)

    def _section(self, node: Any, line: int, above: tuple[int, ...]) -> Section:
        section = Section()
        section.line = line
        for key_node, value_node in node.value:
            key = str(self._plain(key_node, line))
            key_line = key_node.start_mark.line + 1
            if key in section:
                raise BadYaml(Problem(key_line, say("{key!r} stands twice", key=key)))
            section[key] = self.of(value_node, above)
            section.lines[key] = key_line
        return section

    def _plain(self, node: Any, line: int) -> Any:
        try:
            value = self._loader.construct_object(node, deep=True)
        except (AttributeError, LookupError) as error:
            raise BadYaml(
                Problem(line, say("not valid YAML: a value does not fit its tag"))
            ) from error
        except (ValueError, OverflowError) as error:
            raise BadYaml(Problem(line, say("not valid YAML: {reason}", reason=error))) from error
        if isinstance(value, str) and not is_text(value):
            raise BadYaml(Problem(line, say("not valid YAML: a text has half of a character")))
        return value
