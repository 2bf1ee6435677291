"""Runs a scenario of one transactional producer: commands in, the steps of its dialogues out. The runner is the shell.

    producer [2pc]                      begin again with these settings
    init [keep]     resume ID/EPOCH     begin [v2]
    records topic-partition...          records are taken: what has to take part is added
    offsets GROUP topic-partition=N...  the offsets of a group
    written                             every record is written or has failed
    batch-failed CODE [numbered]        a batch is given up; `numbered` has sequences
    commit     abort     prepare        the operations
    answered [CODE] [topic-partition=CODE...] [id=N epoch=N] [ongoing=ID/EPOCH]
    refused CODE     connection-lost    what sending raises
    state

A reply belongs to the dialogue that was begun last and waits for one; `to=NAME` names another.
"""

from __future__ import annotations

from typing import Any

from kavka.core.group_member.steps import GroupMetadata, OffsetAndMetadata
from kavka.core.transactional_producer import steps
from kavka.core.transactional_producer.dialogue import TransactionDialogues
from kavka.core.transactional_producer.errors import as_abortable
from kavka.core.transactional_producer.state import PreparedTxnState, TransactionState
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

ADDING = ("records", "offsets")


class Story:
    """One producer, and the dialogues of its shell, by name."""

    def __init__(self, *, two_phase_commit: bool = False) -> None:
        self.transaction = TransactionState()
        self.dialogues = TransactionDialogues(self.transaction, two_phase_commit=two_phase_commit)
        self.running: dict[str, Any] = {}
        self.waiting: dict[str, Any] = {}  # the step that a dialogue waits in
        self.out: list[str] = []

    def command(self, line: str) -> str:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        self.out = []
        before = self.transaction.state
        try:
            getattr(self, f"do_{name.replace('-', '_')}")(plain, options)
        except (RuntimeError, KafkaError) as error:
            self.out.append(f"{type(error).__name__}: {error}")
        if self.transaction.state is not before:
            self.out.append(f"the producer {self.transaction.state.value}")
        return "\n".join(self.out) or "ok"

    # Commands

    def do_producer(self, words: list[str], _: dict[str, str]) -> None:
        self.__init__(two_phase_commit="2pc" in words)  # type: ignore[misc]

    def do_init(self, words: list[str], _: dict[str, str]) -> None:
        self.transaction.begin_init()
        self.start("init", self.dialogues.init("keep" in words))

    def do_resume(self, words: list[str], _: dict[str, str]) -> None:
        producer_id, epoch = words[0].split("/")
        self.transaction.begin_init()
        self.dialogues.resume(PreparedTxnState(int(producer_id), int(epoch)))
        self.transaction.initialized()

    def do_begin(self, words: list[str], _: dict[str, str]) -> None:
        self.transaction.begin(2 if "v2" in words else 0)

    def do_records(self, words: list[str], _: dict[str, str]) -> None:
        self.transaction.require_open()
        self.transaction.add_wanted(partitions(words))
        self.add_next()

    def add_next(self) -> None:
        wanted = self.transaction.next_to_add()
        if wanted:
            self.start("records", self.dialogues.add_partitions(wanted))

    def do_offsets(self, words: list[str], options: dict[str, str]) -> None:
        self.transaction.require_open()
        offsets = {
            partitions([name])[0]: OffsetAndMetadata(int(offset))
            for name, offset in options.items()
        }
        self.start("offsets", self.dialogues.send_offsets(offsets, GroupMetadata(words[0])))

    def do_batch_failed(self, words: list[str], _: dict[str, str]) -> None:
        error = as_abortable(KafkaError(ErrorCode[words[0]]))
        self.transaction.must_abort(error, "numbered" in words)
        self.out.append(f"{type(error).__name__}: {error}")

    def do_commit(self, _: list[str], __: dict[str, str]) -> None:
        self.transaction.begin_commit()
        self.start("commit", self.dialogues.commit())

    def do_abort(self, _: list[str], __: dict[str, str]) -> None:
        self.transaction.begin_abort()
        self.start("abort", self.dialogues.abort())

    def do_prepare(self, _: list[str], __: dict[str, str]) -> None:
        self.transaction.begin_prepare()
        self.start("prepare", self.dialogues.prepare())

    def do_written(self, _: list[str], __: dict[str, str]) -> None:
        for name, step in list(self.waiting.items()):
            if isinstance(step, steps.WaitUntilWritten):
                self.resume(name, None)

    def do_answered(self, words: list[str], options: dict[str, str]) -> None:
        codes: steps.Codes = {None: ErrorCode[words[0]] if words else ErrorCode.NONE}
        by_partition: steps.Codes = {
            partitions([name])[0]: ErrorCode[code]
            for name, code in options.items()
            if name[-1].isdigit()
        }
        ongoing = options.get("ongoing", "-1/-1").split("/")
        reply = steps.RequestResult(
            by_partition or codes,
            int(options.get("id", "-1")),
            int(options.get("epoch", "-1")),
            int(ongoing[0]),
            int(ongoing[1]),
        )
        self.resume(self.sender(options), reply)

    def do_refused(self, words: list[str], options: dict[str, str]) -> None:
        self.resume(self.sender(options), KafkaError(ErrorCode[words[0]]))

    def do_connection_lost(self, _: list[str], options: dict[str, str]) -> None:
        self.resume(self.sender(options), ConnectionError("the connection was lost"))

    def do_state(self, _: list[str], __: dict[str, str]) -> None:
        transaction = self.transaction
        self.out.append(f"{transaction.state.name} version {transaction.version}")
        if transaction.is_known:
            self.out.append("the coordinator has a transaction to end")
        if transaction.must_bump:
            self.out.append("the abort must raise the epoch")
        if transaction.prepared is not None:
            self.out.append(f"prepared {transaction.prepared}")
        if transaction.error is not None:
            self.out.append(f"{type(transaction.error).__name__}: {transaction.error}")

    # Dialogues

    def sender(self, options: dict[str, str]) -> str:
        if "to" in options:
            return options["to"]
        return [n for n, step in self.waiting.items() if isinstance(step, steps.Send)][-1]

    def start(self, name: str, dialogue: Any) -> None:
        self.running[name] = dialogue
        self.resume(name, None)

    def resume(self, name: str, reply: Any) -> None:
        dialogue = self.running[name]
        self.waiting.pop(name, None)
        try:
            is_error = isinstance(reply, Exception)
            step = dialogue.throw(reply) if is_error else dialogue.send(reply)
        except StopIteration:
            self.out.append(f"{name} is over")
            self.finish(name)
        except KafkaError as error:
            self.out.append(f"{name} raises {type(error).__name__}: {error}")
            self.transaction.must_abort(error)
            self.finish(name)
        else:
            self.out.append(f"{name}: {show(step)}")
            if isinstance(step, steps.Send | steps.WaitUntilWritten) or (
                isinstance(step, steps.WaitUntilAdded) and self.is_adding
            ):
                self.waiting[name] = step
            else:
                self.resume(name, None)

    def finish(self, name: str) -> None:
        del self.running[name]
        if name == "records":
            self.add_next()
        if not self.is_adding:
            for other, step in list(self.waiting.items()):
                if isinstance(step, steps.WaitUntilAdded):
                    self.resume(other, None)

    @property
    def is_adding(self) -> bool:
        return any(name in self.running for name in ADDING)


def partitions(words: list[str]) -> list[TopicPartition]:
    names = [word.rsplit("-", 1) for word in words]
    return [TopicPartition(topic, int(number)) for topic, number in names]


def show(step: Any) -> str:
    match step:
        case steps.Send(request):
            return show_request(request)
        case steps.BackOff(_, attempt, reason, forgets_coordinator, is_short):
            name = reason.name if isinstance(reason, ErrorCode) else reason
            return (
                f"backs off{' for a moment' * is_short} (attempt {attempt}) after {name}"
                f"{', finds the coordinator again' * forgets_coordinator}"
            )
        case steps.UseProducerId(producer_id, epoch, is_of_end):
            return f"numbers by {producer_id}/{epoch}{', which the end gave' * is_of_end}"
        case steps.DropUnsent(error):
            return f"drops what was not sent: {error}"
        case steps.WaitUntilWritten():
            return "waits for the records"
        case steps.WaitUntilAdded():
            return "waits for what adds to the transaction"
        case steps.WaitUntilIdle():
            return "waits for requests on the wire"
        case _:
            raise AssertionError(step)


def show_request(request: steps.Request) -> str:
    name = request.stage.value
    match request:
        case steps.InitProducerId(keeps_prepared, raises_epoch):
            return f"{name}{', keeps what is prepared' * keeps_prepared}{', raises the epoch' * raises_epoch}"
        case steps.AddPartitions(added):
            return f"{name} {' '.join(map(str, added))}"
        case steps.AddOffsets(group_id):
            return f"{name} of {group_id}"
        case steps.CommitOffsets(group, offsets, version):
            at = " ".join(
                f"{partition} at {offset.offset}" for partition, offset in offsets.items()
            )
            return f"{name} of {group.group_id}: {at} (version {version})"
        case steps.EndTransaction(commit, version):
            return f"{name} {'commit' if commit else 'abort'} (version {version})"
