from kavka.client.metadata import BrokerAddress, LeaderHint, MetadataCache
from kavka.ids import BrokerId, LeaderEpoch, TopicPartition
from kavka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

AT = TopicPartition("t", 0)


def metadata_response(leader, epoch, topic_id=b"t" * 16):
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092) for n in (0, 1)],
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=topic_id,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=0, leader_id=leader, leader_epoch=epoch
                    )
                ],
            )
        ],
    )


def cache(leader=0, epoch=5):
    made = MetadataCache(1000)
    made.update(metadata_response(leader, epoch), 0, None)
    return made


def hint(leader, epoch):
    return {AT: LeaderHint(BrokerId(leader), LeaderEpoch(epoch))}


def test_a_response_that_says_the_same_brings_nothing_new() -> None:
    known = cache()
    assert known.update(metadata_response(0, 5), 10, None) is False
    assert known.update(metadata_response(1, 6), 20, None) is True


def test_metadata_of_a_lagging_broker_is_ignored_unless_the_topic_was_created_again() -> None:
    known = cache(1, 6)
    known.update(metadata_response(0, 5), 10, None)
    assert known.leader(AT) == 1
    known.update(metadata_response(0, 0, b"n" * 16), 20, None)
    assert (known.leader(AT), known.leader_epoch(AT)) == (0, 0)


def test_a_hint_with_a_newer_epoch_is_used_and_brings_its_address() -> None:
    known = cache()
    address = BrokerAddress(BrokerId(9), "b9", 9099)
    assert known.learn_leaders(hint(9, 6), {BrokerId(9): address})
    assert (known.leader(AT), known.leader_epoch(AT)) == (9, 6)
    assert known.brokers[9] == address
    known.update(metadata_response(0, 5), 10, None)
    assert known.leader_epoch(AT) == 6, "older metadata do not undo it"


def test_a_hint_that_is_older_or_leads_nowhere_is_dropped() -> None:
    known = cache()
    assert not known.learn_leaders(hint(1, 5), {})
    assert not known.learn_leaders(hint(7, 6), {})
    assert not known.learn_leaders({TopicPartition("u", 0): hint(1, 9)[AT]}, {})
    assert (known.leader(AT), known.leader_epoch(AT)) == (0, 5)
