"""One rule of a file of rules is added, replaced or removed in its text; all other lines stay as they are. Pure.

Comments within a rule that is replaced are lost. What comes out is read again: a file that would then say anything else
than what was wanted is refused, so a form of YAML that is not known here cannot spoil it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kavka.console.alerts.conditions import CONDITIONS
from kavka.console.alerts.located import BadYaml, Items, Section, located
from kavka.console.sentences import Sentence, say

_NUMBER: Final = re.compile(r"\d{1,15}(\.\d{1,15})?")
_LINE_ENDS: Final = frozenset("\n\x85\u2028\u2029")
"""Characters that end a line of YAML."""
_AMOUNTS: Final = ("above", "below", "clear", "for", "clear_for", "repeat")
FIELDS: Final = (
    "alert",
    "watch",
    "subjects",
    *_AMOUNTS[:5],
    "severity",
    "advice",
    "channels",
    _AMOUNTS[5],
)
"""The fields of a rule in a form; `subjects` has the name that its condition gives them in the file."""


class CannotEdit(ValueError):
    """The file cannot be edited; the sentence says why."""

    def __init__(self, sentence: Sentence) -> None:
        """Take the reason."""
        super().__init__(sentence)
        self.sentence = sentence


def entry_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a rule as the file has it, of the texts of a form; names stand one a line, empty fields are left out."""
    condition = CONDITIONS.get(fields.get("watch", ""))
    entry: dict[str, Any] = {}
    for field in FIELDS:
        # A browser sends each end of a line as CR LF.
        text = fields.get(field, "").replace("\r\n", "\n").strip()
        if not text:
            continue
        if field in ("subjects", "channels"):
            names = [line.strip() for line in text.splitlines() if line.strip()]
            # A condition without subjects has a mistake then, which the checker says.
            key = field if field == "channels" else (condition and condition.subjects) or "groups"
            entry[key] = names
        elif field in _AMOUNTS and _NUMBER.fullmatch(text):
            entry[field] = float(text) if "." in text else int(text)
        else:
            entry[field] = text
    return entry


def fields_of(rule: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a form, of a rule of the file."""
    condition = CONDITIONS.get(str(rule.get("watch", "")))
    keys = {"subjects": condition.subjects if condition else ""}
    return {field: _text(rule.get(keys.get(field, field))) for field in FIELDS}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return "" if value is None else str(value)


def rule_in(text: str, name: str) -> Section | None:
    """Return a rule of a file by its name. Raise BadYaml."""
    document = located(text)
    rules = document.get("rules") if isinstance(document, Section) else None
    found = (one for one in rules or () if isinstance(one, Section) and one.get("alert") == name)
    return next(found, None) if isinstance(rules, Items) else None


def edited(text: str, name: str, entry: Mapping[str, Any] | None) -> str:
    """Return a file with a rule replaced, with a new one where `name` is empty, without it where there is no entry.

    Raise CannotEdit.
    """
    try:
        before = located(text)
        place = _place(before, name)
        made = _edited(text, place, entry)
        after = located(made)
    except BadYaml as error:
        raise CannotEdit(error.problem.sentence) from error
    wanted = _changed(
        list(before.get("rules") or []), place, [] if entry is None else [dict(entry)]
    )
    if after is None or {**after, "rules": None} != {**before, "rules": None}:
        raise _unknown_form()
    if list(after.get("rules") or []) != wanted:
        raise _unknown_form()
    return made


def _changed(items: list[Any], place: int | None, new: list[Any]) -> list[Any]:
    """Return items with new ones in the place of one, or behind the last."""
    if place is None:
        return items + new
    return items[:place] + new + items[place + 1 :]


def _unknown_form() -> CannotEdit:
    return CannotEdit(say("the form of its YAML is not one that can be edited here"))


def _place(document: Any, name: str) -> int | None:
    """Return the number of a rule, None for a new one. Raise CannotEdit where there is no such rule."""
    rules = document.get("rules") if isinstance(document, Section) else None
    if not isinstance(document, Section) or not isinstance(rules, Items | None):
        raise _unknown_form()
    if not name:
        return None
    for number, one in enumerate(rules or ()):
        if isinstance(one, Section) and one.get("alert") == name:
            return number
    raise CannotEdit(say("it has no rule {name!r}", name=name))


def _edited(text: str, place: int | None, entry: Mapping[str, Any] | None) -> str:
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pair = next((pair for pair in root.value if pair[0].value == "rules"), None)
    if pair is None:
        raise _unknown_form()
    key, value = pair
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = [] if entry is None else _lines_of(entry)
    if isinstance(value, yaml.SequenceNode) and value.value and not value.flow_style:
        return _in_block(text, value.value, place, lines, line_end)
    items = value.value if isinstance(value, yaml.SequenceNode) else []
    if "#" in _between(text, value, items):  # a comment, which would be lost
        raise _unknown_form()
    blocks = [[text[one.start_mark.index : one.end_mark.index]] for one in items]
    blocks = _changed(blocks, place, [lines] if lines else [])
    indent = key.start_mark.column + 2
    made = "".join(line_end + _indented(block, indent, line_end) for block in blocks)
    begin = text[: key.end_mark.index] + ":"
    return begin + (made or " []") + text[value.end_mark.index :].lstrip(":")


def _between(text: str, whole: Any, items: list[Any]) -> str:
    """Return the text of a list without its items."""
    ends = [whole.start_mark.index, *(one.end_mark.index for one in items)]
    starts = [*(one.start_mark.index for one in items), whole.end_mark.index]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _in_block(text: str, items: list[Any], place: int | None, lines: list[str], end: str) -> str:
    """Return a text with a list of lines that begin with `-` changed."""
    item = items[-1 if place is None else place]
    dash = text.rfind("-", 0, item.start_mark.index)
    column = dash - (text.rfind("\n", 0, dash) + 1)
    made = _indented(lines, column, end) if lines else ""
    last = text.find("\n", _end_of(item, text))
    after = len(text) if last < 0 else last + 1
    if place is None:
        lead = "" if text[:after].endswith("\n") else end
        return text[:after] + lead + made + end + text[after:]
    begin = dash - column
    return text[:begin] + (made + end if made else "") + text[after:]


def _end_of(node: Any, text: str) -> int:
    """Return where the text of a node ends: a block says the beginning of what follows it."""
    if isinstance(node.value, list) and not node.flow_style and node.value:
        child = node.value[-1]
        # The value of an alias is where its anchor is; its key is in its own line.
        parts = child if isinstance(child, tuple) else (child,)
        return max(_end_of(part, text) for part in parts)
    end = int(node.end_mark.index)
    return len(text[:end].rstrip())


def _lines_of(entry: Mapping[str, Any]) -> list[str]:
    """Return a rule with a field in each line; a text of several lines stands as it is below its key."""
    return [line for key, value in entry.items() for line in _lines_of_field(key, value)]


def _lines_of_field(key: str, value: Any) -> list[str]:
    import yaml

    style = _style_of(value) if isinstance(value, str) else ""
    is_flow = None if isinstance(value, list) else False
    dumped: str = yaml.safe_dump(
        value if style else {key: value},
        default_style=style or None,
        default_flow_style=is_flow,
        allow_unicode=True,
        width=1 << 20,
    )
    return (f"{key}: {dumped}" if style else dumped).removesuffix("\n").split("\n")


def _style_of(text: str) -> str:
    """Return the style of YAML for a text with ends of lines, those of Unicode escaped; empty without any."""
    found = _LINE_ENDS.intersection(text)
    return "" if not found else "|" if found == {"\n"} else '"'


def _indented(lines: list[str], column: int, end: str) -> str:
    first, *others = lines
    space = " " * column
    return end.join([f"{space}- {first}", *(f"{space}  {line}" if line else "" for line in others)])
