"""The dashboards of topics, of consumer groups, and of pipelines."""

from __future__ import annotations

from typing import Final

from kavka.monitoring.panels import Dashboard, Row, Variable, chart, stat

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_PARTITION: Final = "kafka_cluster_partition_"
_LOG: Final = "kafka_log_log_"
_LAG: Final = "kafka_consumergroup_lag"
_PIPELINE: Final = "kavka_pipeline_"
_PARTITIONS: Final = "kafka_log_log_logendoffset"
_ON_TOPIC: Final = '{job=~"$job",topic=~"$topic"}'
_ON_GROUP: Final = '{job=~"$job",consumergroup=~"$group",topic=~"$topic"}'
_ON_FLOW: Final = '{job=~"$job",pipeline=~"$pipeline",flow=~"$flow"}'
_INTERVAL: Final = "[$__rate_interval]"


def _topic_rate(name: str) -> tuple[str, str]:
    # Samples without a topic are sums over all, those with one add up to them.
    chosen = '{job=~"$job",topic=~"$topic",topic!=""}'
    return f"sum by (topic) (rate({_TOPICS}{name}_total{chosen}{_INTERVAL}))", "{{topic}}"


_RECORDS_IN: Final = _topic_rate("messagesin")
_BYTES_IN: Final = _topic_rate("bytesin")
_PARTITION_PACE: Final = (
    f"max by (topic, partition) (rate({_LOG}logendoffset{_ON_TOPIC}{_INTERVAL}))"
)
_OF_GROUP: Final = '{job=~"$job",consumergroup=~"$group"}'


TOPICS: Final = Dashboard(
    "kavka-topics",
    "kavka: topics",
    "Traffic, sizes, offsets and replicas of topics and partitions.",
    (
        Variable("job", "job", _PARTITIONS, "Job"),
        Variable("topic", "topic", f'{_PARTITIONS}{{job=~"$job"}}', "Topic"),
    ),
    (
        Row(
            "Traffic",
            (
                chart("Records in", _RECORDS_IN, help="In a second.", is_stacked=True),
                chart("Bytes in", _BYTES_IN, unit="Bps", is_stacked=True),
                chart("Bytes out", _topic_rate("bytesout"), unit="Bps", is_stacked=True),
                chart(
                    "Bytes of a record",
                    (
                        f"{_BYTES_IN[0]} / ({_RECORDS_IN[0]} > 0)",
                        "{{topic}}",
                    ),
                    unit="bytes",
                    help="Mean, compressed.",
                ),
                chart(
                    "Requests for partitions",
                    (_topic_rate("totalproducerequests")[0], "{{topic}} produce"),
                    (_topic_rate("totalfetchrequests")[0], "{{topic}} fetch"),
                    unit="reqps",
                ),
                chart(
                    "Refused",
                    (_topic_rate("failedproducerequests")[0], "{{topic}} produce"),
                    (_topic_rate("failedfetchrequests")[0], "{{topic}} fetch, damaged"),
                    (_topic_rate("bytesrejected")[0], "{{topic}} too large, bytes"),
                ),
            ),
        ),
        Row(
            "Logs",
            (
                chart(
                    "Size, all replicas",
                    (f"sum by (topic) ({_LOG}size{_ON_TOPIC})", "{{topic}}"),
                    unit="bytes",
                    is_stacked=True,
                ),
                chart(
                    "Records kept",
                    (
                        f"sum by (topic) (max by (topic, partition) ({_LOG}logendoffset{_ON_TOPIC})"
                        f" - max by (topic, partition) ({_LOG}logstartoffset{_ON_TOPIC}))",
                        "{{topic}}",
                    ),
                    help="Offsets between start and end; a compacted topic has fewer records.",
                ),
                chart(
                    "Busiest partition beside the mean",
                    (
                        f"max by (topic) ({_PARTITION_PACE}) / (avg by (topic) ({_PARTITION_PACE}) > 0)",
                        "{{topic}}",
                    ),
                    help="1 is even. Far above, keys are uneven: one consumer has most of the work.",
                ),
                chart(
                    "Segments",
                    (f"sum by (topic) ({_LOG}numlogsegments{_ON_TOPIC})", "{{topic}}"),
                ),
            ),
        ),
        Row(
            "Replicas",
            (
                chart(
                    "Partitions with missing copies",
                    (
                        f"sum by (topic) ({_PARTITION}underreplicated{_ON_TOPIC})",
                        "{{topic}} behind",
                    ),
                    (
                        f"sum by (topic) ({_PARTITION}underminisr{_ON_TOPIC})",
                        "{{topic}} acks=all refused",
                    ),
                    (
                        f"sum by (topic) ({_PARTITION}atminisr{_ON_TOPIC})",
                        "{{topic}} at the minimum",
                    ),
                ),
                chart(
                    "Replicas in sync",
                    (
                        f"sum by (topic) ({_PARTITION}insyncreplicascount{_ON_TOPIC})",
                        "{{topic}} in sync",
                    ),
                    (f"sum by (topic) ({_PARTITION}replicascount{_ON_TOPIC})", "{{topic}} wanted"),
                ),
                chart(
                    "Behind open transactions",
                    (f"max by (topic) ({_PARTITION}laststableoffsetlag{_ON_TOPIC})", "{{topic}}"),
                    help="Records that read_committed does not see yet.",
                ),
            ),
        ),
    ),
)

GROUPS: Final = Dashboard(
    "kavka-groups",
    "kavka: consumer groups",
    "Lag of consumer groups in records and in seconds: pages of `kavka group-metrics`, or of kafka_exporter.",
    (
        Variable("job", "job", _LAG, "Job"),
        Variable("group", "consumergroup", f'{_LAG}{{job=~"$job"}}', "Group"),
        Variable("topic", "topic", f'{_LAG}{{job=~"$job",consumergroup=~"$group"}}', "Topic"),
    ),
    (
        Row(
            "Groups",
            (
                stat("Groups", f"count(count by (consumergroup) ({_LAG}{_ON_GROUP}))"),
                stat("Records behind", f"sum({_LAG}{_ON_GROUP})"),
                stat("Furthest behind", f"max({_LAG}_seconds{_ON_GROUP})", unit="s"),
                stat(
                    "Readings that fail",
                    'sum(rate(kavka_groups_failures_total{job=~"$job"}[$__rate_interval]))',
                    "In a second; standard error of `kavka group-metrics` has the reason.",
                ),
            ),
        ),
        Row(
            "Lag",
            (
                chart(
                    "Records",
                    (
                        f"sum by (consumergroup, topic) ({_LAG}{_ON_GROUP})",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                chart(
                    "Seconds",
                    (
                        f"max by (consumergroup, topic) ({_LAG}_seconds{_ON_GROUP})",
                        "{{consumergroup}} {{topic}}",
                    ),
                    unit="s",
                    help="Age of the first record that is not read yet.",
                ),
                chart(
                    "Growth of the lag",
                    (
                        f"sum by (consumergroup, topic) (deriv({_LAG}{_ON_GROUP}[10m]))",
                        "{{consumergroup}} {{topic}}",
                    ),
                    help="Records in a second; above 0 the group falls behind.",
                ),
                chart(
                    "Worst partition",
                    (
                        f"topk(20, max by (consumergroup, topic, partition) ({_LAG}{_ON_GROUP}))",
                        "{{consumergroup}} {{topic}}-{{partition}}",
                    ),
                ),
            ),
        ),
        Row(
            "Members",
            (
                chart(
                    "Members",
                    (
                        f"sum by (consumergroup) (kafka_consumergroup_members{_OF_GROUP})",
                        "{{consumergroup}}",
                    ),
                ),
                chart(
                    "State",
                    (
                        f"sum by (consumergroup, state) (kavka_consumergroup_state{_OF_GROUP})",
                        "{{consumergroup}} {{state}}",
                    ),
                ),
                chart(
                    "Groups of the coordinators",
                    *(
                        (
                            f"sum(kafka_coordinator_group_groupmetadatamanager_numgroups{state})",
                            state,
                        )
                        for state in (
                            "stable",
                            "empty",
                            "preparingrebalance",
                            "completingrebalance",
                        )
                    ),
                    help="From the pages of the brokers; many that prepare are rebalances that do not end.",
                ),
                chart(
                    "Commits, joins, rebalances",
                    (
                        'sum(rate(kafka_network_requestmetrics_requests_total{request="OffsetCommit"}[$__rate_interval]))',
                        "commits",
                    ),
                    (
                        'sum(rate(kafka_network_requestmetrics_requests_total{request="JoinGroup"}[$__rate_interval]))',
                        "joins",
                    ),
                    (
                        "sum(rate(kafka_server_group_coordinator_metrics_group_completed_rebalance_count[$__rate_interval]))",
                        "rebalances",
                    ),
                    unit="reqps",
                    help="From the pages of the brokers.",
                ),
            ),
        ),
    ),
)


def _flow(name: str, by: str = "pipeline, flow", how: str = "sum") -> str:
    return f"{how} by ({by}) ({_PIPELINE}{name}{_ON_FLOW})"


def _flow_rate(name: str, more: str = "") -> str:
    by = f"pipeline, flow{', ' + more if more else ''}"
    return f"sum by ({by}) (rate({_PIPELINE}{name}_total{_ON_FLOW}{_INTERVAL}))"


_FLOW: Final = "{{pipeline}} {{flow}}"

PIPELINES: Final = Dashboard(
    "kavka-pipelines",
    "kavka: pipelines",
    "Flows of Spark pipelines: pages of `kavka pipelines run --metrics-port`, or of kavka.spark.listener.",
    (
        Variable("job", "job", f"{_PIPELINE}running", "Job"),
        Variable("pipeline", "pipeline", f'{_PIPELINE}running{{job=~"$job"}}', "Pipeline"),
        Variable(
            "flow", "flow", f'{_PIPELINE}running{{job=~"$job",pipeline=~"$pipeline"}}', "Flow"
        ),
    ),
    (
        Row(
            "Flows",
            (
                stat("Running", f"sum({_PIPELINE}running{_ON_FLOW})"),
                stat(
                    "Ended",
                    f"count({_PIPELINE}running{_ON_FLOW}) - sum({_PIPELINE}running{_ON_FLOW})",
                    "`kavka pipelines status` has the last error.",
                ),
                stat(
                    "Oldest news",
                    f"max(time() - {_PIPELINE}updated_timestamp_seconds{_ON_FLOW})",
                    unit="s",
                ),
            ),
        ),
        Row(
            "Work",
            (
                chart("Rows in", (_flow_rate("rows_in"), _FLOW), help="In a second."),
                chart("Rows out", (_flow_rate("rows_out"), _FLOW, "a target that counts rows")),
                chart(
                    "Lag in records",
                    (_flow("lag_records"), _FLOW, "a flow that reads a topic"),
                ),
                chart(
                    "Lag in seconds",
                    (_flow("lag_seconds", how="max"), _FLOW, "a flow that reads a topic"),
                    unit="s",
                ),
                chart(
                    "Time of the last batch, by phase",
                    (_flow("batch_ms", "pipeline, flow, phase", "max"), _FLOW + " {{phase}}"),
                    unit="ms",
                ),
                chart(
                    "Behind the watermark",
                    (
                        _flow("watermark_delay_seconds", how="max"),
                        _FLOW,
                        "a flow with a watermark",
                    ),
                    unit="s",
                ),
            ),
        ),
        Row(
            "State and quality",
            (
                chart("Rows in the state", (_flow("state_rows"), _FLOW)),
                chart("Bytes of the state", (_flow("state_bytes"), _FLOW), unit="bytes"),
                chart("Late rows that Spark dropped", (_flow_rate("late_rows"), _FLOW)),
                chart("Restarts", (_flow_rate("restarts"), _FLOW)),
                chart(
                    "Rows that did not meet an expectation",
                    (
                        _flow_rate("expectation_failed", "expectation"),
                        _FLOW + " {{expectation}}",
                        "a flow with expectations",
                    ),
                ),
                chart(
                    "Rows that met an expectation",
                    (
                        _flow_rate("expectation_passed", "expectation"),
                        _FLOW + " {{expectation}}",
                        "a flow with expectations",
                    ),
                ),
            ),
        ),
    ),
)
