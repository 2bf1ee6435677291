"""Runs a scenario of one shard's machine: commands in, answers, effects and states out.

A scenario is blocks of a command line, `----`, the printed outcome and an empty line. The runner plays the shell: it
commits a decision's records at once, unless `hold` is in force until `commit` or `refuse ERROR`. Every machine has:

    wait MS     hold     commit     refuse ERROR     reload     log
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kavka.core.machine import Decision, SendReply
from kavka.errors import ErrorCode

Record = TypeVar("Record")


def play(story: Any, text: str) -> str:
    """Return the scenario with what it prints now."""
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("#")]
        commands = [
            line
            for line in block.split("----")[0].splitlines()
            if line and not line.startswith("#")
        ]
        for command in commands:
            blocks.append("\n".join([*lines, command, "----", story.command(command)]))
            lines = []
        if not commands:
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


class ShardStory(Generic[Record]):
    """One shard, and the clients that talk to it."""

    def __init__(self, shard: Any) -> None:
        """`shard` has its machine; it is loaded."""
        self.shard = shard
        self.now_ms = 0
        self.log: list[Record] = []
        self.held: list[Decision[Record, Any]] | None = None
        self.waiting: dict[int, str] = {}  # token -> name of the client
        self.next_token = 0
        self.out: list[str] = []

    # What each machine has of its own

    def fresh_shard(self) -> Any:
        """Return a machine that has loaded nothing."""
        raise NotImplementedError

    def show_record(self, record: Record) -> str:
        raise NotImplementedError

    def show(self, client: str, reply: Any) -> str:
        raise NotImplementedError

    def left(self, effect: Any) -> None:
        """Print an effect that is no reply."""
        raise NotImplementedError

    # The shell

    def token(self, client: str) -> int:
        self.next_token += 1
        self.waiting[self.next_token] = client
        return self.next_token

    def submit(self, event: Any) -> None:
        self.run(self.shard.handle(event, self.now_ms))

    def run(self, decision: Decision[Record, Any]) -> None:
        if self.held is not None and decision.records:
            self.out.append(f"held {len(decision.records)} records")
            self.held.append(decision)
            return
        self.committed(decision)

    def committed(self, decision: Decision[Record, Any]) -> None:
        for record in decision.records:
            self.log.append(record)
            self.out.append("append " + self.show_record(record))
            self.shard.apply(record)
        self.leave(decision)
        self.shard.check()
        self.tick_due()

    def leave(self, decision: Decision[Record, Any]) -> None:
        for effect in decision.effects:
            if not isinstance(effect, SendReply):
                self.left(effect)
                continue
            client = self.waiting.pop(effect.token, None)
            if client is not None:
                self.out.append(f"{client}: {self.show(client, effect.reply)}")

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
        self.leave(self.shard.resign(self.now_ms))
        self.held = None
        self.shard = self.fresh_shard()
        for record in self.log:
            self.shard.apply(record)
        self.run(self.shard.loaded(self.now_ms))
        self.do_state([], {})

    def do_state(self, words: list[str], options: dict[str, str]) -> None:
        raise NotImplementedError

    def do_log(self, _: list[str], __: dict[str, str]) -> None:
        self.out += [self.show_record(record) for record in self.log]
