"""Groups: the list, one group, setting its offsets back or forward, and its deletion."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

from kavka.client.admin.admin import Admin
from kavka.client.admin.groups import GroupDescription, GroupListing
from kavka.client.admin.offset_resets import NoCommittedOffset, ResetTo, plan_reset
from kavka.console.failures import Failure, Refused, bad_request, not_found
from kavka.console.pages.brokers import SEARCH
from kavka.console.pages.topics import PAGE, describe
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import say
from kavka.console.subject import Action, Outcome, Page, Services
from kavka.console.views.brokers import unanswered
from kavka.console.views.groups import (
    GroupList,
    GroupRow,
    GroupView,
    Lags,
    group_row,
    group_view,
    matching_groups,
)
from kavka.console.views.paging import paged
from kavka.console.views.resets import (
    SCENARIOS,
    PlannedOffset,
    ResetPlan,
    planned_offset,
    totals,
)
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition

_GROUPS_OF_A_PAGE = 25

ID = Parameter("id", "text", say("The id of the group."), required=True)


# The list


async def _load_list(services: Services, arguments: Arguments) -> GroupList:
    search, state = arguments.text("search"), arguments.text("state")
    failures: dict[BrokerId, Exception] = {}
    groups = await _listings(services, failures)
    chosen, paging = paged(
        matching_groups(groups, search, state), arguments.number("page"), _GROUPS_OF_A_PAGE
    )
    rows = await asyncio.gather(*(_row(services, listing) for listing in chosen))
    return GroupList(
        rows=list(rows),
        paging=paging,
        total=len(groups),
        search=search,
        state=state,
        states=sorted({group.state for group in groups if group.state}),
        unanswered=unanswered(failures, say("the groups that it coordinates are missing")),
    )


async def _listings(services: Services, failures: dict[BrokerId, Exception]) -> list[GroupListing]:
    """Return the groups of the brokers that answer; `failures` gets the others. Raise where none answers."""
    part_ms = services.cluster.options.part_ms
    return await services.cluster.ask(
        lambda admin: admin.list_groups(timeout_ms=part_ms, failures=failures)
    )


async def _row(services: Services, listing: GroupListing) -> GroupRow:
    """Return a row; a group whose coordinator or leaders do not answer in time has the reason in it."""
    group_id, part_ms = listing.group_id, services.cluster.options.part_ms

    async def ask(admin: Admin) -> tuple[GroupDescription | Exception, Lags | Exception]:
        described = (await admin.describe_groups([group_id], timeout_ms=part_ms))[group_id]
        if isinstance(described, OSError):
            return described, described
        try:
            committed = await admin.list_group_offsets(group_id, timeout_ms=part_ms)
            positions = {key: value.offset for key, value in committed.items()}
            return described, await admin.lags(positions, timeout_ms=part_ms) if positions else {}
        except (KafkaError, OSError) as error:
            return described, error

    try:
        described, lags = await services.cluster.ask(ask)
    except OSError as error:  # a list of such groups takes all calls
        described, lags = error, error
    return group_row(listing, described, lags)


# One group


async def _load_group(services: Services, arguments: Arguments) -> GroupView:
    group = await _describe(services, arguments.text("id"))

    async def ask(admin: Admin) -> GroupView:
        committed = await admin.list_group_offsets(group.group_id)
        lags = await admin.lags({k: v.offset for k, v in committed.items()}) if committed else {}
        return group_view(group, committed, lags)

    view = await services.cluster.ask(ask)
    if group.state == "Dead" and not view.partitions:
        raise not_found(
            say("There is no group {group_id!r}.", group_id=group.group_id),
            say("Look at the list."),
        )
    return view


async def _listed(services: Services, group: GroupDescription) -> GroupDescription:
    """Return a group with the state of the list: DescribeGroups knows none of the protocols of KIP-848 and KIP-932."""
    listings = await _listings(services, {})  # its coordinator has just answered
    states = {listing.group_id: listing.state for listing in listings}
    return group._replace(state=states.get(group.group_id) or group.state)


async def _describe(services: Services, group_id: str) -> GroupDescription:
    found = (await services.cluster.ask(lambda admin: admin.describe_groups([group_id])))[group_id]
    if isinstance(found, Exception):
        raise found
    return await _listed(services, found) if found.state == "Dead" else found


# Its offsets


async def _plan(services: Services, arguments: Arguments, *, required: bool) -> ResetPlan:
    group = await _describe(services, arguments.text("id"))
    scenario, topic = arguments.text("scenario"), arguments.text("topic")
    committed = await services.cluster.ask(lambda admin: admin.list_group_offsets(group.group_id))
    current = {key: value.offset for key, value in committed.items()}
    rows: list[PlannedOffset] = []
    if scenario:
        keys = [key for key in current if not topic or key.topic == topic]
        if topic and not keys:
            described = await describe(services, topic)
            keys = [TopicPartition(topic, part.partition) for part in described.partitions]
        rows = await _planned(services, arguments, scenario, keys, current)
    elif required:
        listed = ", ".join(SCENARIOS)
        raise bad_request(say("scenario is missing; it is one of: {listed}.", listed=listed))
    again, skipped = totals(rows)
    return ResetPlan(
        group_id=group.group_id,
        state=group.state,
        topics=sorted({key.topic for key in current}),
        rows=rows,
        again=again,
        skipped=skipped,
        can_be_reset=group.state in ("Empty", "Dead"),
        is_planned=bool(scenario),
    )


async def _planned(
    services: Services,
    arguments: Arguments,
    scenario: str,
    keys: list[TopicPartition],
    current: dict[TopicPartition, int],
) -> list[PlannedOffset]:
    to, value = ResetTo(scenario), _value(scenario, arguments)
    try:
        plans = await services.cluster.ask(
            lambda admin: plan_reset(admin, sorted(keys), to, value, committed=current)
        )
    except NoCommittedOffset as error:
        text = say("{error} that could be shifted: choose another scenario.", error=error)
        raise bad_request(text) from error
    return [planned_offset(plan, current.get(plan.topic_partition)) for plan in plans]


def _value(scenario: str, arguments: Arguments) -> int:
    """Return the number that a scenario needs: a time, an offset, or a number of records."""
    if scenario == "time":
        value, missing = (
            arguments.time_ms("time"),
            say("time is missing: the time from which on to read."),
        )
    elif scenario in ("offset", "shift"):
        value, missing = (
            arguments.integer("value"),
            say("Give a number: the offset, or by how many records."),
        )
    else:
        return 0
    if value is None:
        raise bad_request(missing)
    return value


async def _load_reset(services: Services, arguments: Arguments) -> ResetPlan:
    return await _plan(services, arguments, required=False)


async def _reset(services: Services, arguments: Arguments) -> Outcome:
    plan = await _plan(services, arguments, required=True)
    if not plan.can_be_reset:
        raise Refused(
            Failure(
                409,
                say("The group has members"),
                say(
                    "Offsets of {group_id!r} were not changed: it is {state}, and its members would "
                    "commit their own over them.",
                    group_id=plan.group_id,
                    state=plan.state,
                ),
                say("Stop its members, and try again when it is empty."),
            )
        )
    if not plan.rows:
        raise bad_request(say("The plan is empty: the group has no offsets. Name a topic."))
    wanted = {TopicPartition(row.topic, row.partition): row.new for row in plan.rows}
    outcomes = await services.cluster.ask(
        lambda admin: admin.alter_group_offsets(plan.group_id, wanted)
    )
    refused = [error for error in outcomes.values() if error is not None]
    if refused:
        raise refused[0]
    count = len(wanted)
    return Outcome(
        say(
            "{count} offset{s} of {group_id} were set {scenario}.",
            count=count,
            s="" if count == 1 else "s",
            group_id=plan.group_id,
            scenario=SCENARIOS[arguments.text("scenario")],
        ),
        "/group?" + urlencode({"id": plan.group_id}),
    )


# Delete


async def _delete(services: Services, arguments: Arguments) -> Outcome:
    group_id = arguments.text("id")
    group = await _load_group(services, arguments)
    if not group.can_be_reset:
        raise Refused(
            Failure(
                409,
                say("The group has members"),
                say(
                    "The group {group_id!r} was not deleted: it is {state}.",
                    group_id=group_id,
                    state=group.state,
                ),
                say("Stop its members, and try again when it is empty."),
            )
        )
    typed = arguments.text("confirm")[:250]
    refusal = say(
        "The group was not deleted: the confirmation is {typed!r}, not its id.", typed=typed
    )
    arguments.confirm(group_id, refusal, say("delete it"))
    await services.change(group_id, lambda admin: admin.delete_groups([group_id]))
    return Outcome(
        say("Group {group_id} was deleted, with its offsets.", group_id=group_id), "/groups"
    )


_DELETE = Page(
    path="/group/delete",
    summary="What deleting a group would remove, and the form to do it.",
    template="group_delete.html",
    view=GroupView,
    load=_load_group,
    parameters=(ID, Parameter("confirm", "text", "For a change: the id of the group, typed.")),
)
_RESET = Page(
    path="/group/reset",
    summary="What setting the offsets of a group would change: a dry run.",
    template="group_reset.html",
    view=ResetPlan,
    load=_load_reset,
    parameters=(
        ID,
        Parameter(
            "scenario",
            "choice",
            "Where to: earliest, latest, time, offset, or shift by a number of records.",
            "",
            ("", *SCENARIOS),
        ),
        Parameter("topic", "text", "Only this topic; empty: all of which the group has offsets."),
        Parameter(
            "time",
            "time",
            "For time: ISO 8601 (UTC without an offset), or milliseconds since 1970.",
        ),
        Parameter(
            "value",
            "integer",
            "For offset: the offset; for shift: a number of records, back if negative.",
        ),
    ),
)

PAGES = (
    Page(
        path="/groups",
        summary="The groups with their state, members and lag.",
        template="groups.html",
        view=GroupList,
        load=_load_list,
        parameters=(SEARCH, Parameter("state", "text", "Only groups in this state."), PAGE),
    ),
    Page(
        path="/group",
        summary="One group with its members, assignment, and lag by partition in records and in seconds.",
        template="group.html",
        view=GroupView,
        load=_load_group,
        parameters=(ID,),
    ),
    _RESET,
    _DELETE,
)
ACTIONS = (
    Action(_RESET, "Set the offsets of a group without members, as the dry run shows.", _reset),
    Action(_DELETE, "Delete a group without members; `confirm` is its id.", _delete),
)
