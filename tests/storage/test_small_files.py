"""Checkpoints and the other small files, byte for byte as Kafka writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.core.producer_state import ProducerEntry
from kavka.ids import TopicId, TopicPartition
from kavka.storage.checkpoint.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from kavka.storage.checkpoint.files import (
    CorruptCheckpoint,
    decode_offsets,
    encode_offsets,
    read_file,
    replace_file,
)
from kavka.storage.checkpoint.leader_epochs import LeaderEpochs
from kavka.storage.checkpoint.meta_properties import MetaProperties
from kavka.storage.checkpoint.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
)
from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.failures import CorruptFile
from kavka.storage.log.producer_snapshot import decode_snapshot, encode_snapshot


def test_offsets_are_one_line_each() -> None:
    offsets = {TopicPartition("a.b", 0): 17, TopicPartition("c", 12): 0}
    content = encode_offsets(offsets)
    assert content == b"0\n2\na.b 0 17\nc 12 0\n"
    assert decode_offsets(content, "x") == offsets


def test_a_checkpoint_that_kafka_has_only_made_has_no_entries() -> None:
    assert decode_offsets(b"", "x") == {}
    assert LeaderEpochs.decode(b"").encode() == LeaderEpochs().encode()


@pytest.mark.parametrize(
    "content",
    [
        b"0",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na x 1\n",
        b"\xff\n0\n",
        b"\0\0\0",
    ],
)
def test_a_malformed_checkpoint_is_reported(content: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(content, "x")


def test_replacing_a_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / "f")
    assert read_file(disk, path) is None
    replace_file(disk, path, b"a longer text")
    replace_file(disk, path, b"short")
    assert read_file(disk, path) == b"short"
    assert disk.list(str(tmp_path)) == ["f"]


def test_meta_properties_of_both_versions_are_read() -> None:
    meta = MetaProperties(3, "abc-_def")
    assert MetaProperties.decode(meta.encode()) == meta
    kraft = b"#comment\nversion=1\nnode.id=7\ncluster.id=x\\=y\ndirectory.id=d\n"
    assert MetaProperties.decode(kraft) == MetaProperties(7, "x=y", "d")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version=2\n", "version 2"),
        (b"", "no version"),
        (b"\xff\xfegarbage\n", "no version"),
        (b"version=0\nbroker.id=x\n", "broker.id 'x'"),
    ],
)
def test_damaged_meta_properties_are_reported(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        MetaProperties.decode(content)


def test_partition_metadata_has_two_lines() -> None:
    topic_id = TopicId(bytes(range(16)))
    content = encode_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert decode_partition_metadata(content + b"\n") == topic_id
    for wrong in (b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\nid: x"):
        with pytest.raises(ValueError, match=r"partition\.metadata|UUID"):
            decode_partition_metadata(wrong)


def test_the_clean_shutdown_marker_is_taken_once(tmp_path: Path) -> None:
    disk = OsDisk()
    assert not take_clean_shutdown(disk, str(tmp_path))
    write_clean_shutdown(disk, str(tmp_path), 5)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":5}'
    assert take_clean_shutdown(disk, str(tmp_path))
    assert not take_clean_shutdown(disk, str(tmp_path))


_int64 = st.integers(-(2**63), 2**63 - 1)
_int32 = st.integers(-(2**31), 2**31 - 1)
_int16 = st.integers(-(2**15), 2**15 - 1)
_entries = st.lists(
    st.builds(ProducerEntry, _int64, _int16, _int32, _int64, _int32, _int64, _int32, _int64),
    max_size=5,
)


@given(_entries)
def test_a_producer_snapshot_comes_back(entries: list[ProducerEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


@given(_entries, st.data())
def test_a_damaged_producer_snapshot_is_reported(
    entries: list[ProducerEntry], data: st.DataObject
) -> None:
    content = bytearray(encode_snapshot(entries))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptFile):
        decode_snapshot(bytes(content))
    with pytest.raises(CorruptFile):
        decode_snapshot(encode_snapshot(entries)[:-1])


def test_an_empty_producer_snapshot_has_kafkas_bytes() -> None:
    # Version 1, CRC-32C of the four zero bytes of the count, the count.
    assert encode_snapshot([]).hex() == "0001" + "48674bc7" + "00000000"
