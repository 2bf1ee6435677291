"""Rules of alerts, changed in the page: one is made, changed or deleted in the file of rules."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from kavka.console.alerts import rule_file
from kavka.console.alerts.channels import SEVERITIES
from kavka.console.alerts.conditions import CONDITIONS, Condition
from kavka.console.alerts.editing import FIELDS, CannotEdit, entry_of, fields_of, rule_in
from kavka.console.alerts.located import BadYaml
from kavka.console.alerts.rule_file import ChangedMeanwhile, HasMistakes
from kavka.console.failures import Failure, Refused, bad_request, not_found
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import Sentence, say
from kavka.console.subject import Action, Outcome, Page, Services

_LIST: Final = "/alerts/rules"


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A condition that a rule can watch; `side` is above, below, either, or empty for one without a threshold."""

    name: str
    summary: Sentence
    subjects: str
    measure: str
    side: str
    default: float | None


@dataclass(frozen=True, slots=True)
class RuleForm:
    """The form for a rule; without a `path` the rules are the default ones, and none can be changed."""

    path: str
    rule: str
    """The name that it has in the file; empty for a new one."""
    version: str
    """The file's digest, which a change has to name: it is refused when the file has changed since."""
    fields: dict[str, str]
    conditions: list[ConditionView]
    channels: list[str]
    severities: list[str]


def _condition_view(one: Condition) -> ConditionView:
    sides = {True: "above", False: "below", None: "either"}
    side = "" if one.measure == "flag" else sides[one.is_above]
    default = None if one.measure == "flag" else one.default
    return ConditionView(one.name, one.summary, one.subjects, one.measure, side, default)


def _fields(arguments: Arguments) -> dict[str, str]:
    return {field: arguments.text(field) for field in FIELDS}


async def _load(services: Services, arguments: Arguments) -> RuleForm:
    return await _form(services, arguments.text("rule"), _fields(arguments))


async def _load_delete(services: Services, arguments: Arguments) -> RuleForm:
    return await _form(services, arguments.text("rule"), {})


async def _form(services: Services, name: str, given: dict[str, str]) -> RuleForm:
    """Return the form of a rule, with what was given where a form is shown again."""
    alerts, version, fields = services.alerts, "", given
    if alerts.path is not None:
        text, version = await _read(alerts.path)
        if name and not given.get("alert"):
            fields = fields_of(_rule(text, name))
    return RuleForm(
        path=str(alerts.path or ""),
        rule=name,
        version=version,
        fields=fields,
        conditions=[_condition_view(one) for one in CONDITIONS.values()],
        channels=list(alerts.rules.channels),
        severities=list(SEVERITIES),
    )


async def _read(path: Path) -> tuple[str, str]:
    try:
        return await asyncio.to_thread(rule_file.read, path)
    except CannotEdit as error:
        raise _cannot(error.sentence) from error
    except OSError as error:
        raise _cannot(_reason(error)) from error


def _rule(text: str, name: str) -> Mapping[str, Any]:
    try:
        found = rule_in(text, name)
    except BadYaml as error:
        raise _cannot(error.problem.sentence) from error
    if found is None:
        raise not_found(
            say("The file of rules has no rule {name!r}.", name=name), say("Look at the list.")
        )
    return found


def _reason(error: OSError) -> Sentence:
    return say("it cannot be read or written: {reason}", reason=error.strerror or str(error))


def _cannot(reason: Sentence) -> Refused:
    return Refused(
        Failure(
            422,
            say("The file of rules was not changed"),
            say("{fault}.", fault=reason),
            say("Edit the file itself: it is read again when it has changed."),
        )
    )


async def _edit(
    services: Services, arguments: Arguments, name: str, entry: Mapping[str, Any] | None
) -> None:
    """Change a rule in the file, and take the file again. Raise Refused."""
    alerts, check = services.alerts, entry is not None and arguments.flag("check")
    if alerts.path is None:
        raise bad_request(
            say("The console was started without --rules, so there is no file to change."),
            say("Save the default rules as a file, and start it with --rules FILE."),
        )
    try:
        await alerts.edit(arguments.text("version"), name, entry, check=check)
    except ChangedMeanwhile as error:
        raise Refused(
            Failure(
                409,
                say("The file of rules has changed meanwhile"),
                say("It was changed since this form was opened, so nothing was written."),
                say("Open the form again: it shows the rule as it is now."),
            )
        ) from error
    except CannotEdit as error:
        raise _cannot(error.sentence) from error
    except HasMistakes as error:
        raise _mistakes(error) from error
    except OSError as error:
        raise _cannot(_reason(error)) from error


def _mistakes(error: HasMistakes) -> Refused:
    first, more = error.problems[0].sentence, len(error.problems) - 1
    said = say("{fault}.", fault=first)
    if more:
        said = say("{reason}, and {more} more.", reason=first, more=more)
    return Refused(
        Failure(
            422,
            say("The file of rules would have mistakes"),
            said,
            say("Nothing was written. Correct the rule, or the file itself, and try again."),
        )
    )


async def _save(services: Services, arguments: Arguments) -> Outcome:
    name, entry = arguments.text("rule"), entry_of(_fields(arguments))
    await _edit(services, arguments, name, entry)
    alert = str(entry.get("alert", ""))
    if arguments.flag("check"):
        # With the version: a file that changes before the next step is not written.
        filled = {"rule": name, "version": arguments.text("version"), **_fields(arguments)}
        query = urlencode({field: text for field, text in filled.items() if text})
        message = say("The rule {alert} is right; nothing was written.", alert=alert)
        return Outcome(message, f"/alerts/rule?{query}")
    if name:
        return Outcome(say("The rule {alert} was changed.", alert=alert), _LIST)
    return Outcome(say("The rule {alert} was added.", alert=alert), _LIST)


async def _delete(services: Services, arguments: Arguments) -> Outcome:
    name = arguments.text("rule")
    refusal = say("The rule was not deleted: the confirmation is not its name.")
    arguments.confirm(name, refusal, say("delete it"))
    await _edit(services, arguments, name, None)
    return Outcome(say("The rule {alert} was deleted, and its alerts end.", alert=name), _LIST)


_VERSION = Parameter("version", "text", "For a change: `version` of the form that was looked at.")
_RULE = Page(
    path="/alerts/rule",
    summary="The form for a rule of alerts: a new one, or one of the file.",
    template="alert_rule.html",
    view=RuleForm,
    load=_load,
    parameters=(
        Parameter("rule", "text", "The name of the rule that is changed; empty: a new one."),
        _VERSION,
        Parameter("alert", "text", "Its name from now on."),
        Parameter("watch", "text", "The condition."),
        Parameter("subjects", "text", "Groups, topics …, one a line, with * and ?; empty: all."),
        Parameter("above", "text", "The threshold: a number, 85%, 5m."),
        Parameter("below", "text", "The threshold, where low values are bad."),
        Parameter("clear", "text", "The value at which the alert ends; empty: the threshold."),
        Parameter("for", "text", "How long it has to be beyond the threshold, such as 2m."),
        Parameter("clear_for", "text", "How long it has to be clear."),
        Parameter("severity", "choice", "Its severity.", "", ("", *SEVERITIES)),
        Parameter("advice", "text", "What to do; empty: the condition's advice."),
        Parameter("channels", "text", "Channels, one a line; empty: all."),
        Parameter("repeat", "text", "How often it is sent again while it fires, such as 4h."),
        Parameter("check", "flag", "Only check whether the file would be right.", "false"),
    ),
)
_DELETE = Page(
    path="/alerts/rule/delete",
    summary="What deleting a rule of alerts would remove, and the form to do it.",
    template="alert_rule_delete.html",
    view=RuleForm,
    load=_load_delete,
    parameters=(
        Parameter("rule", "text", say("The name of the rule."), required=True),
        _VERSION,
        Parameter("confirm", "text", "The name of the rule, typed."),
    ),
)
PAGES = (_RULE, _DELETE)
ACTIONS = (
    Action(_RULE, "Make or change a rule in the file of rules, or only check it.", _save),
    Action(_DELETE, "Delete a rule from the file of rules; `confirm` is its name.", _delete),
)
