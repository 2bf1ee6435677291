"""Runs a scenario of the group shard: commands in, answers and states out.

A scenario is blocks of a command line, `----`, the printed outcome and an empty line. The runner plays the shell: it
commits a decision's records at once, unless `hold` is in force until `commit` or `refuse ERROR`. Commands:

    settings name=value...                      begin anew with these settings
    join NAME [group=g] [member=ID] [instance=I] [protocols=p1,p2] [topics=a,b] [session=ms] [rebalance=ms] [version=n]
    sync NAME [generation=n] [assign=NAME:text,...]     leave NAME...    leave-instance I...    heartbeat NAME
    commit-offset NAME|- topic-partition=offset... [metadata=text] [retention=ms]
    fetch-offsets [topic-partition...]          delete-offsets topic-partition...      delete-group
    wait MS     hold     commit     refuse ERROR     reload     state     log

NAME stands for a member: the runner keeps the id that its last answer gave, and the generation.
"""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import Any

from kavka.core.group.events import (
    CommitOffsets,
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
from kavka.core.group.records import GroupRecord, OffsetRecord, Record
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.core.group.step import GroupDecision
from kavka.errors import ErrorCode


def subscription(topics: list[str]) -> bytes:
    body = b"".join(pack(">h", len(t)) + t.encode() for t in topics)
    return pack(">hi", 1, len(topics)) + body + pack(">i", -1)


class Story:
    """One shard, and the clients that talk to it."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0)
        self.shard = GroupShard(self.settings)
        self.shard.loaded(0)
        self.now_ms = 0
        self.log: list[Record] = []
        self.held: list[GroupDecision] | None = None
        self.waiting: dict[int, str] = {}  # token -> who asked
        self.member_ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.instances: dict[str, str] = {}
        self.next_token = 0
        self.out: list[str] = []

    # The shell

    def token(self, who: str) -> int:
        self.next_token += 1
        self.waiting[self.next_token] = who
        return self.next_token

    def run(self, decision: GroupDecision) -> None:
        if self.held is not None and decision.records:
            self.out.append(f"held {len(decision.records)} records")
            self.held.append(decision)
            return
        self.committed(decision)

    def committed(self, decision: GroupDecision) -> None:
        for record in decision.records:
            self.log.append(record)
            self.out.append("append " + show_record(record))
            self.shard.apply(record)
        self.answered(decision)
        self.shard.check()
        self.tick_due()

    def answered(self, decision: GroupDecision) -> None:
        for effect in decision.effects:
            who = self.waiting.pop(effect.token, None)
            if who is not None:
                self.out.append(f"{who}: {self.show(who, effect.reply)}")

    def tick_due(self) -> None:
        deadline = self.shard.deadline_ms()
        while deadline is not None and deadline <= self.now_ms:
            decision = self.shard.tick(self.now_ms)
            if decision:
                self.run(decision)
            deadline = self.shard.deadline_ms()

    def wait(self, until_ms: int) -> None:
        deadline = self.shard.deadline_ms()
        while deadline is not None and deadline <= until_ms:
            self.now_ms = max(self.now_ms, deadline)
            before = len(self.out)
            self.tick_due()
            if len(self.out) > before:
                self.out.insert(before, f"at {self.now_ms} ms:")
            deadline = self.shard.deadline_ms()
        self.now_ms = until_ms

    # Commands

    def command(self, line: str) -> str:
        name, *words = line.split()
        options = dict(w.split("=", 1) for w in words if "=" in w)
        plain = [w for w in words if "=" not in w]
        self.out = []
        getattr(self, "do_" + name.replace("-", "_"))(plain, options)
        return "\n".join(self.out) or "ok"

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
            tuple((self.member_ids[who], text.encode()) for who, text in assigned),
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
        keys = [(key.rsplit("-", 1), value) for key, value in options.items() if key[-1].isdigit()]
        event = CommitOffsets(
            self.token(name),
            "g",
            int(options.get("generation", self.generations.get(name, -1))),
            options.get("member", self.member_ids.get(name, "")),
            self.instances.get(name),
            tuple(
                OffsetToCommit(topic, int(partition), int(value), 0, options.get("metadata", ""))
                for (topic, partition), value in keys
            ),
            int(options.get("retention", "-1")),
        )
        self.run(self.shard.handle(event, self.now_ms))

    def do_fetch_offsets(self, words: list[str], _: dict[str, str]) -> None:
        keys = tuple((w.rsplit("-", 1)[0], int(w.rsplit("-", 1)[1])) for w in words)
        self.run(
            self.shard.handle(FetchOffsets(self.token("fetch"), "g", keys or None), self.now_ms)
        )

    def do_delete_offsets(self, words: list[str], _: dict[str, str]) -> None:
        keys = tuple((w.rsplit("-", 1)[0], int(w.rsplit("-", 1)[1])) for w in words)
        self.run(self.shard.handle(DeleteOffsets(self.token("delete"), "g", keys), self.now_ms))

    def do_delete_group(self, _: list[str], __: dict[str, str]) -> None:
        self.run(self.shard.handle(DeleteGroup(self.token("delete"), "g"), self.now_ms))

    def do_wait(self, words: list[str], _: dict[str, str]) -> None:
        self.wait(self.now_ms + int(words[0]))

    def do_hold(self, _: list[str], __: dict[str, str]) -> None:
        self.held = []

    def do_commit(self, _: list[str], __: dict[str, str]) -> None:
        held, self.held = self.held or [], None
        for decision in held:
            self.committed(decision)

    def do_refuse(self, words: list[str], _: dict[str, str]) -> None:
        held, self.held = self.held or [], None
        for decision in held:
            self.committed(self.shard.failed(decision, ErrorCode[words[0]], self.now_ms))

    def do_reload(self, _: list[str], __: dict[str, str]) -> None:
        self.answered(self.shard.resign(self.now_ms))
        self.shard = GroupShard(self.settings)
        for record in self.log:
            self.shard.apply(record)
        self.run(self.shard.loaded(self.now_ms))
        self.do_state([], {})

    def do_state(self, _: list[str], __: dict[str, str]) -> None:
        group = self.shard.describe("g")
        head = f"{group.state} {group.protocol_type or '-'} {group.protocol_data or '-'}"
        self.out.append(head)
        self.out += [
            f"  {m.member_id}{' instance ' + m.group_instance_id if m.group_instance_id else ''}"
            f" has {m.assignment.decode() or '-'}"
            for m in group.members
        ]

    def do_log(self, _: list[str], __: dict[str, str]) -> None:
        self.out += [show_record(record) for record in self.log]

    # Printing

    def show(self, who: str, reply: Reply) -> str:
        match reply:
            case JoinReply():
                return self.show_join(who, reply)
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
                    ", ".join(f"{t}-{p} at {v.offset}" for t, p, v, _ in reply.partitions)
                    or "no offsets"
                )
            case DeleteOffsetsReply():
                rows = [f"{t}-{p} {error.name}" for t, p, error in reply.partitions]
                return ", ".join([reply.error_code.name, *rows])

    def show_join(self, who: str, reply: JoinReply) -> str:
        if reply.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_ids[who] = reply.member_id
        if reply.error_code:
            return f"{reply.error_code.name} {reply.member_id}".rstrip()
        self.member_ids[who] = reply.member_id
        self.generations[who] = reply.generation_id
        text = f"{reply.member_id} in generation {reply.generation_id} by {reply.protocol_name}, led by {reply.leader}"
        if reply.skip_assignment:
            text += ", skips assignment"
        if reply.members:
            text += ", of " + " ".join(m.member_id for m in reply.members)
        return text


def show_record(record: Record) -> str:
    match record:
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
