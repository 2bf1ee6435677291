"""Alert rules for Prometheus, and the YAML of its rule files.

Each says what it means and what to do; how-to/monitor.md has the same rules in a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.values import frozen

_MANUAL: Final = "docs/how-to/monitor.md"
_R: Final = "kafka_server_replicamanager_"
_C: Final = "kafka_controller_kafkacontroller_"
_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_SOCKETS: Final = "kafka_server_socket_server_metrics_"
_CRITICAL: Final = "critical"
_WARNING: Final = "warning"


@frozen
class Alert:
    """A rule: `promql` holds for `duration`, as `5m`; `0s` is at once."""

    name: str
    promql: str
    duration: str
    severity: str
    summary: str
    action: str


BROKERS: Final = (
    Alert(
        "BrokerIsDown",
        'up{job=~".*(kafka|kavka|broker).*"} == 0',
        "1m",
        _CRITICAL,
        "the page of a broker cannot be fetched: it does not run, or its event loop is blocked",
        "read its log and start it; other brokers lead its partitions",
    ),
    Alert(
        "ControllerCount",
        f"sum({_C}activecontrollercount) != 1",
        "1m",
        _CRITICAL,
        "with no controller there is no election and no new topic; two are two clusters or a deposed controller",
        "with 0: is the registry reachable (kavka_registry_connected)?",
    ),
    Alert(
        "OfflinePartitions",
        f"max({_C}offlinepartitionscount) > 0",
        "1m",
        _CRITICAL,
        "partitions without a leader can be neither read nor written",
        "see Offline partitions in docs/how-to/recover.md",
    ),
    Alert(
        "UnderMinInSyncReplicas",
        f"sum({_R}underminisrpartitioncount) > 0",
        "1m",
        _CRITICAL,
        "writes with acks=all are refused",
        "bring back the missing broker",
    ),
    Alert(
        "UncleanLeaderElection",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[5m]) > 0",
        "0s",
        _CRITICAL,
        "a leader was elected that was not in sync: acknowledged records may be lost",
        "was it requested, or is unclean.leader.election.enable set? notify the owners of the topics",
    ),
    Alert(
        "OfflineReplicas",
        f"sum({_R}offlinereplicacount) > 0",
        "0s",
        _CRITICAL,
        "a disk has failed, or a log cannot be opened",
        "see Replacing a disk in docs/how-to/recover.md",
    ),
    Alert(
        "OfflineLogDirectory",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "0s",
        _CRITICAL,
        "a disk of the broker has failed",
        "see Replacing a disk in docs/how-to/recover.md",
    ),
    Alert(
        "LogDirectoryAlmostFull",
        "kavka_log_directory_usable_bytes / kavka_log_directory_total_bytes < 0.1",
        "5m",
        _CRITICAL,
        "less than a tenth of a log directory's disk is free; a full disk takes the directory offline",
        "shorten retention, move partitions away, or add a disk",
    ),
    Alert(
        "LogDirectoryWillFill",
        "predict_linear(kavka_log_directory_usable_bytes[6h], 86400) < 0",
        "30m",
        _WARNING,
        "at the pace of the last six hours a disk is full in less than a day",
        "which topic grows (kafka_log_log_size)? shorten its retention, or add brokers",
    ),
    Alert(
        "UnderReplicatedPartitions",
        f"sum({_R}underreplicatedpartitions) > 0",
        "10m",
        _WARNING,
        "copies are missing or behind; usual during restarts and for the length of a catch-up",
        "see Under-replicated partitions in docs/how-to/recover.md",
    ),
    Alert(
        "AtMinInSyncReplicas",
        f"sum({_R}atminisrpartitioncount and on (instance) {_R}underreplicatedpartitions > 0) > 0",
        "10m",
        _WARNING,
        "one more lost broker and acks=all is refused",
        "bring back the missing broker; no rolling restart now",
    ),
    Alert(
        "InSyncSetsShrink",
        f"rate({_R}isrshrinks_total[5m]) > 0",
        "10m",
        _WARNING,
        "followers fall behind by replica.lag.time.max.ms: a slow disk or network, or long pauses",
        "read the follower's log, iostat, and kafka_server_fetcherlagmetrics_consumerlag by partition",
    ),
    Alert(
        "InSyncUpdatesFail",
        f"increase({_R}failedisrupdates_total[5m]) > 0",
        "10m",
        _WARNING,
        "the controller refuses changes of in-sync sets again and again",
        "the leader's log has the reasons: in-sync set not changed",
    ),
    Alert(
        "FollowerLagGrows",
        "deriv(kafka_server_replicafetchermanager_maxlag[15m]) > 0"
        " and kafka_server_replicafetchermanager_maxlag > 10000",
        "15m",
        _WARNING,
        "a follower will not catch up",
        "is a throttle left? more num.replica.fetchers",
    ),
    Alert(
        "PartitionsNotFollowed",
        "kafka_server_replicafetchermanager_failedpartitionscount > 0",
        "0s",
        _CRITICAL,
        "partitions are no longer followed: a disk, or a bug of kavka",
        "its log says: partition no longer followed; restart that broker",
    ),
    Alert(
        "HangingTransaction",
        f"{_R}partitionswithlatetransactionscount > 0",
        "5m",
        _WARNING,
        "a transaction is open for longer than any may be: readers with read_committed wait for it",
        "kavka transactions find-hanging, then abort",
    ),
    Alert(
        "RegistryNotConnected",
        "kavka_registry_connected == 0",
        "30s",
        _CRITICAL,
        "the registry does not answer this broker; for longer than its session it loses its leaderships",
        "see The registry in docs/how-to/recover.md",
    ),
    Alert(
        "SessionExpired",
        "increase(kafka_server_sessionexpirelistener_zookeeperexpires_total[1h]) > 0",
        "0s",
        _WARNING,
        "a session with the registry ended: a long pause, or the registry was away",
        "look for swap, a stopped machine, a blocked disk",
    ),
    Alert(
        "BrokerIsBusy",
        "kafka_network_socketserver_networkprocessoravgidle_percent < 0.2",
        "10m",
        _WARNING,
        "the broker's one thread is busy four fifths of its time",
        "add brokers (--workers), use larger batches at the producers",
    ),
    Alert(
        "EventLoopStalls",
        "rate(kavka_event_loop_stalled_ms_total[5m]) > 50",
        "5m",
        _WARNING,
        "in a twentieth of its time the broker serves one piece of work and no other client",
        "its log names the API and the client: event loop stalled",
    ),
    Alert(
        "ProduceRequestsFail",
        f"rate({_TOPICS}failedproducerequests_total[5m]) > 0",
        "5m",
        _WARNING,
        "batches are refused: too few replicas, a wrong sequence, records without key in a compacted topic",
        'kafka_network_requestmetrics_errors_total{request="Produce"} says which error',
    ),
    Alert(
        "RequestsFail",
        'rate(kavka_network_requests_failed_total{request=""}[5m]) > 0',
        "0s",
        _WARNING,
        "requests are given up because of a disk, the registry or a bug of the broker",
        "the log says: request given up, request failed",
    ),
    Alert(
        "RequestsRefused",
        'rate(kavka_network_requests_refused_total{request=""}[5m]) > 0',
        "5m",
        _WARNING,
        "a client sends a request that is not served, or one above a bound",
        "the log names client and bound: connection closed",
    ),
    Alert(
        "AuthenticationsFail",
        f"sum by (listener) (rate({_SOCKETS}failed_authentication_total[5m])) > 1",
        "5m",
        _WARNING,
        "passwords are guessed, a credential has expired, or certificates do not fit",
        "the log names the address: authentication failed, TLS handshake failed",
    ),
    Alert(
        "RequestsDenied",
        'rate(kavka_authorizer_decisions_total{result="denied"}[5m]) > 1',
        "10m",
        _WARNING,
        "a client without rights tries again and again",
        "the log or the audit: denied; add the ACL, or find the client's owner",
    ),
    Alert(
        "AuditHasGaps",
        "increase(kavka_audit_lines_dropped_total[5m]) > 0",
        "0s",
        _CRITICAL,
        "the audit has gaps: a flood of denials, a disk, or its topic without a leader",
        "audit not written, audit topic not written in the log; kavka.audit.max.per.second",
    ),
    Alert(
        "DamagedRecords",
        f"rate({_TOPICS}failedfetchrequests_total[5m]) > 0",
        "0s",
        _CRITICAL,
        "damaged records were found while reading",
        "the log says: partition cannot be read",
    ),
    Alert(
        "ProduceIsSlow",
        'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} > 500',
        "10m",
        _WARNING,
        "one write in a hundred takes more than half a second",
        "remotetimems high: followers are slow; localtimems high: this broker is",
    ),
    Alert(
        "FlushIsSlow",
        'kafka_log_logflushstats_logflushrateandtimems{quantile="0.99"} > 1000',
        "10m",
        _WARNING,
        "the disk takes a second for a flush",
        "the disk",
    ),
    Alert(
        "OpenFilesAlmostUsed",
        "process_open_fds / process_max_fds > 0.8",
        "10m",
        _WARNING,
        "connections are refused soon",
        "raise ulimit -n",
    ),
    Alert(
        "LeadersNotPreferred",
        f"max({_C}preferredreplicaimbalancecount) / max({_C}globalpartitioncount) > 0.2",
        "30m",
        _WARNING,
        "leaders moved by failures have not moved back",
        "see Balancing leaders in docs/how-to/operate.md",
    ),
    Alert(
        "DeletionIsStuck",
        f"max({_C}topicsineligibletodeletecount) > 0",
        "30m",
        _WARNING,
        "a deletion waits for a replica that could not be deleted",
        "that broker's disk",
    ),
    Alert(
        "RequestsQueue",
        "kafka_network_requestchannel_requestqueuesize > 1000",
        "5m",
        _WARNING,
        "clients send faster than the broker handles requests",
        "as for BrokerIsBusy",
    ),
    Alert(
        "ConnectionsHeldBack",
        "kavka_network_connections_held_back > 0",
        "5m",
        _WARNING,
        "requests use their whole memory budget: large ones wait",
        "see What requests may take in docs/how-to/tune.md",
    ),
)

GROUPS: Final = (
    Alert(
        "ConsumerLag",
        "max by (consumergroup, topic) (kafka_consumergroup_lag_seconds) > 300",
        "5m",
        _WARNING,
        "a group is five minutes behind a topic",
        "more members, up to the number of partitions; is a member stuck (kavka consumer-groups --describe)?",
    ),
    Alert(
        "ConsumerGroupIsStuck",
        "sum by (consumergroup, topic) (kafka_consumergroup_lag) > 0"
        " and max by (consumergroup, topic) (deriv(kafka_consumergroup_lag_seconds[10m])) >= 0.95",
        "10m",
        _WARNING,
        "a group has records to read and commits nothing: its lag grows with the clock",
        "the log of its members; a record that cannot be processed?",
    ),
    Alert(
        "ConsumerGroupIsEmpty",
        "kafka_consumergroup_members == 0"
        " and on (consumergroup) sum by (consumergroup) (kafka_consumergroup_lag) > 0",
        "10m",
        _WARNING,
        "a group has records to read and no members",
        "start its program, or delete the group",
    ),
    Alert(
        "GroupsNotRead",
        "kavka_groups_up == 0",
        "2m",
        _WARNING,
        "kavka group-metrics cannot read the groups of the cluster: lag is not known",
        "its standard error has the reason",
    ),
)

PIPELINES: Final = (
    Alert(
        "PipelineHasEnded",
        "kavka_pipeline_running == 0",
        "1m",
        _CRITICAL,
        "a flow has ended",
        "kavka pipelines status has its last error",
    ),
    Alert(
        "PipelineLag",
        "max by (pipeline, flow) (kavka_pipeline_lag_seconds) > 60",
        "5m",
        _WARNING,
        "a flow falls behind",
        "kavka_pipeline_batch_ms says in which phase",
    ),
    Alert(
        "PipelineIsSilent",
        "time() - kavka_pipeline_updated_timestamp_seconds > 300 and kavka_pipeline_running == 1",
        "1m",
        _WARNING,
        "a flow that runs has not been heard of for five minutes",
        "its log; is a batch stuck?",
    ),
    Alert(
        "PipelineDropsLateRows",
        "increase(kavka_pipeline_late_rows_total[10m]) > 0",
        "0s",
        _WARNING,
        "Spark drops rows behind the watermark",
        "see Late rows in docs/how-to/dead-letters.md",
    ),
    Alert(
        "PipelineRowsFailExpectations",
        "increase(kavka_pipeline_expectation_failed_total[10m]) > 0",
        "0s",
        _WARNING,
        "rows do not meet an expectation",
        "see docs/how-to/dead-letters.md",
    ),
)

ALERTS: Final = {"brokers": BROKERS, "groups": GROUPS, "pipelines": PIPELINES}


def rules_yaml() -> str:
    """Return a file for `rule_files` of Prometheus."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"# Written by `kavka monitoring`. What each alert means, and what to do: {_MANUAL} of kavka."
    yield "groups:"
    for group, alerts in ALERTS.items():
        yield f"  - name: kavka-{group}"
        yield "    rules:"
        for alert in alerts:
            yield f"      - alert: {alert.name}"
            yield f"        expr: {_quoted(alert.promql)}"
            yield f"        for: {alert.duration}"
            yield "        labels:"
            yield f"          severity: {alert.severity}"
            yield "        annotations:"
            yield f"          summary: {_quoted(alert.summary)}"
            yield f"          action: {_quoted(alert.action)}"


def _quoted(text: str) -> str:
    """Return a text in YAML's single quotes, in which only they are special."""
    return "'" + text.replace("'", "''") + "'"
