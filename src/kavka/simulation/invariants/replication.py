"""Replication: what the replicas of a partition are to each other, seen from the inside."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kavka.ids import TopicId, TopicPartition
from kavka.simulation.events import (
    Batch,
    BatchesSeen,
    ClusterObserved,
    Deleted,
    EndOffsetRead,
    EndOffsetRequested,
    Event,
    LogsAudited,
    ReplicaSeen,
    StateWritten,
    UncleanElection,
    WatermarkSeen,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class OneLeaderPerEpoch(Invariant):
    """In each leader epoch of a partition only the broker leads that the registry names."""

    says = "a partition has one leader in each leader epoch"

    def __init__(self) -> None:
        """Begin without partitions."""
        self._leaders: dict[tuple[TopicId, int, int], int] = {}

    def observe(self, event: Event) -> None:
        """Compare leaders with elections."""
        if isinstance(event, StateWritten) and event.after.leader >= 0:
            key = (event.topic_id, event.partition, event.after.leader_epoch)
            self._claim(key, event.after.leader, f"{event.topic}-{event.partition}")
        elif isinstance(event, ClusterObserved):
            for seen in event.replicas:
                if seen.leads:
                    key = (seen.topic_id, seen.partition.partition, seen.leader_epoch)
                    self._claim(key, seen.broker, str(seen.partition))

    def _claim(self, key: tuple[TopicId, int, int], broker: int, name: str) -> None:
        leader = self._leaders.setdefault(key, broker)
        if leader != broker:
            raise Violation(f"{name} is led by {leader} and by {broker} in epoch {key[2]}")


class InSyncReplicasHaveWhatIsCommitted(Invariant):
    """Every in-sync replica of the registry has every record below the leader's high watermark."""

    says = "a replica in sync has everything that is committed"

    def observe(self, event: Event) -> None:
        """Compare the ends of logs with the leader's high watermark."""
        if not isinstance(event, ClusterObserved):
            return
        by_partition: dict[tuple[TopicPartition, TopicId], list[ReplicaSeen]] = {}
        for seen in event.replicas:
            by_partition.setdefault((seen.partition, seen.topic_id), []).append(seen)
        for (partition, _), replicas in by_partition.items():
            state = event.states.get(partition)
            leader = next((each for each in replicas if each.leads), None)
            if state is None or leader is None or leader.leader_epoch != state.leader_epoch:
                continue
            for each in replicas:
                behind = each.log_end_offset < leader.high_watermark
                if behind and each.broker in state.in_sync_replicas:
                    raise Violation(
                        f"{partition}: the high watermark of leader {leader.broker} is {leader.high_watermark}, "
                        f"but {each.broker}, which is in sync, ends at {each.log_end_offset}"
                    )


class LeadersWatermarkOnlyGrows(Invariant):
    """A leader's own high watermark never goes back in its epoch."""

    says = "the high watermark of a leader never goes back"

    def __init__(self) -> None:
        """Begin without leaders."""
        self._seen: dict[tuple[int, int, TopicId, int, int], int] = {}

    def observe(self, event: Event) -> None:
        """Follow each leader."""
        if not isinstance(event, ClusterObserved):
            return
        for seen in event.replicas:
            if not seen.leads:
                continue
            epoch = seen.leader_epoch
            key = (seen.broker, seen.run, seen.topic_id, seen.partition.partition, epoch)
            before = self._seen.get(key, 0)
            if seen.high_watermark < before:
                raise Violation(
                    f"{seen.partition}: the high watermark of leader {seen.broker} in epoch {epoch} "
                    f"went from {before} to {seen.high_watermark}"
                )
            self._seen[key] = seen.high_watermark


class _Loss(NamedTuple):
    """The batches of a log that an unclean election lost."""

    election: UncleanElection
    deleted: int
    """The offset up to which records had been deleted: their batches may be in no log any more, and were committed."""

    def includes(self, batch: Batch) -> bool:
        """Return whether the elected log does not have a batch: it is named, or was deleted and lies beyond the end."""
        election = self.election
        return batch in election.lost_batches or (
            election.end_offset <= batch.last_offset < self.deleted
            and batch.leader_epoch < election.leader_epoch
        )


class CommittedLogsAreEqual(Invariant):
    """Below their high watermarks all replicas hold the same batches, with the same epochs, at all times.

    Compaction may take records out of a batch, and batches out of a log; what is left is as it was. Batches that an
    unclean election lost are left for a while where they were, until their replica is truncated.
    """

    says = "below the high watermark all logs are equal"

    def __init__(self) -> None:
        """Begin without batches."""
        self._batches: dict[tuple[TopicId, int], dict[int, tuple[Batch, int]]] = {}
        self._records: dict[tuple[TopicId, int], dict[int, tuple[int, int]]] = {}
        self._deleted: dict[TopicPartition, int] = {}
        self._elections: dict[tuple[TopicId, int], list[_Loss]] = {}

    def observe(self, event: Event) -> None:
        """Compare a replica's batches with those that were committed before."""
        if isinstance(event, UncleanElection):
            self._lose(event)
        elif isinstance(event, Deleted):
            known = self._deleted.get(event.partition, 0)
            self._deleted[event.partition] = max(known, event.offset)
        if not isinstance(event, BatchesSeen):
            return
        topic_id_partition = event.topic_id, event.partition.partition
        committed = self._batches.setdefault(topic_id_partition, {})
        records = self._records.setdefault(topic_id_partition, {})
        elections = self._elections.get(topic_id_partition, ())
        for whole in event.batches:
            batch = replace(whole, records=())
            if any(loss.includes(batch) for loss in elections):
                continue
            there, first = committed.setdefault(batch.base_offset, (batch, event.broker))
            if there != batch:
                raise Violation(
                    f"{event.partition} is committed as {there} on {first}, and as {batch} on {event.broker}"
                )
            for offset, checksum in whole.records:
                known, first = records.setdefault(offset, (checksum, event.broker))
                if known != checksum:
                    raise Violation(
                        f"the record {offset} of {event.partition} on {event.broker} is not that on {first}"
                    )

    def _lose(self, event: UncleanElection) -> None:
        topic_id_partition = event.topic_id, event.partition.partition
        loss = _Loss(event, self._deleted.get(event.partition, 0))
        self._elections.setdefault(topic_id_partition, []).append(loss)
        committed = self._batches.get(topic_id_partition, {})
        self._batches[topic_id_partition] = {
            offset: seen for offset, seen in committed.items() if not loss.includes(seen[0])
        }
        records = self._records.get(topic_id_partition, {})
        self._records[topic_id_partition] = {
            o: seen for o, seen in records.items() if o < event.end_offset
        }


class ReplicasEndAlike(Invariant):
    """After the last write, all replicas of a partition hold the same batches, to the last one.

    Their log start offsets may differ: records are deleted at the leader first.
    """

    says = "in the end all replicas are equal, batch by batch"

    def observe(self, event: Event) -> None:
        """Compare the replicas of one partition from where all of them have begun."""
        if not isinstance(event, LogsAudited) or not all(event.logs.values()):
            return
        start = max(batches[0].base_offset for batches in event.logs.values())
        (first, expected), *others = (
            (broker, [batch for batch in batches if batch.base_offset >= start])
            for broker, batches in event.logs.items()
        )
        for other, found in others:
            if found != expected:
                differing = set(found).symmetric_difference(expected)
                what = min(differing, key=lambda batch: batch.base_offset)
                raise Violation(f"{event.partition}: {first} and {other} differ in {what}")


class EndOfPartitionNeverGoesBack(Invariant):
    """The end of a partition is never lower than one returned before, by the same or an earlier leader.

    An unclean election moves ends that were returned in earlier epochs back to the end of the elected log.
    """

    says = "the end of a partition that a leader names never goes back (KIP-207)"

    def __init__(self) -> None:
        """Begin without partitions."""
        self._most: dict[TopicPartition, dict[int, int]] = {}
        self._asked: dict[tuple[str, TopicPartition], dict[int, int]] = {}
        self._elections: dict[TopicPartition, list[UncleanElection]] = {}

    def observe(self, event: Event) -> None:
        """Remember what leaders said, epoch by epoch."""
        if isinstance(event, UncleanElection):
            self._elections.setdefault(event.partition, []).append(event)
        elif isinstance(event, WatermarkSeen):
            self._note(event.partition, event.leader_epoch, event.high_watermark)
        elif isinstance(event, EndOffsetRequested):
            known = dict(self._most.get(event.partition, {}))
            self._asked[event.reader, event.partition] = known
        elif isinstance(event, EndOffsetRead):
            known = self._asked.pop((event.reader, event.partition), {})
            for epoch, returned in known.items():
                offset = self._left_of(returned, event, epoch)
                if epoch <= event.leader_epoch and event.offset < offset:
                    raise Violation(
                        f"{event.partition} ends at {event.offset} by its leader in epoch {event.leader_epoch}, "
                        f"but {offset} was returned in epoch {epoch}"
                    )
            self._note(event.partition, event.leader_epoch, event.offset)

    def _left_of(self, offset: int, later: EndOffsetRead, epoch: int) -> int:
        """Return an end of the first of two epochs after the unclean elections between them."""
        ends = [
            election.end_offset
            for election in self._elections.get(later.partition, ())
            if epoch < election.leader_epoch <= later.leader_epoch
        ]
        return min([offset, *ends])

    def _note(self, partition: TopicPartition, epoch: int, offset: int) -> None:
        known = self._most.setdefault(partition, {})
        known[epoch] = max(offset, known.get(epoch, 0))
