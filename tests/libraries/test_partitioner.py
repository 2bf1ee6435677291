"""The hash of the default partitioner beside kafka-python's."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as other_murmur2

from kavka.client.producer.partitioner import murmur2


@given(st.binary(max_size=100))
def test_murmur2_equals_another_implementation(data):
    assert murmur2(data) == other_murmur2(data) & 0xFFFFFFFF
