"""A scripted broker in memory: the real codec over a fake network, with faults on demand."""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from kavka.core.fetch_session import FetchOutcome, FetchPartition, FetchSessionCache
from kavka.errors import ErrorCode
from kavka.net.frames import FrameReader
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import decode
from kavka.wire.frame import decode_request_header, encode_response
from kavka.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    create_topics,
    delete_records,
    describe_groups,
    end_txn,
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
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
)
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import assign, walk

LOSE_REQUEST = "lose the request"
LOSE_ANSWER = "lose the answer"
OF_THE_COORDINATOR = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
OF_THE_CONTROLLER = (ApiKey.CREATE_TOPICS,)


def host_of(node):
    return "broker" if node == 0 else f"b{node}"


def endpoint_of(kind, node):
    return kind(node_id=node, host=host_of(node), port=9092)


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


@dataclass
class Known:
    """A transactional id."""

    producer_id: int
    epoch: int = -1
    partitions: list = field(default_factory=list)  # type: ignore[type-arg]
    offsets: dict = field(default_factory=dict)  # type: ignore[type-arg]


class ScriptedTransactions:
    """The coordinator of all transactional ids: `ended` has (id, committed, partitions, offsets)."""

    def __init__(self):
        self.ids = {}
        self.ended = []
        self._next = 2000

    def init_producer_id(self, request, fault, version):
        code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
        known = self.ids.get(request.transactional_id)
        if known is None:
            self._next += 1
            known = self.ids[request.transactional_id] = Known(self._next)
        elif request.producer_id >= 0 and request.producer_epoch not in (
            known.epoch,
            known.epoch - 1,
        ):
            code = ErrorCode.PRODUCER_FENCED
        if code:
            return init_producer_id.InitProducerIdResponse(error_code=code)
        if known.partitions:
            self._end(request.transactional_id, known, False)
        known.epoch += 1
        return init_producer_id.InitProducerIdResponse(
            producer_id=known.producer_id, producer_epoch=known.epoch
        )

    def _check(self, transactional_id, producer_id, epoch, fault):
        known = self.ids.get(transactional_id)
        if isinstance(fault, ErrorCode):
            return known, fault
        if known is None or known.producer_id != producer_id:
            return known, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return known, ErrorCode.NONE if known.epoch == epoch else ErrorCode.PRODUCER_FENCED

    def add_partitions_to_txn(self, request, fault, version):
        known, code = self._check(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            fault,
        )
        topics = []
        for topic in request.v3_and_below_topics:
            if not code:
                known.partitions += [(topic.name, p) for p in topic.partitions]
            parts = [
                add_partitions_to_txn.AddPartitionsToTxnResponsePartition(
                    partition_index=p, partition_error_code=code
                )
                for p in topic.partitions
            ]
            topics.append(
                add_partitions_to_txn.AddPartitionsToTxnResponseTopic(
                    name=topic.name, results_by_partition=parts
                )
            )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=topics
        )

    def add_offsets_to_txn(self, request, fault, version):
        known, code = self._check(
            request.transactional_id, request.producer_id, request.producer_epoch, fault
        )
        if not code:
            known.partitions.append(("__consumer_offsets", 0))
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)

    def add(self, transactional_id, partition):
        """Have a partition take part because something for it has come (version 2)."""
        known = self.ids[transactional_id]
        if partition not in known.partitions:
            known.partitions.append(partition)

    def txn_offset_commit(self, request, fault, version):
        known, code = self._check(
            request.transactional_id, request.producer_id, request.producer_epoch, fault
        )
        if version >= 5 and not code:
            self.add(request.transactional_id, ("__consumer_offsets", 0))
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                if not code:
                    known.offsets[topic.name, part.partition_index] = part.committed_offset
                parts.append(
                    txn_offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=code
                    )
                )
            topics.append(
                txn_offset_commit.TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts)
            )
        return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)

    def _end_with_new_epoch(self, request, fault):
        name, epoch, committed = request.transactional_id, request.producer_epoch, request.committed
        known = self.ids[name]
        code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
        is_repeat = known.epoch == epoch + 1 and not known.partitions
        if not code and is_repeat:
            code = ErrorCode.NONE if self.ended[-1][1] is committed else ErrorCode.INVALID_TXN_STATE
        elif not code and known.epoch != epoch:
            code = ErrorCode.PRODUCER_FENCED
        elif not code and committed and not known.partitions:
            code = ErrorCode.INVALID_TXN_STATE
        elif not code:
            self._end(name, known, committed)
            known.epoch += 1
        if code:
            return end_txn.EndTxnResponse(error_code=code)
        return end_txn.EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def end_txn(self, request, fault, version):
        if version >= 5:
            return self._end_with_new_epoch(request, fault)
        known, code = self._check(
            request.transactional_id, request.producer_id, request.producer_epoch, fault
        )
        if not code and not known.partitions:
            again = self.ended and self.ended[-1][:2] == (
                request.transactional_id,
                request.committed,
            )
            code = ErrorCode.NONE if again else ErrorCode.INVALID_TXN_STATE
        elif not code:
            self._end(request.transactional_id, known, request.committed)
        return end_txn.EndTxnResponse(error_code=code)

    def _end(self, transactional_id, known, committed):
        self.ended.append((transactional_id, committed, known.partitions, known.offsets))
        known.partitions, known.offsets = [], {}


class ScriptedBroker:
    """Broker 0, one per test, that keeps logs and groups of one member as Kafka would.

    `faults[api]` is a queue of what happens to the next requests of an API: an ErrorCode to answer, LOSE_REQUEST,
    LOSE_ANSWER, or None for nothing special.

    A test may make it a cluster: `nodes` are its brokers, which share the logs, and `leaders` says who leads what in
    which epoch. Node 0 is the host `broker`, node 1 `b1` and so on. Nodes in `down` refuse connections, those in
    `silent` take them and never answer.
    """

    def __init__(self):
        self.nodes = [0]
        self.leaders = {}
        self.epoch_ends = {}
        self.down = set()
        self.silent = set()
        self.gives_hints = False
        self.near = {}  # (topic, partition): the node that a consumer with a rack should read from
        self.controller = 0
        self.coordinator = 0
        self.throttle_ms = defaultdict(deque)
        self.asked = []  # (api, node)
        self.over_quota = set()
        self.refused_topics = {}  # name: what its metadata says in place of partitions
        self.sessions = defaultdict(lambda: FetchSessionCache(10))
        self.topics = {}
        self.ids = {}
        self.faults = defaultdict(deque)
        self.requests = []
        self.max_batch_bytes = 1 << 20
        self.committed = {}
        self.committed_epochs = {}
        self.producers = {}
        self.generation = 0
        self.members = {}
        self.rebalance = False
        self.next_producer_id = 1000
        self.transaction_version = 0
        self.versions = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
        self.is_down = False
        self.wires = []
        self.has_left = asyncio.Event()
        self.transactions = ScriptedTransactions()
        for name in ("add_partitions_to_txn", "add_offsets_to_txn", "txn_offset_commit", "end_txn"):
            setattr(self, name, getattr(self.transactions, name))

    def create(self, topic, partitions=1):
        self.topics[topic] = [[] for _ in range(partitions)]

    def records(self, topic, partition=0):
        """Return (offset, key, value) of everything in a log."""
        found = []
        for batch in self.topics[topic][partition]:
            for header in walk(batch):
                found += [(r.offset, r.key, r.value) for r in decode_records(batch, header)]
        return found

    def on_the_way(self, records):
        """Return the records of an answer as they arrive; tests damage them here."""
        return records

    def seen(self, api):
        return [request for key, request in self.requests if key == api]

    # The network door

    async def connect(self, host, port, make):
        await asyncio.sleep(0)
        node = 0 if host == "broker" else int(host.removeprefix("b"))
        if self.is_down or node in self.down:
            raise ConnectionRefusedError("nobody listens")
        wire = make()
        wire.test_node = node
        reader = FrameReader(lambda frame: self._on_frame(wire, frame), 1 << 27)

        def receive(data):
            view = memoryview(data)
            while view:
                buffer = reader.get_buffer(-1)
                count = min(len(buffer), len(view))
                buffer[:count] = view[:count]
                reader.buffer_updated(count)
                view = view[count:]

        lost: list[Any] = []

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

    def kill(self, node):
        """End a node: its connections are lost and new ones are refused."""
        self.down.add(node)
        for wire in self.wires:
            if wire.test_node == node:
                wire.test_close()

    def _on_frame(self, wire, frame):
        if wire.test_node in self.silent:
            return
        self.node = wire.test_node
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
        self.asked.append((key, self.node))
        fault = self.faults[key].popleft() if self.faults[key] else None
        if fault == LOSE_REQUEST:
            wire.test_close()
            return
        if key in OF_THE_COORDINATOR and self.node != self.coordinator and fault is None:
            fault = ErrorCode.NOT_COORDINATOR
        if key in OF_THE_CONTROLLER and self.node != self.controller and fault is None:
            fault = ErrorCode.NOT_CONTROLLER
        self._asking = (wire, header.correlation_id)
        answer = getattr(self, key.name.lower())(request, fault, header.api_version)
        if fault == LOSE_ANSWER:
            wire.test_close()
        elif answer is not None:
            self._send(wire, answer, header.api_version, header.correlation_id)

    def _send(self, wire, answer, version, correlation_id):
        throttles = self.throttle_ms[type(answer)]
        if throttles:
            answer.throttle_time_ms = throttles.popleft()
        data = b"".join(bytes(p) for p in encode_response(answer, version, correlation_id))  # type: ignore[arg-type]
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
            ],
            finalized_features_epoch=0,
            finalized_features=[
                api_versions.ApiVersionsResponseFinalizedFeature(
                    name="transaction.version", max_version_level=self.transaction_version
                )
            ],
        )

    def metadata(self, request, fault, version):
        names = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=n, host=host_of(n), port=9092)
                for n in self.nodes
                if n not in self.down
            ],
            cluster_id="memory",
            controller_id=self.controller,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name):
        if name in self.refused_topics or name not in self.topics:
            code = self.refused_topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return metadata.MetadataResponseTopic(name=name, error_code=code)
        return metadata.MetadataResponseTopic(
            name=name,
            topic_id=name.encode().ljust(16, b"\0")[:16],
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=i,
                    leader_id=self.leader(name, i)[0],
                    leader_epoch=self.leader(name, i)[1],
                    replica_nodes=self.nodes,
                    isr_nodes=self.nodes,
                )
                for i in range(len(self.topics[name]))
            ],
        )

    def leader(self, topic, partition):
        """Return (node, epoch)."""
        return self.leaders.get((topic, partition), (0, 0))

    def _refusal(self, topic, partition, epoch=-1):
        leader, current = self.leader(topic, partition)
        if leader != self.node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= epoch < current:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > current else ErrorCode.NONE

    def _hint(self, answer, module, topic, partition, code):
        """Name the leader in a refusal (KIP-951)."""
        if self.gives_hints and code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, epoch = self.leader(topic, partition)
            answer.current_leader.leader_id = leader
            answer.current_leader.leader_epoch = epoch
            self.endpoints.append(endpoint_of(module, leader))

    def offset_for_leader_epoch(self, request, fault, version):
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                at = (topic.topic, part.partition)
                code = self._refusal(*at, part.current_leader_epoch)
                code = fault if isinstance(fault, ErrorCode) else code
                epoch, end = self.epoch_ends.get(at, (part.leader_epoch, 1 << 40))
                parts.append(
                    offset_for_leader_epoch.OffsetForLeaderEpochResponsePartition(
                        partition=part.partition,
                        error_code=code,
                        leader_epoch=-1 if code else epoch,
                        end_offset=-1 if code else end,
                    )
                )
            topics.append(
                offset_for_leader_epoch.OffsetForLeaderEpochResponseTopic(
                    topic=topic.topic, partitions=parts
                )
            )
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=topics)

    def init_producer_id(self, request, fault, version):
        if request.transactional_id is not None:
            return self.transactions.init_producer_id(request, fault, version)
        if isinstance(fault, ErrorCode):
            return init_producer_id.InitProducerIdResponse(error_code=fault)
        self.next_producer_id += 1
        return init_producer_id.InitProducerIdResponse(producer_id=self.next_producer_id)

    def produce(self, request, fault, version):
        topics = []
        self.endpoints: list[Any] = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                code, offset = fault, -1
                if not isinstance(fault, ErrorCode):
                    code = self._refusal(topic.name, part.index)
                if code is ErrorCode.NONE:
                    code, offset = self._append(topic.name, part.index, bytearray(part.records))
                    if version >= 12 and request.transactional_id is not None and not code:
                        self.transactions.add(request.transactional_id, (topic.name, part.index))
                made = produce.ProduceResponsePartition(
                    index=part.index, error_code=code, base_offset=offset
                )
                self._hint(made, produce.ProduceResponseNodeEndpoint, topic.name, part.index, code)
                parts.append(made)
            topics.append(produce.ProduceResponseTopic(name=topic.name, partition_responses=parts))
        if request.acks == 0:
            return None
        return produce.ProduceResponse(responses=topics, node_endpoints=self.endpoints)

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
        assign(batch, header, end, self.leader(topic, partition)[1])
        log.append(batch)
        return ErrorCode.NONE, end

    def _log(self, topic, partition):
        return self.topics[topic][partition] if topic in self.topics else []

    def _code(self, fault, topic):
        if isinstance(fault, ErrorCode):
            return fault
        return ErrorCode.NONE if topic in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def fetch(self, request, fault, version):
        self.endpoints = []
        names = {self._topic(name).topic_id: name for name in self.topics}
        wanted = {
            (t.topic or names[t.topic_id], p.partition): FetchPartition(
                p.fetch_offset, p.partition_max_bytes, p.current_leader_epoch
            )
            for t in request.topics
            for p in t.partitions
        }
        forgotten = [
            (t.topic or names[t.topic_id], p)
            for t in request.forgotten_topics_data
            for p in t.partitions
        ]
        if isinstance(fault, ErrorCode) and fault.name.startswith(("FETCH_S", "INVALID_FETCH_S")):
            return fetch.FetchResponse(error_code=fault)
        session = self.sessions[self.node].begin(
            request.session_id, request.session_epoch, wanted, forgotten,
            by_topic_id=False, is_follower=False, now_ms=0,
        )  # fmt: skip
        if isinstance(session, ErrorCode):
            return fetch.FetchResponse(error_code=session)
        found = {
            at: self._fetch_part(at, want, fault, request) for at, want in session.partitions()
        }
        outcomes = {
            at: FetchOutcome(
                part.error_code, part.high_watermark, 0, len(part.records),
                part.preferred_read_replica,
            )
            for at, part in found.items()
        }  # fmt: skip
        head = session.finish(outcomes, len(self.requests), 0)
        topics: dict[Any, Any] = {}
        for at in head.partitions:
            topic_id = bytes(16) if version < 13 else self._topic(at[0]).topic_id
            topic = topics.setdefault(
                at[0], fetch.FetchResponseTopic(topic=at[0], topic_id=topic_id, partitions=[])
            )
            topic.partitions.append(found[at])
        answer = fetch.FetchResponse(
            responses=list(topics.values()),
            session_id=head.session_id,
            node_endpoints=self.endpoints,
        )
        if any(part.records or part.error_code for part in found.values()):
            return answer
        self._park(answer, version)
        return None

    def _fetch_part(self, at, want, fault, request):
        log = self._log(*at)
        headers = [(b, h) for b in log for h in walk(b)]
        end = headers[-1][1].last_offset + 1 if headers else 0
        code = self._code(fault, at[0])
        near = self.near.get(at) if request.rack_id else None
        if code is ErrorCode.NONE and near != self.node:
            code = self._refusal(*at, want.current_leader_epoch)  # type: ignore[call-arg]
        if want.fetch_offset > end and code is ErrorCode.NONE:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        is_sent_away = near is not None and near != self.node
        data = [b for b, h in headers if h.last_offset >= want.fetch_offset]
        part = fetch.FetchResponsePartition(
            partition_index=at[1],
            error_code=code,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=None,
            preferred_read_replica=near if is_sent_away and not code else -1,  # type: ignore[arg-type]
            records=b"" if code or is_sent_away else self.on_the_way(b"".join(data[:2])),
        )
        self._hint(part, fetch.FetchResponseNodeEndpoint, *at, code)  # type: ignore[call-arg]
        return part

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
                if code is ErrorCode.NONE:
                    code = self._refusal(topic.name, part.partition_index)
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
                    node_id=self.coordinator,
                    host=host_of(self.coordinator),
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
                    self.committed_epochs[topic.name, part.partition_index] = (
                        part.committed_leader_epoch
                    )
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
        if isinstance(fault, ErrorCode):
            refused = offset_fetch.OffsetFetchResponseGroup(
                group_id=group.group_id, topics=[], error_code=fault
            )
            return offset_fetch.OffsetFetchResponse(groups=[refused])
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
                                    committed_leader_epoch=self.committed_epochs.get(
                                        (topic.name, i), -1
                                    ),
                                )
                                for i in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or ()
                    ],
                )
            ]
        )

    def create_topics(self, request, fault, version):
        answers = []
        for topic in request.topics:
            code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
            if code is ErrorCode.NONE and topic.name in self.topics:
                code = ErrorCode.TOPIC_ALREADY_EXISTS
            if code is ErrorCode.NONE and topic.name in self.over_quota:
                self.over_quota.remove(topic.name)
                code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            if code is ErrorCode.NONE:
                self.create(topic.name, max(topic.num_partitions, 1))
            answers.append(
                create_topics.CreateTopicsResponseTopic(name=topic.name, error_code=code)
            )
        return create_topics.CreateTopicsResponse(topics=answers)

    def delete_records(self, request, fault, version):
        return delete_records.DeleteRecordsResponse(
            topics=[
                delete_records.DeleteRecordsResponseTopic(
                    name=topic.name,
                    partitions=[
                        delete_records.DeleteRecordsResponsePartition(
                            partition_index=part.partition_index,
                            low_watermark=0 if self._code(fault, topic.name) else part.offset,
                            error_code=self._code(fault, topic.name)
                            or self._refusal(topic.name, part.partition_index),
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def describe_groups(self, request, fault, version):
        code = fault if isinstance(fault, ErrorCode) else ErrorCode.NONE
        return describe_groups.DescribeGroupsResponse(
            groups=[
                describe_groups.DescribeGroupsResponseGroup(
                    group_id=group, error_code=code, group_state="" if code else "Stable"
                )
                for group in request.groups
            ]
        )
