"""Runs a scenario of one group member: commands in, the steps of its dialogues out. The runner plays the shell.

member [cooperative] [instance=I] [session=ms] [heartbeat=ms] [max-poll=ms]     begin again with these settings
subscribe TOPIC...                  the topics that the consumer subscribes to, or that its pattern matches
pattern                             subscribe to a pattern that matches nothing yet
poll [stop=STEP] [raise=STEP] [leave=STEP]   a poll; at a step it is given up, the listener raises, or it leaves
join-answered [CODE] [member=m] [leader=m] [generation=n] [members=m,...] [skip]
assign MEMBER:partition,...         what the assignor gives, where the member leads
sync-answered [CODE] [partition...]
heartbeat-answered [CODE]
connection-lost                     of the join, or of the heartbeat
no-coordinator CODE                 the coordinator of the join cannot be found
wait MS                             sleeps that are over end
rejoin TEXT     leave [raise] TEXT     state      `raise`: the listener does
"""

from __future__ import annotations

from typing import Any

from kavka.core.group_member import steps
from kavka.core.group_member.member import GroupMember
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

MISTAKE = LookupError("the listener's own mistake")


class Subscribed:
    """The subscription of a consumer."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.partitions: dict[TopicPartition, None] = {}
        self.uses_group = True
        self.is_unmatched_pattern = False

    def replace_assignment(self, partitions: Any) -> None:
        self.partitions = dict.fromkeys(partitions)


class Story:
    """One member, and the tasks of its shell."""

    def __init__(self, settings: steps.MemberSettings | None = None) -> None:
        self.settings = settings or steps.MemberSettings("g", None, 10_000, 3_000, 60_000, False)
        self.subscription = Subscribed()
        self.now_ms = 0
        self.member = GroupMember(self.settings, self.subscription, 0)
        self.joining: Any = None  # the dialogue, and the step that it waits in
        self.join_step: Any = None
        self.joined: Any = None  # an outcome that no poll has taken yet: Joined, or an exception
        self.alive: Any = None
        self.alive_step: Any = None
        self.sleep_until_ms = 0
        self.out: list[str] = []

    def command(self, line: str) -> str:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        self.out = []
        getattr(self, f"do_{name.replace('-', '_')}")(plain, options)
        reason = self.member.take_rejoin_reason()
        if reason is not None:
            self.out.append(f"needs to rejoin: {reason}")
        return "\n".join(self.out) or "ok"

    # Commands

    def do_member(self, words: list[str], options: dict[str, str]) -> None:
        settings = steps.MemberSettings(
            "g",
            options.get("instance"),
            int(options.get("session", "10000")),
            int(options.get("heartbeat", "3000")),
            int(options.get("max-poll", "60000")),
            "cooperative" in words,
        )
        self.__init__(settings)  # type: ignore[misc]

    def do_subscribe(self, words: list[str], _: dict[str, str]) -> None:
        self.subscription.topics = words
        self.subscription.is_unmatched_pattern = False

    def do_pattern(self, _: list[str], __: dict[str, str]) -> None:
        self.subscription.is_unmatched_pattern = True

    def do_poll(self, _: list[str], options: dict[str, str]) -> None:
        if self.alive is None:
            self.alive = self.member.keep_alive(self.now_ms)
            self.resume_alive(None)
        dialogue = self.member.poll(self.now_ms)
        reply: Any = None
        try:
            while True:
                step = dialogue.throw(reply) if is_error(reply) else dialogue.send(reply)
                name = type(step).__name__
                if not isinstance(step, steps.CheckMetadata):
                    self.out.append(show(step))
                reply = self.perform_poll(step)
                if options.get("raise") == name:
                    reply = MISTAKE
                if options.get("leave") == name:
                    self.do_leave(["the", "listener", "closed", "the", "consumer"], {})
                if options.get("stop") == name:
                    dialogue.close()
                    return
        except StopIteration:
            pass
        except (KafkaError, LookupError) as error:
            self.out.append(f"raises {error}")

    def perform_poll(self, step: steps.PollStep) -> Any:
        match step:
            case steps.StartJoin():
                self.joining = self.member.join()
                self.resume_join(None)
            case steps.AwaitJoin():
                outcome, self.joined = self.joined, None
                return outcome
        return None

    def resume_join(self, reply: Any) -> None:
        try:
            self.join_step = (
                self.joining.throw(reply) if is_error(reply) else self.joining.send(reply)
            )
            self.out.append(show(self.join_step))
            if isinstance(self.join_step, steps.BackOff):
                self.resume_join(None)
        except StopIteration as end:
            self.joined = end.value
            self.out.append(show(end.value))
        except KafkaError as error:
            self.joined = error
            self.out.append(f"join ends with {error}")

    def do_join_answered(self, words: list[str], options: dict[str, str]) -> None:
        members = [word for word in options.get("members", "").split(",") if word]
        member_id = options.get("member", self.member.member_id)
        reply = steps.JoinResult(
            code_of(words),
            member_id,
            options.get("leader", member_id),
            int(options.get("generation", "-1")),
            "range",
            "skip" in words,
            tuple((member, None, b"") for member in members),
        )
        assert isinstance(self.join_step, steps.SendJoin)
        self.resume_join(reply)

    def do_assign(self, words: list[str], _: dict[str, str]) -> None:
        assert isinstance(self.join_step, steps.Assign)
        pairs = [word.split(":") for word in words]
        self.resume_join({member: partitions(text.split(",")) for member, text in pairs})

    def do_sync_answered(self, words: list[str], _: dict[str, str]) -> None:
        assert isinstance(self.join_step, steps.SendSync)
        self.resume_join(
            steps.SyncResult(code_of(words), partitions([w for w in words if "-" in w]))
        )

    def do_connection_lost(self, _: list[str], __: dict[str, str]) -> None:
        error = ConnectionError("the connection was lost")
        if isinstance(self.alive_step, steps.SendHeartbeat):
            self.resume_alive(steps.HeartbeatResult(ErrorCode.NONE, error, self.now_ms))
        else:
            self.resume_join(error)

    def do_no_coordinator(self, words: list[str], _: dict[str, str]) -> None:
        self.resume_join(KafkaError(code_of(words)))

    def resume_alive(self, reply: Any) -> None:
        self.alive_step = self.alive.send(reply)
        if isinstance(self.alive_step, steps.Sleep):
            self.sleep_until_ms = self.now_ms + self.alive_step.duration_ms
            return
        self.out.append(show(self.alive_step))
        if not isinstance(self.alive_step, steps.SendHeartbeat):
            self.resume_alive(None)

    def do_heartbeat_answered(self, words: list[str], _: dict[str, str]) -> None:
        assert isinstance(self.alive_step, steps.SendHeartbeat)
        self.resume_alive(steps.HeartbeatResult(code_of(words), None, self.now_ms))

    def do_wait(self, words: list[str], _: dict[str, str]) -> None:
        end_ms = self.now_ms + int(words[0])
        while isinstance(self.alive_step, steps.Sleep) and self.sleep_until_ms <= end_ms:
            self.now_ms = self.sleep_until_ms
            self.resume_alive(self.now_ms)
        self.now_ms = end_ms

    def do_rejoin(self, words: list[str], _: dict[str, str]) -> None:
        self.member.request_rejoin(" ".join(words))

    def do_leave(self, words: list[str], _: dict[str, str]) -> None:
        self.joining = self.join_step = self.joined = self.alive = self.alive_step = None
        raises = words[0] == "raise"
        dialogue = self.member.leave(" ".join(words[raises:]))
        try:
            step = next(dialogue)
            while True:
                self.out.append(show(step))
                mistaken = raises and not isinstance(step, steps.SendLeave)
                step = dialogue.throw(MISTAKE) if mistaken else next(dialogue)
        except StopIteration:
            pass
        except LookupError as error:
            self.out.append(f"raises {error}")
        self.subscription.replace_assignment([])

    def do_state(self, _: list[str], __: dict[str, str]) -> None:
        member = self.member
        self.out.append(
            f"member={member.member_id or '-'} generation={member.generation} "
            f"has {text(self.subscription.partitions)}{', needs to join' * member.needs_join}"
        )
        try:
            shown = member.metadata()
            self.out.append(f"commits as {shown.member_id} of generation {shown.generation_id}")
        except KafkaError as error:
            self.out.append(f"commits nothing: {error.code.name}")


def is_error(reply: Any) -> bool:
    return isinstance(reply, Exception)


def code_of(words: list[str]) -> ErrorCode:
    return next((ErrorCode[word] for word in words if word.isupper()), ErrorCode.NONE)


def partitions(words: list[str]) -> list[TopicPartition]:
    names = [word.rsplit("-", 1) for word in words]
    return [TopicPartition(topic, int(number)) for topic, number in names]


def text(found: Any) -> str:
    return " ".join(map(str, found)) or "nothing"


def show(step: Any) -> str:
    match step:
        case steps.SendJoin(member_id, topics, held, owned, owned_generation, reason):
            had = f", owned {text(owned)} in generation {owned_generation}" if owned else ""
            has = f", holds {text(held)}" if held else ""
            return (
                f"JoinGroup of {member_id or 'a new member'} for {text(topics)}{has}{had}: {reason}"
            )
        case steps.Assign(joined):
            return f"assigns, for {' '.join(member for member, *_ in joined.members)}"
        case steps.SendSync(generation, _, _, assignments):
            given = "; ".join(f"{member} {text(parts)}" for member, parts in assignments.items())
            return f"SyncGroup in generation {generation}{given and ': '}{given}"
        case steps.BackOff(attempt, error, forgets_coordinator):
            again = ", finds the coordinator again" * forgets_coordinator
            return f"backs off (attempt {attempt}) after {error}{again}"
        case steps.Joined(generation, assigned):
            return f"joined generation {generation}: {text(assigned)}"
        case steps.SendHeartbeat(generation, _):
            return f"Heartbeat in generation {generation}"
        case steps.HeartbeatFailed(error, forgets_coordinator, has_session_timed_out):
            again = ", finds the coordinator again" * forgets_coordinator
            late = ", session timed out" * has_session_timed_out
            return f"heartbeat failed: {error}{again}{late}"
        case steps.SendLeave(member_id, reason):
            return f"LeaveGroup of {member_id}: {reason}"
        case steps.PartitionsAssigned(found, generation, count):
            return f"on_assigned {text(found)} (generation {generation}, {count} in all)"
        case steps.PartitionsRevoked(found):
            return f"on_revoked {text(found)}"
        case steps.PartitionsLost(found):
            return f"on_lost {text(found)}"
        case steps.AwaitJoin():
            return "waits for the join"
        case steps.StartJoin():
            return "joins"
        case steps.CommitPositions():
            return "commits positions"
        case steps.RefreshTopics():
            return "refreshes the topics"
        case steps.PollTimedOut():
            return "has not polled in time"
        case _:
            raise AssertionError(step)
