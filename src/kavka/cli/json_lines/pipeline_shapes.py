"""The shapes of what `kavka pipelines` and `kavka lake` say: flows, findings, alerts, lake tables, audits."""

from __future__ import annotations

from typing import Final

from kavka.cli.json_lines.declaration import shape

PROJECT: Final = shape(
    "pipelines init",
    """
    directory string of the project
    template string from which it was made
    files [string] that were written, as paths below the directory
""",
)
FINDING: Final = shape(
    "pipelines check",
    """
    file string of the project
    line integer? of the file; null for the whole file
    severity string error or warning; with an error the exit code is 1
    message string a sentence
""",
)
FLOW: Final = shape(
    "pipelines status, pipelines run, pipelines backfill",
    """
    pipeline string its name
    flow string its name
    kind string stream, or view for a materialized view
    state string running, waiting, failed, stopped, done, or lost: should run and was not heard of for a minute
    batch_id integer of the last batch; -1 before the first
    rows_in integer since the start of the run
    rows_out integer? since the start of the run; null where the target does not count
    rows_per_second number of the last batch
    batch_ms integer duration of the last batch
    phases_ms {integer} of the last batch, in Spark's names
    lag {lag} by topic-partition
    watermark_delay_s number? from the watermark to the end of the last batch
    late_rows integer dropped behind the watermark
    state_rows integer in the state of the flow
    state_bytes integer in the state of the flow
    expectations {counts} by action:name
    restarts integer after failures
    last_error string empty without one
    updated_ms integer when this was so
""",
    lag="""
    records integer not read yet
    seconds number? age of the first one
""",
    counts="""
    passed integer rows
    failed integer rows
""",
)
RESET: Final = shape(
    "pipelines reset",
    """
    name string of the table, or of the flow into a sink
    kind string table or sink
    executed boolean false without --execute
    checkpoint string? the new one of a flow into a sink; null for a table
    readers [string] streams that read the table, to be reset too
""",
)
LETTER: Final = shape(
    "pipelines redrive --dry-run",
    """
    kind string letter, one for each that would be sent
    topic string of dead letters
    partition integer of the dead letter
    offset integer of the dead letter
    timestamp_ms integer of the dead letter
    to_topic string where it goes
    from_topic string? where it came from, by its headers
    from_partition integer? where it came from, by its headers
    from_offset integer? where it came from, by its headers
    reason string empty without one
""",
)
REDRIVEN: Final = shape(
    "pipelines redrive",
    """
    kind string total
    topic string of dead letters
    group string that remembers how far it is read
    dry_run boolean whether nothing was sent
    sent {integer} dead letters by the topic they go to
    left integer dead letters that are not selected
    unknown integer of these, selected but without a header with their topic
""",
)
SLICE: Final = shape(
    "pipelines record",
    """
    file string that was written
    topic string that was read
    records integer in the file
    complete boolean false where --max-records ended it
""",
)
INCIDENT: Final = shape(
    "pipelines alerts",
    """
    event string firing
    incident string its id
    alert string the rule
    severity string info, warning or critical
    summary string of the rule
    host string of the source
    source string of the samples
    labels {string} of the instance
    since string RFC 3339, UTC
    time string of the decision: RFC 3339, UTC
    metric string? of the rule
    value number? that was beyond the threshold
    threshold number? of the rule
    mean number? of an anomaly's baseline
    deviation number? of an anomaly's baseline
    score number? of an anomaly
""",
)

LAKE_TABLE: Final = shape(
    "lake status",
    """
    table string its name
    location string where its files are
    metadata_location string its current metadata
    partitioned_by [string] as hour(event_time)
    rows integer in its files
    files integer of data
    bytes integer of these files
    snapshots integer that have not expired
    sinks [sink] loads that have written into it
""",
    sink="""
    sink_id string of the load
    write string the id of a streaming query, or the name of one write
    batch integer the last batch that is in the table
    starting_offsets {{integer}} by topic and partition: where a new load goes on
""",
)
MAINTAINED: Final = shape(
    "lake maintain",
    """
    table string its name
    dry_run boolean whether nothing was changed
    compacted compacted? null where --only leaves it out
    expired expired? null where --only leaves it out
    orphans orphans? null where --only leaves it out
""",
    compacted="""
    files_before integer small files that were replaced, or would be
    bytes_before integer of these
    files_after integer that replaced them; 0 in a dry run
    bytes_after integer of these
    given_up integer groups that another writer replaced meanwhile
""",
    expired="""
    snapshots integer that expired, or would
    files integer that were removed, or would be
""",
    orphans="""
    files integer that were removed, or would be
    bytes integer of these
    younger integer files that no snapshot needs and that may still be committed
""",
)
AUDIT: Final = shape(
    "lake audit",
    """
    table string its name
    exact boolean whether each record has one row; the exit code is 1 where it has not
    hours {counts} by the hour of the records' timestamps, as 2026-01-31T12:00Z
    total counts of all hours
    missing [range] the first ranges of missing offsets
    doubled [range] the first ranges of doubled offsets
    only_in_table integer rows whose records the topic does not have any more
    not_loaded {integer} offsets by topic-partition that the load has not reached
""",
    counts="""
    topic integer records
    table integer rows
    missing integer records without a row
    doubled integer rows more than one of a record
    late integer rows whose event is much older than its record
""",
    range="""
    topic string of the partition
    partition integer its number
    first_offset integer of the range
    last_offset integer of the range, included
""",
)
RELOADED: Final = shape(
    "lake reload",
    """
    table string its name
    replace_offsets {{[integer]}} by topic and partition: the first offset, and one past the last
    offsets integer in these ranges
    replaced boolean false in a dry run, and where there is nothing to reload
""",
)
