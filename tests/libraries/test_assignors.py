"""The assignors beside kafka-python's."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from kavka.client.consumer.group.assignors import ASSIGNORS
from kavka.ids import TopicPartition
from support.group_members import MEMBERS, TOPICS, members_of


class FakeCluster(ClusterMetadata):
    """kafka-python asks only for partition counts."""

    def __init__(self, counts):
        self._counts = counts

    def partitions_for_topic(self, topic):
        return set(range(self._counts[topic])) if topic in self._counts else None

    def topics(self, exclude_internal_topics=True):
        return set(self._counts)


def theirs(assignor, counts, pairs):
    """Run kafka-python's assignor; return its response as ours."""
    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    group = []
    for member_id, topics in pairs:
        metadata = ConsumerProtocolSubscription(version=0, topics=sorted(topics), user_data=b"")
        group.append(
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member_id, group_instance_id=None, metadata=metadata
            )
        )
    response = assignor.assign(FakeCluster(counts), group)
    return {
        member_id: sorted(
            TopicPartition(topic, p)
            for topic, partitions in assignment.assigned_partitions
            for p in partitions
        )
        for member_id, assignment in response.items()
    }


def ours(name, counts, members):
    return {m: sorted(got) for m, got in ASSIGNORS[name].assign(counts, members).items()}


@given(TOPICS, MEMBERS)
def test_range_equals_another_implementation(counts, pairs):
    wanted = {topic for _, topics in pairs for topic in topics}
    counts = {topic: count for topic, count in counts.items() if topic in wanted}
    pairs = [(m, topics & counts.keys()) for m, topics in pairs if topics & counts.keys()]
    if pairs:
        expected = theirs(RangePartitionAssignor(), counts, pairs)
        assert ours("range", counts, members_of(pairs)) == {
            m: expected.get(m, []) for m, _ in pairs
        }


@given(TOPICS, st.integers(1, 6))
def test_roundrobin_equals_another_implementation(counts, size):
    pairs = [(f"m{i}", set(counts)) for i in range(size)]
    expected = theirs(RoundRobinPartitionAssignor(), counts, pairs)
    assert ours("roundrobin", counts, members_of(pairs)) == {
        m: expected.get(m, []) for m, _ in pairs
    }


@given(TOPICS, st.integers(1, 6))
def test_sticky_with_equal_subscriptions_is_balanced_like_another_implementation(counts, size):
    pairs = [(f"m{i}", set(counts)) for i in range(size)]
    response = ours("sticky", counts, members_of(pairs))
    expected = theirs(StickyPartitionAssignor(), counts, pairs)
    loads = sorted(len(got) for got in response.values())
    assert loads[-1] - loads[0] <= 1
    assert loads == sorted(len(got) for got in expected.values())
