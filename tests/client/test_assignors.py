from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.consumer.group.assignors import ASSIGNORS, by_topic, flatten
from kavka.ids import TopicPartition
from kavka.wire.consumer_protocol import (
    Subscription,
    decode_subscription,
    encode_subscription,
)
from support.group_members import MEMBERS, TOPICS, member, members_of


def ours(name, counts, members):
    return {m: sorted(got) for m, got in ASSIGNORS[name].assign(counts, members).items()}


@given(TOPICS, MEMBERS, st.sampled_from(sorted(ASSIGNORS)))
def test_every_wanted_partition_has_exactly_one_owner_that_wants_it(counts, pairs, name):
    response = ASSIGNORS[name].assign(counts, members_of(pairs))
    owners = Counter(topic_partition for got in response.values() for topic_partition in got)
    wanted = {topic for _, topics in pairs for topic in topics}
    assert owners == Counter(
        TopicPartition(t, p) for t, n in counts.items() if t in wanted for p in range(n)
    )
    for member_id, topics in pairs:
        assert all(topic_partition.topic in topics for topic_partition in response[member_id])


def owning(member_id, topics, owned, generation):
    data = ASSIGNORS["sticky"].user_data(owned, generation)
    return member(
        member_id,
        topics,
        user_data=data,
        owned_partitions=by_topic(owned),
        generation_id=generation,
    )


@given(TOPICS, st.integers(2, 6), st.sampled_from(["sticky", "cooperative-sticky"]))
def test_members_that_stay_keep_all_they_have_when_one_leaves(counts, size, name):
    members = [member(f"m{i}", counts) for i in range(size)]
    before = ASSIGNORS[name].assign(counts, members)
    staying = [owning(f"m{i}", counts, before[f"m{i}"], 1) for i in range(size - 1)]
    after = ASSIGNORS[name].assign(counts, staying)
    for i in range(size - 1):
        assert set(before[f"m{i}"]) <= set(after[f"m{i}"])


def test_a_newcomer_takes_only_what_balance_asks_for() -> None:
    counts = {"t": 4}
    owned = [TopicPartition("t", p) for p in range(4)]
    members = [owning("old", ["t"], owned, 3), owning("new", ["t"], [], -1)]
    assert ours("sticky", counts, members) == {"old": owned[:2], "new": owned[2:]}


def test_cooperative_sticky_moves_in_two_steps() -> None:
    counts = {"t": 4}
    owned = [TopicPartition("t", p) for p in range(4)]
    first = ours(
        "cooperative-sticky", counts, [owning("old", ["t"], owned, 3), owning("new", ["t"], [], -1)]
    )
    assert first == {"old": owned[:2], "new": []}
    second = ours(
        "cooperative-sticky",
        counts,
        [owning("old", ["t"], owned[:2], 4), owning("new", ["t"], [], 4)],
    )
    assert second == {"old": owned[:2], "new": owned[2:]}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_the_newest_claim_on_a_partition_wins(name: str) -> None:
    owned = [TopicPartition("t", 0), TopicPartition("t", 1)]
    members = [owning("stale", ["t"], owned, 1), owning("fresh", ["t"], owned[:1], 2)]
    assert ours("sticky", {"t": 2}, members) == {"fresh": owned[:1], "stale": owned[1:]}


def test_different_subscriptions_are_balanced_as_far_as_they_allow() -> None:
    counts = {"a": 6, "b": 2}
    members = [member("only-a", ["a"]), member("both", ["a", "b"])]
    loads = {m: len(got) for m, got in ours("sticky", counts, members).items()}
    assert loads == {"only-a": 4, "both": 4}


def test_static_members_rank_by_their_instance_ids() -> None:
    members = [member("z", ["t"], "i1"), member("a", ["t"], "i2"), member("b", ["t"])]
    response = ours("range", {"t": 3}, members)
    assert {
        m: [topic_partition.partition for topic_partition in got] for m, got in response.items()
    } == {
        "z": [0],
        "a": [1],
        "b": [2],
    }


def test_sticky_user_data_is_javas() -> None:
    data = ASSIGNORS["sticky"].user_data([TopicPartition("t", 1), TopicPartition("t", 0)], 7)
    assert data == b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\7"
    assert ASSIGNORS["cooperative-sticky"].user_data([], 7) == b"\0\0\0\7"


def test_subscriptions_travel_whole() -> None:
    owned = [TopicPartition("t", 2), TopicPartition("a", 0)]
    sent = Subscription(topics=["t"], owned_partitions=by_topic(owned), generation_id=4)
    assert flatten(decode_subscription(encode_subscription(sent)).owned_partitions) == sorted(owned)
