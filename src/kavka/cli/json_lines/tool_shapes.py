"""The shapes of what commands read and measure: records, batches, directories, speeds."""

from __future__ import annotations

from typing import Final

from kavka.cli.json_lines.declaration import shape

DUMPED_BATCH: Final = shape(
    "dump-log",
    """
    kind string batch
    file string its name
    position integer in the file, in bytes
    size integer bytes
    base_offset integer of its first record
    last_offset integer of its last record
    count integer of records that it was written with
    base_sequence integer -1 without a producer id
    last_sequence integer -1 without a producer id
    producer_id integer -1 for none
    producer_epoch integer -1 for none
    partition_leader_epoch integer of the leader that took it
    transactional boolean whether it belongs to a transaction
    control boolean whether it is a marker
    delete_horizon_ms integer? when the cleaner may remove its tombstones
    timestamp_type string CreateTime or LogAppendTime
    max_timestamp_ms integer of its records
    magic integer of its format
    compression string none, gzip, snappy, lz4 or zstd
    crc integer as it is stored
    valid boolean whether its content has this CRC
""",
)
DUMPED_RECORD: Final = shape(
    "dump-log --deep-iteration, dump-log --print-data-log",
    """
    kind string record, after its batch
    file string its name
    offset integer of the record
    timestamp_ms integer of the record
    timestamp_type string CreateTime or LogAppendTime
    key_size integer bytes; -1 for null
    value_size integer bytes; -1 for null
    sequence integer -1 without a producer id
    header_names [string] in their order
    control string? what a marker says
    key string? as its decoder shows it; null without --print-data-log
    value string? as its decoder shows it; null without --print-data-log
""",
)
RECORD: Final = shape(
    "console-consumer",
    """
    topic string of the record
    partition integer of the record
    offset integer of the record
    timestamp_ms integer -1 where it has none
    timestamp_type string CreateTime or LogAppendTime
    key text? of the record
    value text? of the record
    headers [header] in their order
""",
    header="""
    name string of the header
    value text? of the header
""",
)
STORAGE: Final = shape(
    "storage info",
    """
    directories [string] log.dirs
    metadata {string}? of meta.properties: version, cluster.id, broker.id; null where no broker has been there
    problems [string] sentences; the exit code is 1 with any
""",
)
FORMAT: Final = shape(
    "storage format",
    """
    directories [string] log.dirs
    formatted boolean always false: a broker prepares them when it first starts
""",
)
UUID: Final = shape(
    "storage random-uuid",
    """
    uuid string in base64, as --cluster-id takes it
""",
)
REPLICA_LAG: Final = shape(
    "replica-verification",
    """
    time_ms integer when
    max_lag integer records
    topic string? of the partition that is furthest behind
    partition integer? of that partition
    offset integer from which it was compared
    partition_count integer that are compared
""",
)
PRODUCED: Final = shape(
    "producer-perf-test",
    """
    kind string window, steady_state or total; the last two are at the end
    records integer that brokers have confirmed
    records_per_second number of them
    megabytes_per_second number of 1048576 bytes
    latency_avg_ms number from send to answer
    latency_max_ms number from send to answer
    latency_50_ms integer? percentile; null in a window
    latency_95_ms integer? percentile; null in a window
    latency_99_ms integer? percentile; null in a window
    latency_999_ms integer? percentile; null in a window
""",
)
CONSUMED: Final = shape(
    "consumer-perf-test",
    """
    kind string window (with --show-detailed-stats) or total
    start_ms integer when it began
    end_ms integer when it ended
    megabytes number of 1048576 bytes, from the beginning on
    megabytes_per_second number of this object's time
    records integer from the beginning on
    records_per_second number of this object's time
    rebalance_ms integer until partitions were assigned
    fetch_ms integer the rest of the time
    fetch_megabytes_per_second number of that time
    fetch_records_per_second number of that time
""",
)
LATENCY: Final = shape(
    "e2e-latency",
    """
    records integer how many were sent, one after the other
    latency_avg_ms number from send to receipt
    latency_50_ms integer percentile
    latency_99_ms integer percentile
    latency_999_ms integer percentile
""",
)
