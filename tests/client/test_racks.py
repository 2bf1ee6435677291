"""Rack-aware assignment: the layouts of KIP-881, and what must hold of every group."""

import asyncio
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kavka.client import Admin, Consumer, NewTopic
from kavka.client.consumer.group.assignors import ASSIGNORS, Member, RackAware, by_topic
from kavka.client.consumer.group.racks import racks_matter
from kavka.client.metadata import MetadataCache
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.wire.apis import ApiKey
from kavka.wire.consumer_protocol import Subscription
from kavka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from support.examples import examples

AWARE = ["range", "sticky", "cooperative-sticky"]
STICKY = ["sticky", "cooperative-sticky"]
ALL = ["t1", "t2", "t3"]


def member(member_id, topics, rack, owned=(), generation=-1):
    subscription = Subscription(
        topics=sorted(topics),
        user_data=ASSIGNORS["sticky"].user_data(list(owned), generation),
        owned_partitions=by_topic(list(owned)),
        generation_id=generation,
        rack_id=rack,
    )
    return Member(member_id, None, subscription)


def spread(counts, replicas, brokers):
    """Place replicas on brokers in turn, on from one topic to the next; the racks of brokers are letters, - is none."""
    racks, start = {}, 0
    for topic, count in counts.items():
        for p in range(count):
            near = (brokers[(start + p + i) % len(brokers)] for i in range(replicas))
            racks[TopicPartition(topic, p)] = frozenset(r for r in near if r != "-")
        start += count
    return racks


def share(name, counts, members, racks):
    return ASSIGNORS[name].assign_with_racks(counts, members, racks)  # type: ignore[attr-defined]


def adopt(members, response, generation=1):
    """Return the members of the next generation, with their assignments as owned partitions."""
    return [
        member(
            m.member_id,
            m.subscription.topics,
            m.subscription.rack_id,
            response[m.member_id],
            generation,
        )
        for m in members
    ]


def settled(name, counts, members, racks):
    """Rebalance until no member has a partition to give up; return the members with their owned partitions."""
    response = share(name, counts, members, racks)
    for generation in range(2, 6):
        members = adopt(members, response, generation)
        after = share(name, counts, members, racks)
        if after == response and sum(map(len, after.values())) == wanted_count(counts, members):
            return members, after
        response = after
    raise AssertionError("partitions go round and round")


def wanted_count(counts, members):
    wanted = {topic for m in members for topic in m.subscription.topics}
    return sum(count for topic, count in counts.items() if topic in wanted)


def near_count(members, response, racks):
    """Return the number of partitions in the rack of their reader."""
    return sum(m.rack in racks[partition] for m in members for partition in response[m.member_id])


def loads(response):
    return sorted(len(got) for got in response.values())


def partitions_of(text):
    """Read `t1: 0 3, t2: 1` as partitions."""
    topics = (part.split(": ") for part in text.split(", "))
    return [TopicPartition(topic, int(p)) for topic, numbers in topics for p in numbers.split()]


# KIP-881 and Kafka 3.9: groups of three, members in racks a, b and c, replicas in turn on brokers.


def three(subscriptions=(ALL, ALL, ALL), racks="abc"):
    return [
        member(f"m{i}", topics, None if rack == "-" else rack)
        for i, (topics, rack) in enumerate(zip(subscriptions, racks, strict=True))
    ]


MIXED = {"t1": 6, "t2": 7, "t3": 2}
EVEN = {"t1": 5, "t2": 5, "t3": 5}
LAST_WITHOUT_T2 = (ALL, ALL, ["t1", "t3"])


@pytest.mark.parametrize(
    ("counts", "subscriptions", "replicas", "brokers", "expected"),
    [
        (MIXED, (ALL, ALL, ALL), 1, "abc",
         ["t1: 0 3, t2: 0 3 6", "t1: 1 4, t2: 1 4, t3: 0", "t1: 2 5, t2: 2 5, t3: 1"]),
        (MIXED, (ALL, ALL, ALL), 2, "abc",
         ["t1: 0 2, t2: 0 2 3, t3: 1", "t1: 1 3, t2: 1 4, t3: 0", "t1: 4 5, t2: 5 6"]),
        (MIXED, (ALL, ALL, ALL), 2, "ab",
         ["t1: 0 1, t2: 0 1 2, t3: 0", "t1: 2 3, t2: 3 4, t3: 1", "t1: 4 5, t2: 5 6"]),
        (MIXED, LAST_WITHOUT_T2, 1, "abc",
         ["t1: 0 3, t2: 0 2 3 6", "t1: 1 4, t2: 1 4 5, t3: 0", "t1: 2 5, t3: 1"]),
        (MIXED, LAST_WITHOUT_T2, 2, "abc",
         ["t1: 0 2, t2: 0 2 3 5, t3: 1", "t1: 1 3, t2: 1 4 6, t3: 0", "t1: 4 5"]),
        (EVEN, (ALL, ALL, ALL), 1, "abc",
         ["t1: 0 1, t2: 0 1, t3: 0 1", "t1: 2 3, t2: 2 3, t3: 2 3", "t1: 4, t2: 4, t3: 4"]),
        (EVEN, LAST_WITHOUT_T2, 1, "abc",
         ["t1: 0 1, t2: 0 1 4, t3: 0 1", "t1: 2 3, t2: 2 3, t3: 2 3", "t1: 4, t3: 4"]),
        (EVEN, LAST_WITHOUT_T2, 2, "abc",
         ["t1: 2, t2: 0 1 3, t3: 2", "t1: 0 3, t2: 2 4, t3: 0 3", "t1: 1 4, t3: 1 4"]),
    ],
)  # fmt: skip
def test_range_gives_what_kafka_gives(counts, subscriptions, replicas, brokers, expected):
    response = share("range", counts, three(subscriptions), spread(counts, replicas, brokers))
    assert {m: sorted(got) for m, got in response.items()} == {
        f"m{i}": partitions_of(text) for i, text in enumerate(expected)
    }


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ("ab", ["0 2, 0", "1 3, 1", "5", "4"]),
        ("abc", ["0 3, 0", "1 4, 1", "2", "5"]),
    ],
)
def test_range_gives_what_kafka_gives_of_topics_that_are_read_together(brokers, expected):
    """Two topics of six partitions and two of two; the numbers of the latter are together for lack of a common rack."""
    counts = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
    members = [member(f"m{i}", counts, rack) for i, rack in enumerate("abba")]
    response = share("range", counts, members, spread(counts, 1, brokers))
    for i, text in enumerate(expected):
        of_six, _, of_two = text.partition(", ")
        wanted = [TopicPartition(t, int(p)) for t in ("t1", "t2") for p in of_six.split()]
        wanted += [TopicPartition(t, int(p)) for t in ("t3", "t4") for p in of_two.split()]
        assert sorted(response[f"m{i}"]) == wanted


@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize(
    ("subscriptions", "replicas", "brokers", "strays"),
    [
        ((ALL, ALL, ALL), 1, "abc", 0),
        ((ALL, ALL, ALL), 2, "abc", 0),
        ((ALL, ALL, ALL), 2, "ab", 5),
        (LAST_WITHOUT_T2, 1, "abc", 4),
        (LAST_WITHOUT_T2, 2, "abc", 0),
        (LAST_WITHOUT_T2, 2, "ab", 5),
    ],
)
def test_sticky_leaves_no_more_astray_than_kafka(name, subscriptions, replicas, brokers, strays):
    members, racks = three(subscriptions), spread(MIXED, replicas, brokers)
    response = share(name, MIXED, members, racks)
    assert loads(response) == [5, 5, 5]
    assert 15 - near_count(members, response, racks) <= strays


@pytest.mark.parametrize("name", STICKY)
def test_sticky_moves_what_is_owned_in_the_wrong_rack(name):
    owned = ["t1: 0 1 2 3 4", "t1: 5, t2: 0 1 2 3", "t2: 4 5 6, t3: 0 1"]
    members = [
        member(f"m{i}", ALL, "abc"[i], partitions_of(text), generation=1)
        for i, text in enumerate(owned)
    ]
    racks = spread(MIXED, 1, "abc")
    members, response = settled(name, MIXED, members, racks)
    assert near_count(members, response, racks) == 15
    assert loads(response) == [5, 5, 5]


def test_cooperative_member_keeps_what_is_near_while_the_rest_is_taken_away() -> None:
    owned = ["t1: 0 1 2 3 4", "t1: 5, t2: 0 1 2 3", "t2: 4 5 6, t3: 0 1"]
    members = [
        member(f"m{i}", ALL, "abc"[i], partitions_of(text), generation=1)
        for i, text in enumerate(owned)
    ]
    response = share("cooperative-sticky", MIXED, members, spread(MIXED, 1, "abc"))
    assert {m: sorted(got) for m, got in response.items()} == {
        "m0": partitions_of("t1: 0 3"),
        "m1": partitions_of("t2: 1"),
        "m2": partitions_of("t2: 5, t3: 1"),
    }


@pytest.mark.parametrize("name", STICKY)
def test_exchange_goes_through_others_when_no_two_members_gain(name):
    """m1 could read p, but only if it passes q on to m2, which has something for m0."""
    members = [member("m0", ["t"], "x"), member("m1", ["t"], "a"), member("m2", ["t"], "b")]
    racks = dict(zip(
        partitions_of("t: 0 1 2"), map(frozenset, ({"a"}, {"a", "b"}, {"x"})), strict=True
    ))  # fmt: skip
    response = share(name, {"t": 3}, members, racks)
    assert response == {
        "m0": partitions_of("t: 2"),
        "m1": partitions_of("t: 0"),
        "m2": partitions_of("t: 1"),
    }


@pytest.mark.parametrize("name", STICKY)
def test_the_member_with_one_more_may_change_for_a_rack(name):
    members = [member("m0", ["t"], "x"), member("m1", ["t"], "a"), member("m2", ["t"], "b")]
    racks = dict(zip(
        partitions_of("t: 0 1 2 3"), map(frozenset, ({"y"}, {"b"}, {"b"}, {"y"})), strict=True
    ))  # fmt: skip
    response = share(name, {"t": 4}, members, racks)
    assert sorted(response["m2"]) == partitions_of("t: 1 2")
    assert loads(response) == [1, 1, 2]


def test_topics_that_are_read_together_stay_together() -> None:
    """Each number is in other racks in every topic: a rack is worth less than the same numbers of both."""
    members = [member("m0", ["t", "u"], "a"), member("m1", ["t", "u"], "b")]
    racks = {
        TopicPartition(topic, p): frozenset("ab"[(p + shift) % 2])
        for topic, shift in (("t", 0), ("u", 1))
        for p in range(4)
    }
    response = share("range", {"t": 4, "u": 4}, members, racks)
    assert response == {
        "m0": partitions_of("t: 0 1, u: 0 1"),
        "m1": partitions_of("t: 2 3, u: 2 3"),
    }


@pytest.mark.parametrize(
    ("wanted", "places", "expected"),
    [
        ("", ["a", "b"], False),
        ("c", ["a", "b"], False),
        ("ac", ["ab", "ab"], False),
        ("a", ["ab", "a"], True),
        ("a", ["a", ""], True),
        ("a", [], False),
    ],
)
def test_racks_count_only_where_partitions_differ_in_them(wanted, places, expected):
    assert racks_matter(list(wanted), [frozenset(place) for place in places]) is expected


def test_round_robin_does_not_look_at_racks() -> None:
    """As in Kafka 3.9, and as any assignor of a user's own may do."""
    assert [name for name in ASSIGNORS if isinstance(ASSIGNORS[name], RackAware)] == AWARE


# Every group

RACK = st.sampled_from([None, "", "a", "b", "c"])
SUBSCRIPTIONS = st.sets(st.sampled_from(["a", "b", "c"]), min_size=1)


PLACES = st.frozensets(st.sampled_from(["a", "b", "c", "d"]), max_size=3)


@st.composite
def groups(draw, alike=None, places=PLACES):
    """Draw (counts, members, racks of partitions)."""
    counts = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 8), min_size=1))
    size = draw(st.integers(1, 5))
    alike = draw(st.booleans()) if alike is None else alike
    one = draw(SUBSCRIPTIONS)
    members = [
        member(f"m{i}", one if alike else draw(SUBSCRIPTIONS), draw(RACK)) for i in range(size)
    ]
    racks = {TopicPartition(t, p): draw(places) for t, n in counts.items() for p in range(n)}
    return counts, members, racks


def alike_in_every_topic(counts, racks):
    """Return the same racks for equal numbers of all topics with equal counts."""
    first = {count: min(t for t in counts if counts[t] == count) for count in counts.values()}
    return {
        partition: racks[TopicPartition(first[counts[partition.topic]], partition.partition)]
        for partition in racks
    }


@given(groups(), st.sampled_from(AWARE))
def test_every_wanted_partition_has_one_owner_that_wants_it(group, name):
    counts, members, racks = group
    response = share(name, counts, members, racks)
    owners = Counter(partition for got in response.values() for partition in got)
    assert set(owners.values()) <= {1}
    assert len(owners) == wanted_count(counts, members)
    for m in members:
        assert all(partition.topic in m.subscription.topics for partition in response[m.member_id])


@given(groups())
def test_range_is_as_fair_in_every_topic_as_without_racks(group):
    counts, members, racks = group
    response = share("range", counts, members, racks)
    plain = ASSIGNORS["range"].assign(counts, members)
    for topic in counts:
        assert loads(
            {
                m: [partition for partition in got if partition.topic == topic]
                for m, got in response.items()
            }
        ) == (
            loads(
                {
                    m: [partition for partition in got if partition.topic == topic]
                    for m, got in plain.items()
                }
            )
        )


@given(groups(alike=True))
def test_range_gives_the_same_numbers_of_topics_with_equal_counts(group):
    counts, members, racks = group
    for got in share("range", counts, members, racks).values():
        for one in counts:
            for other in counts:
                if counts[one] == counts[other] and {one, other} <= set(
                    members[0].subscription.topics
                ):
                    assert {p for t, p in got if t == one} == {p for t, p in got if t == other}


@given(groups(), st.sampled_from(STICKY))
def test_sticky_is_as_balanced_as_without_racks(group, name):
    counts, members, racks = group
    assert loads(share(name, counts, members, racks)) == (
        loads(ASSIGNORS[name].assign(counts, members))
    )


@given(groups(places=st.just(frozenset("abc"))), st.sampled_from(AWARE))
def test_replicas_everywhere_are_as_no_racks(group, name):
    counts, members, racks = group
    plain = ASSIGNORS[name].assign(counts, members)
    assert share(name, counts, members, racks) == plain
    assert share(name, counts, members, dict.fromkeys(racks, frozenset())) == plain


@given(groups(), st.sampled_from(AWARE))
@settings(max_examples=examples(200))
def test_no_fewer_partitions_are_near_than_without_racks(group, name):
    """In range of topics that are read together a number counts only where it is in the same racks in all."""
    counts, members, racks = group
    if name == "range":
        racks = alike_in_every_topic(counts, racks)
    plain = near_count(members, ASSIGNORS[name].assign(counts, members), racks)
    assert near_count(members, share(name, counts, members, racks), racks) >= plain


@given(groups(alike=True))
def test_sticky_leaves_no_exchange_of_two_that_would_bring_more_home(group):
    counts, members, racks = group
    response = share("sticky", counts, members, racks)
    places = [racks[partition] for got in response.values() for partition in got]
    assume(racks_matter([m.rack for m in members if m.rack], places))
    for one, other in permutations(members, 2):
        mine, theirs = response[one.member_id], response[other.member_id]
        given_up = [(p, q) for p in mine for q in theirs]
        if len(mine) == len(theirs) + 1:
            given_up += [(p, None) for p in mine]
        for p, q in given_up:
            now = (one.rack in racks[p]) + (q is not None and other.rack in racks[q])
            then = (other.rack in racks[p]) + (q is not None and one.rack in racks[q])
            assert then <= now, (p, q)


def best_near_count(members, racks):
    """Return the maximum of partitions near their members in a balanced assignment, found by trying all."""
    each, more = divmod(len(racks), len(members))
    assert more == 0
    states = {(0,) * len(members): 0}
    for near in racks.values():
        following: dict[tuple[int, ...], int] = {}
        for held, count in states.items():
            for i, m in enumerate(members):
                if held[i] < each:
                    now = (*held[:i], held[i] + 1, *held[i + 1 :])
                    following[now] = max(following.get(now, 0), count + (m.rack in near))
        states = following
    return max(states.values())


@given(groups(alike=True))
@settings(max_examples=examples(150))
def test_sticky_brings_home_all_that_can_be_when_all_hold_equally_many(group):
    counts, members, racks = group
    topics = members[0].subscription.topics
    racks = {partition: near for partition, near in racks.items() if partition.topic in topics}
    members = members[: max(n for n in (1, 2, 3, 4) if len(racks) % n == 0)]
    assume(len(racks) % len(members) == 0)
    assume(racks_matter([m.rack for m in members if m.rack], racks.values()))
    response = share("sticky", counts, members, racks)
    assert near_count(members, response, racks) == best_near_count(members, racks)


@given(groups(), st.sampled_from(STICKY))
@settings(max_examples=examples(200))
def test_sticky_stays_when_nothing_changed(group, name):
    counts, members, racks = group
    response = share(name, counts, members, racks)
    again = share(name, counts, adopt(members, response), racks)
    assert {m: set(got) for m, got in again.items()} == {m: set(got) for m, got in response.items()}


@given(groups(), st.data())
@settings(max_examples=examples(200))
def test_cooperative_group_settles_when_members_come_with_partitions(group, data):
    counts, members, racks = group
    owned = {m.member_id: [] for m in members}  # type: ignore[var-annotated]
    for partition in sorted(racks):
        owner = data.draw(st.sampled_from(members))
        if partition.topic in owner.subscription.topics:
            owned[owner.member_id].append(partition)
    before, response = settled("cooperative-sticky", counts, adopt(members, owned), racks)
    plain = ASSIGNORS["cooperative-sticky"].assign(counts, before)
    assert loads(response) == loads(plain)


# What the leader knows


def described(replicas, racks=("r0", None, "r2")):
    """Return metadata of topic `t`: `replicas` by partition, `racks` by broker; those with `-` are down."""
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092, rack=rack)
            for n, rack in enumerate(racks)
            if rack != "-"
        ],
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=b"t" * 16,
                partitions=[
                    MetadataResponsePartition(partition_index=p, leader_id=0, replica_nodes=nodes)
                    for p, nodes in enumerate(replicas)
                ],
            )
        ],
    )


def test_racks_of_a_partition_are_those_of_all_replicas_with_a_known_rack() -> None:
    known = MetadataCache(1000)
    known.update(described([[0, 2], [1, 2], [1], [7]]), 0, None)
    assert [sorted(racks) for racks in known.racks(["t", "absent"]).values()] == [
        ["r0", "r2"], ["r2"], [], [],
    ]  # fmt: skip


def test_broker_that_is_down_keeps_its_rack() -> None:
    known = MetadataCache(1000)
    known.update(described([[0, 2]]), 0, None)
    before = known.racks(["t"])
    known.update(described([[0, 2]], ("r0", None, "-")), 1, None)
    assert known.racks(["t"]) == before


def test_leader_shares_again_when_the_racks_of_partitions_change(broker, settings):
    """The same racks again cause no rebalance; other ones do. The group has one member."""
    broker.create("u", 2)
    racks = {0: "here"}

    def in_rack(response):
        (node,) = response.brokers
        node.rack = racks[node.node_id]
        return response

    broker.replacements[ApiKey.METADATA] = in_rack

    async def main() -> None:
        given = settings | {"group.id": "g", "client.rack": "here", "metadata.max.age.ms": 50}
        async with Consumer(given, network=broker) as consumer:
            consumer.subscribe(["u"])
            await poll_until(consumer, lambda: len(consumer.assignment()) == 2)
            joins = len(broker.seen(ApiKey.JOIN_GROUP))
            partitions_of = len(broker.seen(ApiKey.METADATA))
            await poll_until(
                consumer, lambda: len(broker.seen(ApiKey.METADATA)) > partitions_of + 1
            )
            assert len(broker.seen(ApiKey.JOIN_GROUP)) == joins
            racks[0] = "there"
            await poll_until(consumer, lambda: len(broker.seen(ApiKey.JOIN_GROUP)) > joins)

    asyncio.run(asyncio.wait_for(main(), 20))


async def poll_until(consumer, condition):
    while not condition():
        await consumer.poll(10)


# A cluster


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_consumers_read_what_is_in_their_racks(kavka_cluster, strategy):
    """Six partitions without copies, three on each of brokers 1 and 2, of which the fixture makes racks."""
    where = {0: [2], 1: [1], 2: [2], 3: [1], 4: [2], 5: [1]}
    servers = {"bootstrap.servers": kavka_cluster.bootstrap_servers}

    def consumer(rack):
        return Consumer(
            servers
            | {
                "group.id": "g",
                "client.rack": rack,
                "partition.assignment.strategy": strategy,
                "heartbeat.interval.ms": 100,
            }
        )

    async def main() -> None:
        async with Admin(servers) as admin:
            created = await admin.create_topics([NewTopic("t", assignments=where)])
            assert not isinstance(created["t"], KafkaError)
        async with consumer("rack-1") as one, consumer("rack-2") as two:
            for member in (one, two):
                member.subscribe(["t"])
            while [numbers(one), numbers(two)] != [[1, 3, 5], [0, 2, 4]]:
                await asyncio.gather(one.poll(50), two.poll(50))

    asyncio.run(asyncio.wait_for(main(), 40))


def numbers(consumer):
    return sorted(partition.partition for partition in consumer.assignment())
