"""Every field of every request in every version at its extremes.

Each is answered with Kafka's error codes, or the connection is closed where the bytes cannot be decoded.
"""

from __future__ import annotations

import pytest

from kavka.wire.apis import ApiKey
from kavka.wire.messages.heartbeat import HeartbeatResponse
from kavka_fuzz.extremes import Extreme, Verdict, not_understood, send_all, understood
from kavka_fuzz.recipes import Recipe, served_versions
from kavka_fuzz.target import Target

pytestmark = pytest.mark.fuzz


def what_is_wrong(target: Target, verdicts: list[Verdict], outcome: str) -> list[str]:
    """Return those with another outcome, those that the broker has no word for, and the tracebacks of its log."""
    found = [f"{v.outcome}: {v.extreme}" for v in verdicts if v.outcome != outcome]
    found += [f"UNKNOWN_SERVER_ERROR: {v.extreme}" for v in verdicts if v.is_unknown_error]
    return found + target.tracebacks()


def test_extremes_that_can_be_understood_are_answered_without_an_unknown_error(
    target: Target,
) -> None:
    faults: list[str] = []
    for api, version in served_versions():
        verdicts = send_all(target, list(understood(api, version)))
        faults += what_is_wrong(target, verdicts, "answered")
    assert not faults, "\n".join(faults)
    target.check()


def test_text_that_is_no_utf_8_and_null_where_none_may_be_close_the_connection(
    target: Target,
) -> None:
    faults: list[str] = []
    for api, version in served_versions():
        verdicts = [send_all(target, [each])[0] for each in not_understood(api, version)]
        faults += what_is_wrong(target, verdicts, "closed")
    assert not faults, "\n".join(faults)
    target.check()


def test_judge_sees_an_unknown_error_and_a_closed_connection(target: Target) -> None:
    extreme = Extreme(Recipe(ApiKey.HEARTBEAT, 0, 0), "nothing", "plausible")
    unknown = Verdict(extreme, "answered", HeartbeatResponse(error_code=-1))
    closed = Verdict(extreme, "closed")
    found = what_is_wrong(target, [unknown, closed], "answered")
    assert found == [
        "closed: Heartbeat v0 nothing=plausible",
        "UNKNOWN_SERVER_ERROR: Heartbeat v0 nothing=plausible",
    ]
