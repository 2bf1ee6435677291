"""The steps of `docs/how-to/operate.md` for a cluster that changes, done with our tools while a judged load continues.

Three brokers become four and three again, a move is cancelled, the replication factor changes, a disk is replaced, a
leader dies. Each step is over when `kavka reassign-partitions --verify` and `kavka topics --describe` say so.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kavka.ids import TopicPartition
from kavka.testing.history import Event, Scan, Send, Type
from kavka.testing.history.workload import Load
from kavka_chaos.rounds import silences_since
from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster
from kavka_compat.our_tools import our_tool
from kavka_compat.served import run_served
from kavka_compat.traffic import assert_nothing_is_wrong, load_on

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

TOPIC, OFFSETS = "orders", "__consumer_offsets"
DRAINED, ADDED = 0, 3
STAY = (1, 2, 3)
SLOW, QUICK = 100, 50_000_000
"""Bytes a second: below what the producer writes, so that a move cannot end; and no hindrance."""
_SETTINGS = {
    # no new replica has everything with its first fetch, which no throttle holds back
    "replica.fetch.max.bytes": "2000",
    # a follower in sync that stops fetching silences its partitions for longer than the test waits
    "replica.lag.time.max.ms": "60000",
    "zookeeper.session.timeout.ms": "18000",  # Kafka's default
}
MOST_SILENCE_S = 3.0
"""The time of a kill of a leader: a sixth of the session, which decides where the death of a broker is not detected."""

Plan = dict[TopicPartition, list[int]]


class Operator:
    """The operator's commands; all brokers are named in each, also those that are away."""

    def __init__(self, cluster: MixedCluster, directory: Path) -> None:
        """Keep plans in `directory`."""
        self._cluster = cluster
        self._plan = directory / "plan.json"
        self._topics = directory / "topics.json"

    def run(self, tool: str, *words: str) -> list[str]:
        """Run a tool to its end, and return the lines that it prints."""
        at = ("--bootstrap-server", self._cluster.bootstrap)
        return our_tool(tool, *at, *words).out.splitlines()

    def generate(self, brokers: Sequence[int], *topics: str) -> Plan:
        """Ask for a plan that spreads topics over brokers."""
        moved = {"version": 1, "topics": [{"topic": topic} for topic in topics]}
        self._topics.write_text(json.dumps(moved))
        words = ("--topics-to-move-json-file", str(self._topics))
        chosen = ("--broker-list", ",".join(map(str, brokers)))
        said = self.run("reassign-partitions", "--generate", *words, *chosen)
        return {
            TopicPartition(entry["topic"], entry["partition"]): entry["replicas"]
            for entry in json.loads(said[-1])["partitions"]
        }

    def execute(self, plan: Plan, *words: str) -> None:
        """Begin to move."""
        entries = [
            {
                "topic": topic_partition.topic,
                "partition": topic_partition.partition,
                "replicas": replicas,
            }
            for topic_partition, replicas in plan.items()
        ]
        self._plan.write_text(json.dumps({"version": 1, "partitions": entries}))
        self._reassign("--execute", *words)

    def cancel(self, before: Plan) -> None:
        """Take the moves of the plan that was executed last back; the topics then look as before."""
        said = self._reassign("--cancel")
        (found,) = (line for line in said if line.startswith("Successfully cancelled"))
        assert set(found.partition("for: ")[2].split(",")) == {
            str(topic_partition) for topic_partition in before
        }
        assert self.run("reassign-partitions", "--list") == ["No partition reassignments found."]
        until(partial(self._is_described, before), 30, f"topics look like {before}")

    def is_complete(self, plan: Plan) -> bool:
        """Return whether all moves of the plan that was executed last have ended; throttles are removed then."""
        said = self._reassign("--verify")
        return all(
            f"Reassignment of partition {topic_partition} is completed." in said
            for topic_partition in plan
        )

    def complete(self, plan: Plan) -> None:
        """Verify until all is moved; the topics then look as planned, and others' replicas are gone."""
        until(partial(self.is_complete, plan), 30, "all moves have ended")
        until(partial(self._is_described, plan), 30, f"topics look like {plan}")
        assert self.run("reassign-partitions", "--list") == ["No partition reassignments found."]

    def move(self, plan: Plan, *words: str) -> None:
        """Carry a plan out."""
        self.execute(plan, *words)
        self.complete(plan)

    def prefer(self) -> None:
        """Let first replicas lead."""
        words = ("--election-type", "PREFERRED", "--all-topic-partitions")
        self.run("leader-election", *words)

    def wait_until_well(self) -> None:
        """Return when every replica is in sync: the registry knows first, what a tool prints comes from brokers."""
        self._cluster.wait_in_sync(TOPIC, OFFSETS, seconds=30)
        until(lambda: not self.finds("--under-replicated-partitions"), 30, "all are in sync")

    def finds(self, what: str) -> list[str]:
        """Return the partitions that are not well in some way."""
        return self.run("topics", "--describe", what)

    def replicas_on(self, number: int) -> list[str]:
        """Return the partitions that a broker has logs of."""
        said = self.run("log-dirs", "--describe", "--broker-list", str(number))
        (broker,) = json.loads(said[-1])["brokers"]
        return [log["partition"] for place in broker["logDirs"] for log in place["partitions"]]

    def _reassign(self, *words: str) -> list[str]:
        return self.run("reassign-partitions", *words, "--reassignment-json-file", str(self._plan))

    def _is_described(self, plan: Plan) -> bool:
        """Return whether each partition has the planned replicas, in sync, one of which leads."""
        described: dict[TopicPartition, bool] = {}
        for line in self.run("topics", "--describe"):
            words = line.split()
            if "Partition:" not in words:
                continue
            fields = {word: words[place + 1] for place, word in enumerate(words[:-1])}
            topic_partition = TopicPartition(fields["Topic:"], int(fields["Partition:"]))
            replicas = [int(number) for number in fields["Replicas:"].split(",")]
            in_sync = {int(number) for number in fields["Isr:"].split(",")}
            leads = fields["Leader:"] in fields["Replicas:"].split(",")
            described[topic_partition] = (
                leads and replicas == plan.get(topic_partition) and in_sync == set(replicas)
            )
        return all(described[topic_partition] for topic_partition in plan)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    """Brokers of ours on a served registry, with long sessions; of the fourth there is only the port."""
    with run_served(tmp_path / "registry") as registry:
        brokers = dict.fromkeys((*STAY, DRAINED), Kind.KAVKA)
        running = MixedCluster(tmp_path, registry.connect, brokers, _SETTINGS)
        running.open_registry()
        try:
            running.start(*(number for number in sorted(brokers) if number != ADDED))
            yield running
        finally:
            running.abandon()
            running.close_registry()


def add_a_broker(cluster: MixedCluster, operator: Operator, load: Load) -> None:
    """The move does not end before its throttle is raised, and producers do not feel that."""
    cluster.start(ADDED)
    plan = operator.generate((DRAINED, *STAY), TOPIC)
    assert any(ADDED in replicas for replicas in plan.values())
    operator.execute(plan, "--throttle", str(SLOW))
    assert throttles(cluster) == {"/config/brokers", "/config/topics"}
    wait_for_each(load)
    assert not operator.is_complete(plan), "the throttle has not held the move back"
    operator.move(plan, "--additional", "--throttle", str(QUICK))
    assert throttles(cluster) == set(), "the verification has left the throttle"
    operator.prefer()
    assert led_by(cluster, ADDED), "the new broker leads nothing"


def change_ones_mind(cluster: MixedCluster, operator: Operator, load: Load) -> None:
    """All replicas are on their way to the other two brokers, and are called back."""
    before = cluster.assignment(TOPIC)
    all_brokers = {DRAINED, *STAY}
    others = {n: sorted(all_brokers.difference(replicas)) for n, replicas in before.items()}
    operator.execute(of_topic(others), "--throttle", str(SLOW))
    wait_for_each(load)
    assert not operator.is_complete(of_topic(others)), "the throttle has not held the move back"
    operator.cancel(of_topic(before))
    assert cluster.assignment(TOPIC) == before
    assert throttles(cluster) == set(), "the cancellation has left the throttle"
    for partition, strangers in others.items():
        for number in strangers:
            gone = cluster.partition_directory(number, TOPIC, partition)
            until(lambda gone=gone: not gone.exists(), 30, f"{gone} is deleted")  # type: ignore[misc]
    wait_for_each(load)


def drain_the_first(cluster: MixedCluster, operator: Operator, load: Load) -> None:
    plan = operator.generate(STAY, TOPIC, OFFSETS)
    assert operator.replicas_on(DRAINED)
    operator.move(plan, "--throttle", str(QUICK))
    until(lambda: operator.replicas_on(DRAINED) == [], 30, "the drained broker has no partitions")
    wait_for_each(load)
    cluster.stop(DRAINED)
    until(lambda: cluster.registered() == set(STAY), 30, "the drained broker is forgotten")


def change_the_factor(cluster: MixedCluster, operator: Operator, load: Load) -> None:
    """To three and back; what an acknowledgement waits for is raised after the factor and lowered before."""
    before = cluster.assignment(TOPIC)
    wider = {n: [*replicas, *set(STAY).difference(replicas)] for n, replicas in before.items()}
    operator.move(of_topic(wider))
    wait_for = ("--alter", "--entity-type", "topics", "--entity-name", TOPIC)
    operator.run("configs", *wait_for, "--add-config", "min.insync.replicas=2")
    wait_for_each(load)
    operator.run("configs", *wait_for, "--add-config", "min.insync.replicas=1")
    operator.move(of_topic(before))
    for partition, replicas in before.items():
        (left,) = set(STAY).difference(replicas)
        gone = cluster.partition_directory(left, TOPIC, partition)
        until(lambda gone=gone: not gone.exists(), 30, f"{gone} is deleted")  # type: ignore[misc]


def replace_a_disk(cluster: MixedCluster, operator: Operator, load: Load) -> None:
    before = operator.replicas_on(ADDED)
    assert any(name.startswith(TOPIC) for name in before)
    operator.wait_until_well()
    cluster.stop(ADDED)
    wait_for_each(load)
    directory = cluster.partition_directory(ADDED, TOPIC, 0).parent
    shutil.rmtree(directory)
    directory.mkdir()
    assert operator.finds("--unavailable-partitions") == []
    cluster.start(ADDED)
    operator.wait_until_well()
    assert operator.replicas_on(ADDED) == before


def kill_a_leader(cluster: MixedCluster, operator: Operator, load: Load) -> None:
    """Others lead long before its session is over, because its port refuses connections."""
    operator.prefer()
    state = cluster.state(TOPIC, 0)
    assert state is not None
    killed = load.recorder.now_ns()
    cluster.kill(state.leader)
    until(lambda: not led_by(cluster, state.leader), 30, "others lead")
    wait_for_each(load)
    silence = longest_silence(load, killed)
    print(f"from the kill until the restart: longest silence {silence:.2f} s")
    assert silence < MOST_SILENCE_S
    cluster.start(state.leader)
    operator.wait_until_well()


STEPS: tuple[Callable[[MixedCluster, Operator, Load], None], ...] = (
    add_a_broker,
    change_ones_mind,
    drain_the_first,
    change_the_factor,
    replace_a_disk,
    kill_a_leader,
)


def test_a_cluster_changes_under_load_and_loses_nothing(
    cluster: MixedCluster, tmp_path: Path
) -> None:
    operator = Operator(cluster, tmp_path)
    amount = {"rate": 200, "producers": 1, "readers": 1, "members": 1}
    with load_on(cluster, TOPIC, replication_factor=2, min_insync_replicas=1, **amount) as load:
        with states_printed_on_failure(cluster):
            for step in STEPS:
                wait_for_each(load)
                begun = load.recorder.now_ns()
                step(cluster, operator, load)
                print_step(step.__name__, load, begun)
            wait_for_each(load)
        verdict = load.finish()
    assert_nothing_is_wrong(verdict)
    assert_read_as_sent(load.recorder.events)
    operator.wait_until_well()
    assert cluster.registered() == set(STAY)
    assert cluster.assert_equal_logs(TOPIC, OFFSETS) > 0
    print_step("all", load, 0)


@contextmanager
def states_printed_on_failure(cluster: MixedCluster) -> Iterator[None]:
    """Print the leaders, and the last log lines of the brokers."""
    try:
        yield
    except AssertionError:
        for partition in cluster.assignment(TOPIC):
            print(f"{TOPIC}-{partition} {cluster.state(TOPIC, partition)}")
        for number in sorted((DRAINED, *STAY)):
            print(f"-- broker {number}", *cluster.text(number).splitlines()[-60:], sep="\n")
        raise


def print_step(what: str, load: Load, begun_ns: int) -> None:
    """Show what `pytest -s` shows."""
    seconds = (load.recorder.now_ns() - begun_ns) / 1e9
    silence = longest_silence(load, begun_ns)
    print(
        f"{what}: {seconds:.1f} s, {load.acknowledged} acknowledged, longest silence {silence:.2f} s"
    )


def longest_silence(load: Load, begun_ns: int) -> float:
    """Return the longest time without an acknowledgement of a partition, in seconds; it may have begun before."""
    spans = silences_since(load.recorder.events, begun_ns)
    return max(end - begin for begin, end in spans if end > 0)


def assert_read_as_sent(events: Sequence[Event]) -> None:
    """Insist that each partition has in the end what its only producer sent, once and in that order."""
    sent: dict[TopicPartition, list[str]] = defaultdict(list)
    kept: dict[TopicPartition, list[str]] = {}
    for event in events:
        match event:
            case Event(type=Type.INVOKE, action=Send(partition=topic_partition, value=value)):
                sent[topic_partition].append(value)
            case Event(type=Type.OK, action=Scan(partition=topic_partition, records=records)):
                kept[topic_partition] = [record.value for record in records]
    assert kept == sent


def wait_for_each(load: Load) -> None:
    """Return when each partition has acknowledged some more records."""
    past = len(load.recorder.events)

    def is_done() -> bool:
        counts = Counter(
            event.action.partition
            for event in load.recorder.events[past:]
            if isinstance(event.action, Send) and event.type is Type.OK
        )
        return len(counts) == load.settings.partitions and min(counts.values()) >= 20

    load.wait_for(20 * load.settings.partitions)
    until(is_done, 30, "no partition is silent")


def of_topic(assignment: Mapping[int, list[int]]) -> Plan:
    return {TopicPartition(TOPIC, number): replicas for number, replicas in assignment.items()}


def led_by(cluster: MixedCluster, number: int) -> list[int]:
    """Return the partitions of the topic that a broker leads."""
    states = {n: cluster.state(TOPIC, n) for n in cluster.assignment(TOPIC)}
    return [n for n, state in states.items() if state is not None and state.leader == number]


def throttles(cluster: MixedCluster) -> set[str]:
    """Return where the registry keeps settings of a throttle."""
    return {
        folder
        for folder in ("/config/brokers", "/config/topics")
        for name in cluster.children(folder)
        for setting in cluster.node(f"{folder}/{name}")["config"]
        if ".replication.throttled." in setting
    }
