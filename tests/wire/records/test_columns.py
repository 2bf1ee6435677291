"""Columns of one and many batches, and what Arrow makes of them."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.records.arrow import batches_from_arrow, to_arrow
from kavka.wire.records.batch import BatchBuilder, Record, decode_batch, decode_records
from kavka.wire.records.columns import Columns, concat, decode_columns, encode_columns
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, EndMarker, encode_end_marker
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch
from kavka.wire.records.header import assign, read_header, stamp_log_append_time, walk

octets = st.none() | st.binary(max_size=12)
row = st.tuples(
    octets,
    octets,
    st.integers(0, 2**50),
    st.lists(st.tuples(st.text(max_size=4), octets), max_size=2),
)
batches = st.lists(st.lists(row, min_size=1, max_size=12), min_size=1, max_size=4)


def a_log(row_lists, codec=Compression.NONE, first=0) -> bytearray:
    log = bytearray()
    for rows in row_lists:
        builder = BatchBuilder()
        for key, value, timestamp, headers in rows:
            builder.append(key, value, timestamp, headers)
        batch = builder.build(codec, base_offset=first)
        log += batch
        first += len(rows)
    return log


def records_of(log) -> list[Record]:
    return [record for header in walk(log) for record in decode_records(log, header)]


def rows_of(columns: Columns) -> list[Record]:
    made = []
    offsets = memoryview(columns.offsets).cast("B").cast("q")
    timestamps = memoryview(columns.timestamps).cast("B").cast("q")
    lists = memoryview(columns.header_offsets).cast("B").cast("i")
    for index in range(columns.count):
        headers = tuple(
            (columns.header_key.row(at).decode(), columns.header_value.row(at))
            for at in range(lists[index], lists[index + 1])
        )
        made.append(
            Record(
                offsets[index],
                timestamps[index],
                columns.timestamp_types[index],
                columns.key.row(index),
                columns.value.row(index),
                headers,
            )
        )
    return made


@given(batches, st.sampled_from(list(Compression)), st.integers(0, 30))
def test_columns_are_the_records_from_an_offset_on(row_lists, codec, first):
    log = a_log(row_lists, codec, first=5)
    columns = decode_columns(memoryview(log), from_offset=first, check_crcs=True)
    expected = [record for record in records_of(log) if record.offset >= first]
    assert rows_of(columns) == expected
    assert columns.next_offset == max(first, 5 + sum(map(len, row_lists)))


@given(batches, st.data())
def test_a_cut_tail_is_left_for_the_next_read(row_lists, data):
    log = a_log(row_lists)
    last = walk(log)[-1]
    cut = data.draw(st.integers(last.position, len(log) - 1))
    columns = decode_columns(log, 0, cut)
    assert rows_of(columns) == [r for r in records_of(log) if r.offset < last.base_offset]
    assert columns.next_offset == last.base_offset


def test_nothing_gives_no_rows_and_stays() -> None:
    columns = decode_columns(b"", from_offset=9)
    assert (columns.count, columns.next_offset) == (0, 9)
    assert to_arrow(columns, "t", 0, headers=True).num_rows == 0


def test_control_and_skipped_batches_give_no_records_but_are_passed() -> None:
    log = a_log([[(b"a", b"1", 0, [])], [(b"b", b"2", 0, [])]])
    marker = encode_end_marker(EndMarker(ControlType.COMMIT, 1), 5, 0, 0)
    assign(marker, read_header(marker), 2, 0)
    columns = decode_columns(log + marker, skip=lambda header: header.base_offset == 0)
    assert [r.key for r in rows_of(columns)] == [b"b"]
    assert columns.next_offset == 3


def test_the_logs_time_goes_into_the_columns() -> None:
    log = a_log([[(b"a", b"1", 5, [])], [(b"b", b"2", 6, [])]])
    stamp_log_append_time(log, walk(log)[1], 99)
    found = rows_of(decode_columns(log))
    assert [(r.timestamp, r.timestamp_type) for r in found] == [(5, 0), (99, 1)]


def test_a_checksum_is_checked_when_asked() -> None:
    log = a_log([[(b"a", b"1", 5, [])]])
    log[-2] ^= 1
    assert decode_columns(log).count == 1
    with pytest.raises(CorruptBatch, match="checksum"):
        decode_columns(log, check_crcs=True)


def test_the_bound_holds_over_all_batches() -> None:
    log = a_log([[(None, bytes(1000), 0, [])]] * 3, Compression.GZIP)
    with pytest.raises(BatchTooLarge):
        decode_columns(log, limit=2500)
    assert decode_columns(log, limit=4000).count == 3


@pytest.mark.parametrize("second", Compression)
def test_the_bound_holds_where_bodies_without_a_codec_have_used_it_up(second):
    row = (None, bytes(1000), 0, [])  # type: ignore[var-annotated]
    log = a_log([[row, row]]) + a_log([[row]], second, first=2)
    with pytest.raises(BatchTooLarge):
        decode_columns(log, limit=1500)
    assert decode_columns(log, limit=4000).count == 3


@given(batches)
def test_columns_are_put_together(row_lists):
    log = a_log(row_lists)
    parts = [decode_columns(log, h.position, h.end) for h in walk(log)]
    whole = concat(parts)
    assert rows_of(whole) == records_of(log)
    assert whole.next_offset == parts[-1].next_offset
    again = concat([whole, whole])
    assert rows_of(again) == rows_of(whole) + rows_of(whole)
    assert concat([]).count == 0


@given(batches, st.sampled_from(list(Compression)), st.data())
def test_rows_of_columns_become_a_batch(row_lists, codec, data):
    log = a_log(row_lists)
    columns = decode_columns(log)
    first = data.draw(st.integers(0, columns.count - 1))
    count = data.draw(st.integers(1, columns.count - first))
    batch = encode_columns(columns, first, count, compression=codec, producer_id=3)
    expected = [r._replace(offset=i) for i, r in enumerate(records_of(log)[first : first + count])]
    assert decode_batch(batch) == expected
    header = read_header(batch)
    assert header.max_timestamp == max(r.timestamp for r in expected)
    assert header.producer_id == 3


def test_rows_that_are_not_there_are_refused() -> None:
    columns = decode_columns(a_log([[(b"a", b"1", 5, [])]]))
    for first, count in ((0, 0), (0, 2), (1, 1), (-1, 1)):
        with pytest.raises(ValueError, match="rows"):
            encode_columns(columns, first, count)


@given(batches)
def test_arrow_shows_the_records(row_lists):
    log = a_log(row_lists)
    batch = to_arrow(decode_columns(log), "topic", 3, headers=True)
    batch.validate(full=True)
    found = batch.drop_columns(["timestamp"]).to_pylist()
    records = records_of(log)
    assert [(r["offset"], r["key"], r["value"]) for r in found] == [
        (r.offset, r.key, r.value) for r in records
    ]
    assert [[(h["key"], h["value"]) for h in r["headers"]] for r in found] == [
        list(r.headers) for r in records
    ]
    stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert stamps == [r.timestamp for r in records]
    assert {(r["topic"], r["partition"], r["timestampType"]) for r in found} == {("topic", 3, 0)}


def test_arrow_has_the_shape_of_sparks_source() -> None:
    schema = to_arrow(decode_columns(b""), "t", 0).schema
    assert schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert schema.field("offset").type == pa.int64()
    assert schema.field("timestampType").type == pa.int32()


def test_arrow_shares_the_memory_of_the_columns() -> None:
    columns = decode_columns(a_log([[(b"a", b"1", 5, [])]]))
    value = to_arrow(columns, "t", 0).column("value")
    assert value.buffers()[2].address == pa.py_buffer(columns.value.data).address


def test_header_keys_that_are_no_utf8_are_replaced_in_arrow() -> None:
    columns = decode_columns(a_log([[(None, None, 0, [(b"\xff", b"v")])]]))
    found = to_arrow(columns, "t", 0, headers=True).to_pylist()
    assert found[0]["headers"] == [{"key": "\N{REPLACEMENT CHARACTER}", "value": b"v"}]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KINDS = [
    pa.binary(),
    pa.large_binary(),
    pa.string(),
    pa.large_string(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.string_view(),
]


def written(table, **options) -> list[Record]:
    found = []
    for made in batches_from_arrow(table, 1000, max_bytes=100_000, **options):
        assert len(decode_batch(made.batch)) == made.row_count
        found += [r._replace(offset=r.offset + made.first_row) for r in decode_batch(made.batch)]
    return found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_arrow_tables_of_each_type_are_written(kind, codec):
    texts = ["a", None, "", "long" * 100, "e"]
    table = pa.table({"key": pa.array(texts, kind), "value": pa.array(texts[::-1], kind)})
    table = pa.concat_tables([table.slice(1), table, table.slice(2, 2), table.slice(0, 0)])
    found = written(table, compression=codec)
    plain = {
        name: table[name].cast(pa.string()).cast(pa.binary()).to_pylist()
        for name in table.column_names
    }
    assert [r.key for r in found] == plain["key"]
    assert [r.value for r in found] == plain["value"]
    assert {r.timestamp for r in found} == {1000}
    assert [r.offset for r in found] == list(range(len(table)))


def test_sliced_headers_and_times_are_written() -> None:
    lists = [[("a", b"1")], None, [], [("b", None), ("c", b"")], [("d", b"x")]]
    table = pa.table(
        {
            "value": pa.array([b"0", b"1", b"2", b"3", b"4"]),
            "headers": pa.array(
                [
                    e if e is None else [dict(zip(("key", "value"), h, strict=True)) for h in e]
                    for e in lists
                ],
                HEADERS,
            ),
            "timestamp": pa.array([1, None, 3, 4, 5], pa.timestamp("s", tz="UTC")),
        }
    )
    for first in range(5):
        for source in (table.slice(first), table.slice(first).to_batches()[0]):
            found = written(source)
            assert [list(r.headers) for r in found] == [e or [] for e in lists[first:]]
            assert [r.timestamp for r in found] == [1000, 1000, 3000, 4000, 5000][first:]
    wide = table.set_column(1, "headers", table["headers"].cast(pa.large_list(HEADERS.value_type)))
    assert written(wide) == written(table)


def test_null_columns_and_integer_times_are_written() -> None:
    table = pa.table(
        {"key": pa.nulls(2), "value": pa.nulls(2), "timestamp": pa.array([7, 8], pa.int64())}
    )
    assert written(table) == [Record(0, 7, 0, None, None), Record(1, 8, 0, None, None)]


def test_tables_are_cut_into_batches_that_fit() -> None:
    table = pa.table({"key": [b"k"] * 1000, "value": [b"v" * (i % 97) for i in range(1000)]})
    made = list(batches_from_arrow(table, 0, max_bytes=2000))
    assert all(len(one.batch) <= 2000 for one in made)
    assert sum(one.row_count for one in made) == 1000
    assert [one.first_row for one in made[1:]] == [
        one.first_row + one.row_count for one in made[:-1]
    ]
    assert len(made) < 60
    huge = list(batches_from_arrow(table.slice(96, 2), 0, max_bytes=10))
    assert [one.row_count for one in huge] == [1, 1]


def test_what_arrow_cannot_say_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no column 'value'"):
        written(pa.table({"key": [b""]}))
    with pytest.raises(ValueError, match="'value' is int64"):
        written(pa.table({"value": [1]}))
    with pytest.raises(ValueError, match="'timestamp' is string"):
        written(pa.table({"value": [b""], "timestamp": ["now"]}))
    with pytest.raises(ValueError, match="'headers' is"):
        written(pa.table({"value": [b""], "headers": [[1]]}))
    keyless = pa.array([[{"key": None, "value": b""}]], HEADERS)
    with pytest.raises(ValueError, match="header without a key"):
        written(pa.table({"value": [b""], "headers": keyless}))


@given(batches)
def test_what_arrow_shows_can_be_written_again(row_lists):
    log = a_log(row_lists)
    again = written(to_arrow(decode_columns(log), "t", 0, headers=True))
    assert again == records_of(log)


def test_times_of_arrow_are_moments() -> None:
    table = pa.table(
        {"value": [b"x"], "timestamp": [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]}
    )
    assert written(table)[0].timestamp == 1767225600000
