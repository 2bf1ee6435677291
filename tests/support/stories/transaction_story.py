"""Runs a scenario of the transaction shard (`shard_story` says how).

Commands of its own:

    settings name=value...                      begin again with these settings
    init NAME [id=tx] [timeout=ms] [mine] [producer=N epoch=N] [no-id] [2pc] [keep]
    add NAME topic-partition... [v2]            verify NAME topic-partition...
    commit-txn NAME [v2]     abort-txn NAME [v2]
    written NAME topic-partition...             every marker that was sent has been written, or only these
    wear-out NAME EPOCH                         take all epochs up to this one
    say NEW NAME                                NEW has the id and epoch that NAME has now
    give-id [id=tx]          refuse-id ERROR    the reply to NeedProducerId, after `init NAME no-id`
    state [id=tx]            list [state=S] [longer=ms]

NAME stands for a producer: the runner keeps the id and epoch that its last reply gave. `mine` sends them with `init`.
`v2` is a client that gets an epoch with each end (KIP-890). Producer ids are allocated at once, from 100 on.
"""

from __future__ import annotations

from typing import Any

from kavka.core.transaction.events import (
    AddPartitions,
    AddPartitionsReply,
    End,
    EndReply,
    InitProducer,
    InitProducerReply,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGiven,
    ProducerIdRefused,
    Reply,
    SendMarkers,
    TimedOut,
    Verify,
    VerifyReply,
)
from kavka.core.transaction.records import StoredTransaction, TransactionRecord, TransactionState
from kavka.core.transaction.settings import TransactionSettings
from kavka.core.transaction.shard import TransactionShard
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.values import replace
from support.stories import shard_story


class Story(shard_story.ShardStory):  # type: ignore[type-arg]
    """One shard, and the producers that talk to it."""

    out: list[str]

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        super().__init__(self.fresh_shard())
        self.shard.loaded(0)
        self.producers: dict[str, tuple[str, int, int]] = {}  # transactional id, producer id, epoch
        self.next_producer_id = 100
        self.gives_ids = True
        self.sent: dict[str, SendMarkers] = {}  # by transactional id

    def fresh_shard(self) -> TransactionShard:
        return TransactionShard(self.settings)

    def left(self, effect: NeedProducerId | SendMarkers | TimedOut) -> None:
        match effect:
            case NeedProducerId():
                if self.gives_ids:
                    self.do_give_id([], {"id": effect.transactional_id})
                else:
                    self.out.append(f"needs a producer id for {effect.transactional_id}")
            case SendMarkers():
                self.sent[effect.transactional_id] = effect
                kind = "COMMIT" if effect.committed else "ABORT"
                names = " ".join(map(str, effect.partitions))
                self.out.append(
                    f"send {kind} {effect.producer_id}/{effect.producer_epoch} to {names}"
                )
            case TimedOut():
                pass  # it is for the log

    # Commands

    def do_settings(self, _: list[str], options: dict[str, str]) -> None:
        values: dict[str, Any] = {key: int(value) for key, value in options.items()}
        self.__init__(replace(TransactionSettings(), **values))  # type: ignore[misc]

    def do_init(self, words: list[str], options: dict[str, str]) -> None:
        name = words[0]
        transactional_id = options.get("id", "tx")
        _, producer_id, epoch = self.producers.get(name, ("", -1, -1))
        if "mine" not in words:
            producer_id, epoch = int(options.get("producer", "-1")), int(options.get("epoch", "-1"))
        self.producers.setdefault(name, (transactional_id, -1, -1))
        self.gives_ids = "no-id" not in words
        timeout_ms = int(options.get("timeout", "60000"))
        event = InitProducer(self.token(name), transactional_id, timeout_ms, producer_id, epoch)
        self.submit(replace(event, enable_2pc="2pc" in words, keep_prepared="keep" in words))

    def do_give_id(self, _: list[str], options: dict[str, str]) -> None:
        self.gives_ids = True
        self.next_producer_id += 1
        self.submit(ProducerIdGiven(options.get("id", "tx"), self.next_producer_id - 1))

    def do_refuse_id(self, words: list[str], options: dict[str, str]) -> None:
        self.gives_ids = True
        self.submit(ProducerIdRefused(options.get("id", "tx"), ErrorCode[words[0]]))

    def do_add(self, words: list[str], _: dict[str, str]) -> None:
        asked = (self.token(words[0]), *self.producers[words[0]], _partitions(words))
        self.submit(AddPartitions(*asked, 2 if "v2" in words else 0))

    def do_verify(self, words: list[str], _: dict[str, str]) -> None:
        self.submit(Verify(self.token(words[0]), *self.producers[words[0]], _partitions(words)))

    def do_commit_txn(self, words: list[str], _: dict[str, str]) -> None:
        self.end(words, True)

    def do_abort_txn(self, words: list[str], _: dict[str, str]) -> None:
        self.end(words, False)

    def end(self, words: list[str], committed: bool) -> None:
        name, version = words[0], 2 if "v2" in words else 0
        self.submit(End(self.token(name), *self.producers[name], committed, version))

    def do_written(self, words: list[str], options: dict[str, str]) -> None:
        sent = self.sent[options.get("id", "tx")]
        partitions = _partitions(["", *words]) or sent.partitions
        written = MarkersWritten(
            sent.transactional_id, sent.producer_id, sent.producer_epoch, partitions
        )
        self.submit(written)

    def do_wear_out(self, words: list[str], _: dict[str, str]) -> None:
        """Write the record that so many calls of InitProducerId would have led to, and load it."""
        transactional_id, producer_id, _epoch = self.producers[words[0]]
        epoch = int(words[1])
        value = StoredTransaction(
            producer_id, epoch, 60_000, TransactionState.EMPTY, frozenset(), self.now_ms
        )
        self.log.append(TransactionRecord(transactional_id, value))
        self.producers[words[0]] = (transactional_id, producer_id, epoch)
        self.do_reload([], {})

    def do_say(self, words: list[str], _: dict[str, str]) -> None:
        self.producers[words[0]] = self.producers[words[1]]

    def do_state(self, _: list[str], options: dict[str, str]) -> None:
        shown = self.shard.describe(options.get("id", "tx"))
        if shown.error_code:
            self.out.append(shown.error_code.name)
            return
        self.out.append(
            f"{shown.state} {shown.producer_id}/{shown.producer_epoch} since {shown.start_ms} "
            f"timeout {shown.timeout_ms}: {' '.join(map(str, shown.partitions)) or 'no partitions'}"
        )

    def do_list(self, _: list[str], options: dict[str, str]) -> None:
        states = [options["state"]] if "state" in options else []
        rows = self.shard.list(self.now_ms, states, (), int(options.get("longer", "-1")))
        self.out += [f"{row.transactional_id} {row.producer_id} {row.state}" for row in rows]
        self.out = self.out or ["nothing"]

    # Printing

    def show(self, client: str, reply: Reply) -> str:
        match reply:
            case InitProducerReply() | EndReply():
                text: str = reply.error_code.name
                if reply.producer_id == -1:
                    return text
                transactional_id = self.producers[client][0]
                self.producers[client] = (transactional_id, reply.producer_id, reply.producer_epoch)
                text += f" {reply.producer_id}/{reply.producer_epoch}"
                if isinstance(reply, InitProducerReply) and reply.ongoing_txn_producer_id != -1:
                    ongoing = f"{reply.ongoing_txn_producer_id}/{reply.ongoing_txn_producer_epoch}"
                    text += f" to end what {ongoing} began"
                return text
            case AddPartitionsReply():
                return reply.error_code.name
            case VerifyReply():
                return ", ".join(f"{one} {error.name}" for one, error in reply.partitions)

    def show_record(self, record: TransactionRecord) -> str:
        return f"{record.transactional_id} " + (
            _shown(record.value) if record.value else "tombstone"
        )


def _shown(value: StoredTransaction) -> str:
    text = f"{value.state.title} {value.producer_id}/{value.producer_epoch}"
    if value.state is TransactionState.EMPTY and value.timeout_ms != 60_000:
        text += f" timeout {value.timeout_ms}"
    if value.next_producer_id != -1:
        text += f" then {value.next_producer_id}/{value.successor.producer_epoch}"
    if value.previous_producer_id != -1:
        text += f" after {value.previous_producer_id}"
    return " ".join([text, *map(str, sorted(value.partitions))])


def _partitions(words: list[str]) -> tuple[TopicPartition, ...]:
    names = [word.rsplit("-", 1) for word in words[1:] if word != "v2"]
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in names)
