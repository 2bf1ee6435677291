"""Alerts: what fires, the rules, the history, silences, and tests of channels."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from kavka.console.alerts import records
from kavka.console.alerts.rules import without_channels
from kavka.console.alerts.views import (
    AlertHistory,
    AlertList,
    ChannelTest,
    RuleList,
    SilenceEnd,
    SilenceForm,
    alert_view,
    channel_views,
    delivery_view,
    problem_texts,
    rule_view,
    silence_view,
    window_view,
)
from kavka.console.failures import bad_request
from kavka.console.pages.topics import PAGE
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.paging import paged
from kavka.settings.durations import duration_ms

_EVENTS_OF_A_PAGE: Final = 50
_ALERTS_OF_A_PAGE: Final = 100
_SHOWN_DELIVERIES: Final = 20
_LONGEST_SILENCE_MS: Final = 90 * 86_400_000


async def _load_list(services: Services, arguments: Arguments) -> AlertList:
    alerts = services.alerts
    messages = await alerts.outbox.of_channels()
    current = alerts.current()
    firing = [state.severity for _, state, _ in current if state.phase == "firing"]
    shown, paging = paged(current, arguments.number("page"), _ALERTS_OF_A_PAGE)
    return AlertList(
        alerts=[alert_view(*one) for one in shown],
        paging=paging,
        firing=len(firing),
        worst="critical" if "critical" in firing else "warning" if firing else "ok",
        silences=[silence_view(one) for one in alerts.silences],
        channels=channel_views(alerts.rules, messages),
        rules=len(alerts.rules.rules),
        problems=problem_texts(alerts.problems),
        note=services.history.note,
    )


async def _load_rules(services: Services, arguments: Arguments) -> RuleList:
    alerts = services.alerts
    firing: dict[str, int] = {}
    for key, state, _ in alerts.current():
        firing[key.rule] = firing.get(key.rule, 0) + (state.phase == "firing")
    now_s = time.time()
    return RuleList(
        path=str(alerts.path or ""),
        text=without_channels(alerts.text),
        rules=[
            rule_view(rule, alerts.rules, firing.get(rule.name, 0)) for rule in alerts.rules.rules
        ],
        windows=[window_view(one, now_s) for one in alerts.rules.windows],
        problems=problem_texts(alerts.problems),
    )


async def _load_history(services: Services, arguments: Arguments) -> AlertHistory:
    incident = arguments.text("incident")
    page = arguments.number("page")
    found, paging = await services.history.run(
        lambda file: records.events(file, page, _EVENTS_OF_A_PAGE, incident)
    )
    sent = await services.history.run(lambda file: records.deliveries(file, _SHOWN_DELIVERIES))
    return AlertHistory(found, paging, incident, [delivery_view(one) for one in sent])


# Silences


async def _load_silence(services: Services, arguments: Arguments) -> SilenceForm:
    return SilenceForm([rule.name for rule in services.alerts.rules.rules])


async def _silence(services: Services, arguments: Arguments) -> Outcome:
    text = arguments.text("for").strip()
    length_ms = 0
    with suppress(ValueError):
        length_ms = duration_ms(text)
    if not 60_000 <= length_ms <= _LONGEST_SILENCE_MS:
        raise bad_request(
            say("for is {text!r}, not a time from 1m to 90d such as 2h.", text=text[:100])
        )
    alert, subject = arguments.text("alert").strip(), arguments.text("subject").strip()
    until_s = int(time.time()) + length_ms // 1000
    await services.alerts.silence(
        alert, subject or "*", until_s, arguments.text("comment").strip()[:500]
    )
    return Outcome(
        say(
            "Alerts {alert} of {subject} are silenced for {text}.",
            alert=alert,
            subject=subject or "*",
            text=text,
        ),
        "/alerts",
    )


async def _load_end(services: Services, arguments: Arguments) -> SilenceEnd:
    number = arguments.text("id")
    found = next((one for one in services.alerts.silences if one.id == number), None)
    return SilenceEnd(None if found is None else silence_view(found))


async def _end_silence(services: Services, arguments: Arguments) -> Outcome:
    await services.alerts.end_silence(arguments.text("id"))
    return Outcome(say("The silence has ended."), "/alerts")


# Tests


async def _load_test(services: Services, arguments: Arguments) -> ChannelTest:
    views = channel_views(services.alerts.rules, {})
    return ChannelTest(next((one for one in views if one.name == arguments.text("channel")), None))


async def _test(services: Services, arguments: Arguments) -> Outcome:
    name = arguments.text("channel")
    answer = await services.alerts.test(name)
    return Outcome(
        say("The channel {name} took the test: {answer}.", name=name, answer=answer), "/alerts"
    )


_SILENCE = Page(
    path="/alerts/silence",
    summary="Silence alerts for a time.",
    template="alert_silence.html",
    view=SilenceForm,
    load=_load_silence,
    parameters=(
        Parameter("alert", "text", "The rule; * and ? stand for other characters.", "*"),
        Parameter("subject", "text", "The group, topic or broker; * and ? as above.", "*"),
        Parameter("for", "text", "How long, from 1m to 90d.", "2h"),
        Parameter("comment", "text", "The reason."),
    ),
)
_END = Page(
    path="/alerts/end-silence",
    summary="End a silence.",
    template="alert_end_silence.html",
    view=SilenceEnd,
    load=_load_end,
    parameters=(Parameter("id", "text", say("The id of the silence."), required=True),),
)
_TEST = Page(
    path="/alerts/test",
    summary="Send a test through a channel.",
    template="alert_test.html",
    view=ChannelTest,
    load=_load_test,
    parameters=(Parameter("channel", "text", say("The name of the channel."), required=True),),
)
PAGES = (
    Page(
        path="/alerts",
        summary="The alerts that fire or are pending, silences, and channels.",
        template="alerts.html",
        view=AlertList,
        load=_load_list,
        parameters=(PAGE,),
    ),
    Page(
        path="/alerts/rules",
        summary="The rules of alerts, and the times of maintenance.",
        template="alert_rules.html",
        view=RuleList,
        load=_load_rules,
    ),
    Page(
        path="/alerts/history",
        summary="The beginnings and ends of alerts in the last 30 days, and the newest messages.",
        template="alert_history.html",
        view=AlertHistory,
        load=_load_history,
        parameters=(Parameter("incident", "text", "One alert only, by its id."), PAGE),
    ),
    _SILENCE,
    _END,
    _TEST,
)
ACTIONS = (
    Action(page=_SILENCE, summary="Silence alerts for a time.", act=_silence),
    Action(page=_END, summary="End a silence.", act=_end_silence),
    Action(page=_TEST, summary="Send a test through a channel.", act=_test),
)
