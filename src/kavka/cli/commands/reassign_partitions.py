"""`kavka reassign-partitions`: move partitions and replicas, as `kafka-reassign-partitions.sh` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, BadUsage, Given, Option, OptionSet
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_rows.moves import (
    cancelled_rows,
    move_rows,
    plan_row,
    started_row,
    state_rows,
)
from kavka.cli.reassignment.plans import (
    Plan,
    check_executable,
    generate,
    plan_json,
    read_brokers,
    read_plan,
    read_topics,
)
from kavka.cli.reassignment.progress import (
    assignment_of_topics,
    current_assignment,
    log_dir_lines,
    log_dir_states,
    partition_lines,
    partition_states,
)
from kavka.cli.text.failures import (
    ADMIN_COMMAND_FAILED,
    CommandFailed,
    TerseFailure,
    spelt_failure,
)
from kavka.cli.text.java_errors import spelt
from kavka.cli.text.progress import progress
from kavka.client.admin.admin import Admin
from kavka.client.admin.reassignments import Reassignment
from kavka.client.admin.replica_log_dirs import Replica
from kavka.client.admin.replication_throttles import (
    clear_broker_throttles,
    clear_topic_throttles,
    moves_of,
    throttle_log_dirs,
    throttle_moves,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.net.clock import SystemRandom

_REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_PERMITTED = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles", "wait"),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_NUMBERS = ("throttle", "replica-alter-log-dirs-throttle", "timeout")
_DEFAULT_TIMEOUT_MS = 10_000
_PAUSE_S = 0.1
_WAIT_S = 0.5

OPTIONS = OptionSet(
    "This tool helps to move topic partitions between replicas.",
    Option("verify", "Print how far --reassignment-json-file is; remove throttles when all is done."),
    Option("generate", "Print a candidate assignment. Nothing is moved."),
    Option("execute", "Begin the moves of --reassignment-json-file."),
    Option("cancel", "Stop the moves of --reassignment-json-file that are under way."),
    Option("list", "List all moves that are under way."),
    Option(
        "reassignment-json-file",
        'The moves: {"partitions": [{"topic": "foo", "partition": 1, "replicas": [1,2,3], "log_dirs": '
        '["dir1","any","any"]}], "version": 1}. "log_dirs" may be left out; "any" lets the broker choose.',
        "manual assignment json file path",
    ),
    Option(
        "topics-to-move-json-file",
        'With --generate, the topics: {"topics": [{"topic": "foo"},{"topic": "foo1"}], "version": 1}.',
        "topics to reassign json file path",
    ),
    Option("broker-list", "With --generate, the brokers to move to: 0,1,2.", "brokerlist"),
    Option("disable-rack-aware", "With --generate, do not spread replicas over racks."),
    Option(
        "throttle",
        "With --execute, bytes per second that the moves may cause between brokers; with --additional it changes that "
        "of moves under way.",
        "throttle",
    ),
    Option(
        "replica-alter-log-dirs-throttle",
        "With --execute, bytes per second that moves between the directories of a broker may take.",
        "replicaAlterLogDirsThrottle",
    ),
    Option(
        "timeout",
        "Milliseconds to wait until moves between directories have begun (10000).",
        "timeout",
    ),
    Option("additional", "With --execute, begin these moves beside those under way."),
    Option("preserve-throttles", "With --verify, --cancel: leave the throttles as they are."),
    Option("wait", "With --verify: wait until no move of the file is in progress (kavka's own)."),
    JSON,
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Run the command; 1 when it was refused."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    action = _checked(given)
    actions = {
        "generate": _generate,
        "execute": _execute,
        "verify": _verify,
        "cancel": _cancel,
        "list": _list,
    }

    async def act(admin: Admin) -> int:
        if given.has("json"):
            await actions[action](admin, given)
            return 0
        try:
            await actions[action](admin, given)
        except TerseFailure as error:
            print(error)
            return 1
        except CommandFailed as error:
            return _failed(error)
        return 0

    return with_admin(given, act, _failed)


def _failed(error: Exception) -> int:
    name, sentence = spelt_failure(error)
    print(f"Error: {sentence}\n{name}: {sentence}\n")
    return 1


def _checked(given: Given) -> str:
    chosen = [action for action in _REQUIRED if given.has(action)]
    if len(chosen) != 1:
        listed = ", ".join(f"--{action}" for action in _REQUIRED)
        raise BadUsage(f"Command must include exactly one action: {listed}")
    action = chosen[0]
    if not given.has("bootstrap-server"):
        raise BadUsage("Please specify --bootstrap-server")
    given.require(*_REQUIRED[action])
    allowed = {*_REQUIRED[action], *_PERMITTED[action]}
    for options in (*_REQUIRED.values(), *_PERMITTED.values()):
        for option in options:
            if given.has(option) and option not in allowed:
                raise BadUsage(f'Option "[{option}]" can\'t be used with action "[{action}]"')
    for option in _NUMBERS:
        given.integer(option, 64)  # before anything is moved
    return action


# What the actions do


async def _generate(admin: Admin, given: Given) -> None:
    wanted = set(read_brokers(given.text("broker-list")))
    topics = read_topics(given.text("topics-to-move-json-file"))
    current = await assignment_of_topics(admin, topics)
    brokers = [b for b in (await admin.describe_cluster()).brokers if b.broker_id in wanted]
    proposed = generate(current, brokers, not given.has("disable-rack-aware"), SystemRandom())
    if given.has("json"):
        print_rows(shapes.PLAN, [plan_row(current, proposed)])
        return
    print(f"Current partition replica assignment\n{plan_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_json(proposed)}")


async def _execute(admin: Admin, given: Given) -> None:
    say = _say_of(given)
    rate = _number(given, "throttle", -1)
    log_dir_rate = _number(given, "replica-alter-log-dirs-throttle", -1)
    plan = read_plan(given.text("reassignment-json-file"))
    check_executable(plan)
    under_way = await admin.list_partition_reassignments()
    if under_way and not given.has("additional"):
        raise TerseFailure(
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this "
            "and create a new partition assignment in addition to the existing one. The --additional flag can also "
            "be used to change the throttle by resubmitting the current reassignment."
        )
    await _check_brokers(admin, plan)
    current = await current_assignment(admin, list(plan.targets))
    if given.has("json"):
        # Before anything is changed: whatever fails from here on, there is a way back.
        print_rows(shapes.STARTED_MOVES, [started_row(current, plan, rate, log_dir_rate)])
    say(
        f"Current partition replica assignment\n\n{plan_json(current)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if rate >= 0 or log_dir_rate >= 0:
        say(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed."
        )
    if rate >= 0:
        await throttle_moves(admin, moves_of(under_way, plan.targets, current), rate)
        say(f"The inter-broker throttle limit was set to {rate} B/s")
    if log_dir_rate >= 0:
        await throttle_log_dirs(admin, plan.log_dirs, log_dir_rate)
        say(f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s")
    await _begin(admin, plan, say)
    if plan.log_dirs:
        await _move_log_dirs(admin, plan.log_dirs, given)


async def _begin(admin: Admin, plan: Plan, say: Callable[[str], None]) -> None:
    outcomes = await admin.alter_partition_reassignments(plan.targets)
    refused = _outcome_text(outcomes)
    if refused:
        raise TerseFailure(f"Error reassigning partition(s):\n{refused}")
    plural = "" if len(plan.targets) == 1 else "s"
    say(f"Successfully started partition reassignment{plural} for {_names(plan.targets)}")


async def _check_brokers(admin: Admin, plan: Plan) -> None:
    known = {broker.broker_id for broker in (await admin.describe_cluster()).brokers}
    unknown = sorted({b for replicas in plan.targets.values() for b in replicas} - known)
    if unknown:
        raise CommandFailed(ADMIN_COMMAND_FAILED, f"Unknown broker id {unknown[0]}")


async def _verify(admin: Admin, given: Given) -> None:
    plan = read_plan(given.text("reassignment-json-file"))
    if given.has("wait"):
        await _wait(admin, plan)
    states, any_moves = await partition_states(admin, plan.entries)
    log_dirs = await log_dir_states(admin, plan.log_dirs)
    if given.has("json"):
        print_rows(shapes.MOVE_STATE, state_rows(states, log_dirs))
    else:
        print("\n".join(partition_lines(states)))
        print("\n".join(log_dir_lines(log_dirs)))
    is_done = all(state.is_done for state in log_dirs.values()) and not any_moves
    if is_done and not given.has("preserve-throttles"):
        await _clear(admin, plan, _say_of(given))


async def _wait(admin: Admin, plan: Plan) -> None:
    """Wait until no move of a plan is in progress."""
    total = len(plan.targets) + len(plan.log_dirs)
    with progress("moving", total, "replicas and partitions") as shown:
        while True:
            states, _ = await partition_states(admin, plan.entries)
            log_dirs = await log_dir_states(admin, plan.log_dirs)
            done = sum(state.is_done for state in states.values())
            done += sum(state.is_done for state in log_dirs.values())
            if done == total:
                return
            shown.update(done)
            await asyncio.sleep(_WAIT_S)


async def _cancel(admin: Admin, given: Given) -> None:
    say = _say_of(given)
    plan = read_plan(given.text("reassignment-json-file"))
    under_way = await admin.list_partition_reassignments(list(plan.targets))
    moving = [
        topic_partition
        for topic_partition, move in under_way.items()
        if move.adding or move.removing
    ]
    if moving:
        refused = await admin.alter_partition_reassignments(dict.fromkeys(moving))
        count = sum(error is not None for error in refused.values())
        if count:
            plural = "" if count == 1 else "s"
            raise TerseFailure(
                f"Error cancelling partition reassignment{plural} for:\n{_outcome_text(refused)}"
            )
        plural = "" if len(moving) == 1 else "s"
        say(f"Successfully cancelled partition reassignment{plural} for: {_names(moving)}")
    else:
        say("None of the specified partition reassignments are active.")
    back = {
        replica: state.found.current
        for replica, state in (await log_dir_states(admin, plan.log_dirs)).items()
        if state.found.current is not None and not state.is_done
    }
    if back:
        await _move_log_dirs(admin, back, given)
    elif not given.has("json"):
        print("None of the specified partition moves are active.", end="")
    if given.has("json"):
        print_rows(shapes.CANCELLED_MOVE, cancelled_rows(moving, back))
    if not given.has("preserve-throttles"):
        await _clear(admin, plan, _say_of(given))


async def _list(admin: Admin, given: Given) -> None:
    moves = await admin.list_partition_reassignments()
    if given.has("json"):
        print_rows(shapes.MOVE, move_rows(moves))
        return
    if not moves:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for topic_partition, move in sorted(moves.items()):
        print(move_line(topic_partition, move))


def move_line(topic_partition: TopicPartition, move: Reassignment) -> str:
    """Return the line about a move in progress."""
    adding = f" adding: {_listed(move.adding)}." if move.adding else ""
    removing = f" removing: {_listed(move.removing)}." if move.removing else ""
    return f"{topic_partition}: replicas: {_listed(move.replicas)}.{adding}{removing}"


async def _move_log_dirs(admin: Admin, targets: Mapping[Replica, str], given: Given) -> None:
    """Ask until all moves have begun: a broker that gets a partition may not know of it yet."""
    say = _say_of(given)
    timeout_ms = _number(given, "timeout", _DEFAULT_TIMEOUT_MS)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    waiting = dict(targets)
    while True:
        outcomes = await admin.alter_replica_log_dirs(waiting)
        for replica, error in sorted(outcomes.items(), key=lambda item: item[0]):
            if error is None:
                say(
                    f"Successfully started moving log directory to {waiting.pop(replica)} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
                )
            elif not (
                isinstance(error, KafkaError) and error.code is ErrorCode.REPLICA_NOT_AVAILABLE
            ):
                raise CommandFailed(
                    ADMIN_COMMAND_FAILED, f"Failed to alter dir for {replica}"
                ) from error
        if not waiting:
            return
        if loop.time() >= deadline:
            plural = "" if len(waiting) == 1 else "s"
            raise TerseFailure(
                f"Timed out before log directory move{plural} could be started for: "
                f"{','.join(map(str, sorted(waiting)))}"
            )
        await asyncio.sleep(_PAUSE_S)


async def _clear(admin: Admin, plan: Plan, say: Callable[[str], None]) -> None:
    brokers = {int(broker.broker_id) for broker in (await admin.describe_cluster()).brokers}
    brokers.update(broker for _, replicas in plan.entries for broker in replicas)
    numbers = sorted(brokers)
    plural = "" if len(numbers) == 1 else "s"
    say(f"Clearing broker-level throttles on broker{plural} {','.join(map(str, numbers))}")
    await clear_broker_throttles(admin, numbers)
    names = sorted({topic_partition.topic for topic_partition, _ in plan.entries})
    plural = "" if len(names) == 1 else "s"
    say(f"Clearing topic-level throttles on topic{plural} {','.join(names)}")
    await clear_topic_throttles(admin, names)


def _say_of(given: Given) -> Callable[[str], None]:
    """Return what prints words, which JSON has none of."""
    return (lambda _: None) if given.has("json") else print


def _number(given: Given, option: str, default: int) -> int:
    chosen = given.integer(option, 64)
    return default if chosen is None else chosen


def _outcome_text(outcomes: Mapping[TopicPartition, KafkaError | None]) -> str:
    return "\n".join(
        f"{topic_partition}: {spelt(error)[1]}"
        for topic_partition, error in sorted(outcomes.items())
        if error is not None
    )


def _names(partitions: Mapping[TopicPartition, object] | list[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _listed(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
