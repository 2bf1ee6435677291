"""A scripted broker in memory: the real codec over a fake network, with faults on demand."""

import asyncio
import importlib
import warnings
from collections import defaultdict, deque

import pytest

from kavka.errors import ErrorCode
from kavka.net.frames import FrameReader
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import decode
from kavka.wire.frame import decode_request_header, encode_response
from kavka.wire.messages import (
    api_versions,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import assign, walk

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    for name in (
        "kafka.partitioner.default",
        "kafka.coordinator.assignors.sticky.sticky_assignor",
        "kafka.protocol.consumer.group",
        "kafka.protocol.consumer.metadata",
    ):
        importlib.import_module(name)

LOSE_REQUEST = "lose the request"
LOSE_ANSWER = "lose the answer"


class MemoryTransport:
    """One side of a connection inside the process."""

    def __init__(self, receive, on_close):
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._on_close = on_close
        self._closing = False

    def write(self, data):
        if not self._closing:
            self._loop.call_soon(self._receive, bytes(data))

    def writelines(self, parts):
        self.write(b"".join(bytes(part) for part in parts))

    def is_closing(self):
        return self._closing

    def close(self):
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._on_close)

    abort = close

    def get_extra_info(self, name, default=None):
        return default

    def pause_reading(self):
        raise AssertionError("nobody pauses here")

    resume_reading = pause_reading


class ScriptedBroker:
    """Broker 0, one per test, that keeps logs and groups of one member as Kafka would.

    `faults[api]` is a queue of what happens to the next requests of an API: an ErrorCode to answer, LOSE_REQUEST,
    LOSE_ANSWER, or None for nothing special.
    """

    def __init__(self):
        self.topics = {}
        self.ids = {}
        self.faults = defaultdict(deque)
        self.requests = []
        self.max_batch_bytes = 1 << 20
        self.committed = {}
        self.producers = {}
        self.generation = 0
        self.members = {}
        self.rebalance = False
        self.next_producer_id = 1000
        self.versions = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
        self.is_down = False
        self.wires = []
        self.has_left = asyncio.Event()

    def create(self, topic, partitions=1):
        self.topics[topic] = [[] for _ in range(partitions)]

    def records(self, topic, partition=0):
        """Return (offset, key, value) of everything in a log."""
        found = []
        for batch in self.topics[topic][partition]:
            for header in walk(batch):
                found += [(r.offset, r.key, r.value) for r in decode_records(batch, header)]
        return found

    def seen(self, api):
        return [request for key, request in self.requests if key == api]

    # The network door

    async def connect(self, host, port, make):
        await asyncio.sleep(0)
        if self.is_down:
            raise ConnectionRefusedError("nobody listens")
        wire = make()
        reader = FrameReader(lambda frame: self._on_frame(wire, frame), 1 << 27)

        def receive(data):
            view = memoryview(data)
            while view:
                buffer = reader.get_buffer(-1)
                count = min(len(buffer), len(view))
                buffer[:count] = view[:count]
                reader.buffer_updated(count)
                view = view[count:]

        lost = []

        def close():
            if not lost:
                lost.append(True)
                wire.connection_lost(None)

        wire.test_close = close
        wire.connection_made(MemoryTransport(receive, close))
        self.wires.append(wire)
        return wire

    async def listen(self, host, port, make):
        raise AssertionError("clients do not listen")

    def _on_frame(self, wire, frame):
        header = decode_request_header(frame)
        key = ApiKey(header.api_key)
        low, high = self.versions[key]
        if key is ApiKey.API_VERSIONS and not low <= header.api_version <= high:
            answer = api_versions.ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[
                    api_versions.ApiVersionsResponseApi(
                        api_key=key, min_version=low, max_version=high
                    )
                ],
            )
            self._send(wire, answer, 0, header.correlation_id)
            return
        request = decode(APIS[key].request(), header.api_version, frame, header.body_position)
        self.requests.append((key, request))
        fault = self.faults[key].popleft() if self.faults[key] else None
        if fault == LOSE_REQUEST:
            wire.test_close()
            return
        self._asking = (wire, header.correlation_id)
        answer = getattr(self, key.name.lower())(request, fault, header.api_version)
        if fault == LOSE_ANSWER:
            wire.test_close()
        elif answer is not None:
            self._send(wire, answer, header.api_version, header.correlation_id)

    def _send(self, wire, answer, version, correlation_id):
        data = b"".join(bytes(p) for p in encode_response(answer, version, correlation_id))
        asyncio.get_running_loop().call_soon(self._deliver, wire, data)

    def _deliver(self, wire, data):
        view = memoryview(data)
        while view and not wire.is_closed:
            buffer = wire.get_buffer(-1)
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            wire.buffer_updated(count)
            view = view[count:]

    # APIs

    def api_versions(self, request, fault, version):
        return api_versions.ApiVersionsResponse(
            api_keys=[
                api_versions.ApiVersionsResponseApi(api_key=k, min_version=low, max_version=high)
                for k, (low, high) in self.versions.items()
            ]
        )

    def metadata(self, request, fault, version):
        names = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return metadata.MetadataResponse(
            brokers=[metadata.MetadataResponseBroker(node_id=0, host="broker", port=9092)],
            cluster_id="memory",
            controller_id=0,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name):
        if name not in self.topics:
            return metadata.MetadataResponseTopic(
                name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        return metadata.MetadataResponseTopic(
            name=name,
            topic_id=name.encode().ljust(16, b"\0")[:16],
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=i, leader_id=0, leader_epoch=0, replica_nodes=[0], isr_nodes=[0]
                )
                for i in range(len(self.topics[name]))
            ],
        )

    def init_producer_id(self, request, fault, version):
        if isinstance(fault, ErrorCode):
            return init_producer_id.InitProducerIdResponse(error_code=fault)
        self.next_producer_id += 1
        return init_producer_id.InitProducerIdResponse(producer_id=self.next_producer_id)

    def produce(self, request, fault, version):
        topics = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                code, offset = fault, -1
                if not isinstance(fault, ErrorCode):
                    code, offset = self._append(topic.name, part.index, bytearray(part.records))
                parts.append(
                    produce.ProduceResponsePartition(
                        index=part.index, error_code=code, base_offset=offset
                    )
                )
            topics.append(produce.ProduceResponseTopic(name=topic.name, partition_responses=parts))
        return None if request.acks == 0 else produce.ProduceResponse(responses=topics)

    def _append(self, topic, partition, batch):
        (header,) = walk(batch)
        if header.size > self.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        log = self.topics[topic][partition]
        end = sum(h.record_count for b in log for h in walk(b))
        if header.producer_id >= 0:
            known = self.producers.setdefault((topic, partition, header.producer_id), {})
            if known.get("epoch", header.producer_epoch) < header.producer_epoch:
                known.clear()
                known["next"] = 0
            written = known.setdefault("written", {})
            known["epoch"] = header.producer_epoch
            if header.base_sequence in written:
                return ErrorCode.NONE, written[header.base_sequence]
            # As in Kafka, the first sequence that is seen of a producer may be any.
            if header.base_sequence != known.get("next", header.base_sequence):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            written[header.base_sequence] = end
            known["next"] = header.base_sequence + header.record_count
        assign(batch, header, end, 0)
        log.append(batch)
        return ErrorCode.NONE, end

    def _log(self, topic, partition):
        return self.topics[topic][partition] if topic in self.topics else []

    def _code(self, fault, topic):
        if isinstance(fault, ErrorCode):
            return fault
        return ErrorCode.NONE if topic in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def fetch(self, request, fault, version):
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                log = self._log(topic.topic, part.partition)
                headers = [(b, h) for b in log for h in walk(b)]
                end = headers[-1][1].last_offset + 1 if headers else 0
                code = self._code(fault, topic.topic)
                if part.fetch_offset > end and code is ErrorCode.NONE:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                data = [b for b, h in headers if h.last_offset >= part.fetch_offset]
                parts.append(
                    fetch.FetchResponsePartition(
                        partition_index=part.partition,
                        error_code=code,
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=b"" if code else b"".join(data[:2]),
                    )
                )
            topics.append(fetch.FetchResponseTopic(topic=topic.topic, partitions=parts))
        answer = fetch.FetchResponse(responses=topics)
        if any(part.records for topic in topics for part in topic.partitions):
            return answer
        self._park(answer, version)
        return None

    def _park(self, answer, version):
        """Answer an empty fetch a little later, as a broker that waits for data."""
        wire, correlation_id = self._asking
        loop = asyncio.get_running_loop()
        loop.call_later(0.005, self._send, wire, answer, version, correlation_id)

    def list_offsets(self, request, fault, version):
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                log = self._log(topic.name, part.partition_index)
                end = sum(h.record_count for b in log for h in walk(b))
                code = self._code(fault, topic.name)
                parts.append(
                    list_offsets.ListOffsetsResponsePartition(
                        partition_index=part.partition_index,
                        error_code=code,
                        offset=0 if part.timestamp == -2 else end,
                    )
                )
            topics.append(list_offsets.ListOffsetsResponseTopic(name=topic.name, partitions=parts))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def find_coordinator(self, request, fault, version):
        code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[
                find_coordinator.FindCoordinatorResponseCoordinator(
                    key=request.coordinator_keys[0],
                    node_id=0,
                    host="broker",
                    port=9092,
                    error_code=code,
                )
            ]
        )

    def join_group(self, request, fault, version):
        if isinstance(fault, ErrorCode):
            return join_group.JoinGroupResponse(error_code=fault, protocol_name="")
        if not request.member_id and not request.group_instance_id:
            return join_group.JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="member-1", protocol_name=""
            )
        self.generation += 1
        self.rebalance = False
        member_id = request.member_id or "static-1"
        protocol = request.protocols[0]
        return join_group.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader=member_id,
            member_id=member_id,
            members=[
                join_group.JoinGroupResponseMember(member_id=member_id, metadata=protocol.metadata)
            ],
        )

    def sync_group(self, request, fault, version):
        if isinstance(fault, ErrorCode):
            return sync_group.SyncGroupResponse(error_code=fault)
        return sync_group.SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=request.assignments[0].assignment,
        )

    def heartbeat(self, request, fault, version):
        code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
        if self.rebalance:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return heartbeat.HeartbeatResponse(error_code=code)

    def leave_group(self, request, fault, version):
        self.has_left.set()
        return leave_group.LeaveGroupResponse()

    def offset_commit(self, request, fault, version):
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
                if code is ErrorCode.NONE:
                    self.committed[topic.name, part.partition_index] = part.committed_offset
                parts.append(
                    offset_commit.OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=code
                    )
                )
            topics.append(
                offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=parts)
            )
        return offset_commit.OffsetCommitResponse(topics=topics)

    def offset_fetch(self, request, fault, version):
        (group,) = request.groups
        return offset_fetch.OffsetFetchResponse(
            groups=[
                offset_fetch.OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        offset_fetch.OffsetFetchResponseGroupTopic(
                            name=topic.name,
                            partitions=[
                                offset_fetch.OffsetFetchResponseGroupPartition(
                                    partition_index=i,
                                    committed_offset=self.committed.get((topic.name, i), -1),
                                )
                                for i in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or ()
                    ],
                )
            ]
        )


@pytest.fixture
def broker():
    """A scripted broker with the topic `t` of one partition."""
    made = ScriptedBroker()
    made.create("t")
    return made


@pytest.fixture
def settings():
    """Settings that lose no time."""
    return {
        "bootstrap.servers": "broker:9092",
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 5,
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 5,
    }
