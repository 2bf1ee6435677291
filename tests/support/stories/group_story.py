"""Runs a scenario of the group shard (`shard_story` says how).

Commands of its own:

    settings name=value...                      begin again with these settings
    join NAME [group=g] [member=ID] [instance=I] [protocols=p1,p2] [topics=a,b] [session=ms] [rebalance=ms] [version=n]
    sync NAME [generation=n] [assign=NAME:text,...]     leave NAME...    leave-instance I...    heartbeat NAME
    commit-offset NAME|- topic-partition=offset... [metadata=text] [retention=ms] [connection=n]
    commit-in-transaction NAME|- producer=ID topic-partition=offset... [metadata=text] [group=g]
    end-transaction ID commit|abort
    fetch-offsets [stable] [topic-partition...]  delete-offsets topic-partition...      delete-group
    state

NAME stands for a member: the runner keeps the id that its last reply gave, and the generation.
"""

from __future__ import annotations

from struct import pack
from typing import Any

from kavka.core.group.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    CommitReply,
    DeleteGroup,
    DeleteGroupReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchOffsets,
    FetchOffsetsReply,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    LeavingMember,
    OffsetToCommit,
    Reply,
    Sync,
    SyncReply,
)
from kavka.core.group.records import (
    GroupRecord,
    OffsetRecord,
    PendingOffsetRecord,
    Record,
    TransactionEnd,
)
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.core.machine import Decision
from kavka.errors import ErrorCode
from kavka.values import replace
from support.stories import shard_story


def subscription(topics: list[str]) -> bytes:
    body = b"".join(pack(">h", len(t)) + t.encode() for t in topics)
    return pack(">hi", 1, len(topics)) + body + pack(">i", -1)


class Story(shard_story.ShardStory):  # type: ignore[type-arg]
    """One shard, and the members that talk to it."""

    out: list[str]

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0)
        super().__init__(self.fresh_shard())
        self.shard.loaded(0)
        self.member_ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.instances: dict[str, str] = {}

    def fresh_shard(self) -> GroupShard:
        return GroupShard(self.settings)

    # Commands

    def do_settings(self, _: list[str], options: dict[str, str]) -> None:
        values: dict[str, Any] = {key: int(value) for key, value in options.items()}
        self.__init__(replace(GroupSettings(initial_rebalance_delay_ms=0), **values))  # type: ignore[misc]

    def do_join(self, words: list[str], options: dict[str, str]) -> None:
        name = words[0]
        version = int(options.get("version", "9"))
        instance = options.get("instance")
        if instance is not None:
            self.instances[name] = instance
        metadata = subscription(options.get("topics", "t").split(","))
        session = int(options.get("session", "10000"))
        event = Join(
            self.token(name),
            options.get("group", "g"),
            session,
            int(options.get("rebalance", "60000")) if version > 0 else session,
            options.get("member", self.member_ids.get(name, "")),
            instance,
            options.get("type", "consumer"),
            tuple((p, metadata) for p in options.get("protocols", "range").split(",")),
            name,
            "/127.0.0.1",
            f"{instance or name}-{self.next_token}",
            version >= 4,
            version >= 9,
        )
        self.run(self.shard.handle(event, self.now_ms))

    def do_forget(self, words: list[str], _: dict[str, str]) -> None:
        self.member_ids.pop(words[0])

    def do_sync(self, words: list[str], options: dict[str, str]) -> None:
        name = words[0]
        assigned = [part.split(":") for part in options.get("assign", "").split(",") if part]
        event = Sync(
            self.token(name),
            "g",
            int(options.get("generation", self.generations.get(name, -1))),
            options.get("member", self.member_ids.get(name, "")),
            self.instances.get(name),
            "consumer",
            options.get("protocol"),
            tuple((self.member_ids[client], text.encode()) for client, text in assigned),
        )
        self.run(self.shard.handle(event, self.now_ms))

    def do_heartbeat(self, words: list[str], options: dict[str, str]) -> None:
        name = words[0]
        generation = int(options.get("generation", self.generations.get(name, -1)))
        member = options.get("member", self.member_ids.get(name, ""))
        event = Heartbeat(self.token(name), "g", generation, member, self.instances.get(name))
        self.run(self.shard.handle(event, self.now_ms))

    def do_leave(self, words: list[str], _: dict[str, str]) -> None:
        members = tuple(LeavingMember(self.member_ids[w], self.instances.get(w)) for w in words)
        self.run(self.shard.handle(Leave(self.token("leave"), "g", members), self.now_ms))

    def do_leave_instance(self, words: list[str], _: dict[str, str]) -> None:
        members = tuple(LeavingMember("", w) for w in words)
        self.run(self.shard.handle(Leave(self.token("leave"), "g", members), self.now_ms))

    def do_commit_offset(self, words: list[str], options: dict[str, str]) -> None:
        name = words[0]
        event = CommitOffsets(
            self.token(name),
            "g",
            int(options.get("generation", self.generations.get(name, -1))),
            options.get("member", self.member_ids.get(name, "")),
            self.instances.get(name),
            offsets_of(options),
            int(options.get("retention", "-1")),
            int(options.get("connection", "0")),
        )
        self.run(self.shard.handle(event, self.now_ms))

    def do_commit_in_transaction(self, words: list[str], options: dict[str, str]) -> None:
        name = words[0]
        event = CommitOffsetsInTransaction(
            self.token(name),
            options.get("group", "g"),
            int(options["producer"]),
            0,
            int(options.get("generation", self.generations.get(name, -1))),
            options.get("member", self.member_ids.get(name, "")),
            self.instances.get(name),
            offsets_of(options),
        )
        self.run(self.shard.handle(event, self.now_ms))

    def do_end_transaction(self, words: list[str], _: dict[str, str]) -> None:
        self.run(Decision((TransactionEnd(int(words[0]), words[1] == "commit"),)))

    def do_fetch_offsets(self, words: list[str], _: dict[str, str]) -> None:
        is_stable = "stable" in words
        named = [w.rsplit("-", 1) for w in words if w != "stable"]
        keys = tuple((topic, int(partition)) for topic, partition in named)
        event = FetchOffsets(self.token("fetch"), "g", keys or None, is_stable)
        self.run(self.shard.handle(event, self.now_ms))

    def do_delete_offsets(self, words: list[str], _: dict[str, str]) -> None:
        keys = tuple((w.rsplit("-", 1)[0], int(w.rsplit("-", 1)[1])) for w in words)
        self.run(self.shard.handle(DeleteOffsets(self.token("delete"), "g", keys), self.now_ms))

    def do_delete_group(self, _: list[str], __: dict[str, str]) -> None:
        self.run(self.shard.handle(DeleteGroup(self.token("delete"), "g"), self.now_ms))

    def do_state(self, _: list[str], __: dict[str, str]) -> None:
        group = self.shard.describe("g")
        head = f"{group.state} {group.protocol_type or '-'} {group.protocol_data or '-'}"
        self.out.append(head)
        self.out += [
            f"  {m.member_id}{' instance ' + m.group_instance_id if m.group_instance_id else ''}"
            f" has {m.assignment.decode() or '-'}"
            for m in group.members
        ]

    # Printing

    def show_record(self, record: Record) -> str:
        return show_record(record)

    def show(self, client: str, reply: Reply) -> str:
        match reply:
            case JoinReply():
                return self.show_join(client, reply)
            case SyncReply():
                part = reply.assignment.decode() or "nothing"
                return (
                    reply.error_code.name
                    if reply.error_code
                    else f"assigned {part} by {reply.protocol_name}"
                )
            case HeartbeatReply() | DeleteGroupReply():
                return reply.error_code.name
            case LeaveReply():
                members = [
                    f"{m.member_id or m.group_instance_id} {error.name}"
                    for m, error in reply.members
                ]
                return ", ".join([reply.error_code.name, *members])
            case CommitReply():
                return ", ".join(f"{t}-{p} {error.name}" for t, p, error in reply.partitions)
            case FetchOffsetsReply():
                return (
                    ", ".join(
                        f"{t}-{p} {error.name}" if error else f"{t}-{p} at {v.offset}"
                        for t, p, v, error in reply.partitions
                    )
                    or "no offsets"
                )
            case DeleteOffsetsReply():
                rows = [f"{t}-{p} {error.name}" for t, p, error in reply.partitions]
                return ", ".join([reply.error_code.name, *rows])

    def show_join(self, client: str, reply: JoinReply) -> str:
        if reply.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_ids[client] = reply.member_id
        if reply.error_code:
            return f"{reply.error_code.name} {reply.member_id}".rstrip()
        self.member_ids[client] = reply.member_id
        self.generations[client] = reply.generation_id
        text = f"{reply.member_id} in generation {reply.generation_id} by {reply.protocol_name}, led by {reply.leader}"
        if reply.skip_assignment:
            text += ", skips assignment"
        if reply.members:
            text += ", of " + " ".join(m.member_id for m in reply.members)
        return text


def offsets_of(options: dict[str, str]) -> tuple[OffsetToCommit, ...]:
    keys = [(key.rsplit("-", 1), value) for key, value in options.items() if key[-1].isdigit()]
    return tuple(
        OffsetToCommit(topic, int(partition), int(value), 0, options.get("metadata", ""))
        for (topic, partition), value in keys
    )


def show_record(record: Record) -> str:
    match record:
        case TransactionEnd():
            return f"{'COMMIT' if record.committed else 'ABORT'} of producer {record.producer_id}"
        case PendingOffsetRecord(value=None):
            return f"{record.topic}-{record.partition} tombstone of producer {record.producer_id}"
        case PendingOffsetRecord(value=value):
            assert value is not None
            partition = f"{record.topic}-{record.partition}"
            return f"{partition} offset {value.offset} of producer {record.producer_id}"
        case OffsetRecord(value=None):
            return f"{record.topic}-{record.partition} tombstone"
        case OffsetRecord(value=value):
            assert value is not None
            return f"{record.topic}-{record.partition} offset {value.offset}"
        case GroupRecord(value=None):
            return "group tombstone"
        case GroupRecord(value=stored):
            assert stored is not None
            parts = [f"{m.member_id}={m.assignment.decode() or '-'}" for m in stored.members]
            return f"generation {stored.generation_id} " + (" ".join(parts) or "empty")
