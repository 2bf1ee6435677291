from kavka.client.producer.partitioner import RoundRobin, StickyChoice, murmur2, partition_of


def test_known_keys_go_where_java_puts_them() -> None:
    # Vectors of the Java client's own test of its hash.
    assert [murmur2(key) for key in (b"21", b"foobar", b"a-little-bit-long-string")] == [
        -973932308 & 0xFFFFFFFF,
        -790332482 & 0xFFFFFFFF,
        -985981536 & 0xFFFFFFFF,
    ]
    assert partition_of(b"abc", 1) == 0


def test_the_sticky_choice_changes_after_its_bytes_and_never_stays() -> None:
    sticky = StickyChoice(100)
    first = sticky.choose([0, 1, 2], 0.5)
    sticky.count(99)
    assert sticky.choose([0, 1, 2], 0.0) == first
    sticky.count(1)
    assert sticky.choose([0, 1, 2], 0.99) != first


def test_the_sticky_choice_leaves_a_partition_that_is_not_available() -> None:
    sticky = StickyChoice(100)
    assert sticky.choose([0], 0.0) == 0
    assert sticky.choose([3], 0.9) == 3


def test_round_robin_takes_turns() -> None:
    turns = RoundRobin()
    assert [turns.choose([4, 6]) for _ in range(4)] == [4, 6, 4, 6]
