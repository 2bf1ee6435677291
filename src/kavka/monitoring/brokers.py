"""The dashboard of brokers: health of the cluster, traffic, requests, replication, event loop, disks, clients."""

from __future__ import annotations

from typing import Final

from kavka.monitoring.panels import Dashboard, Row, Variable, chart, stat

_R: Final = "kafka_server_replicamanager_"
_C: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_SOCKETS: Final = "kafka_server_socket_server_metrics_"
_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_TIMES: Final = "kafka_network_requestmetrics_"
_LISTENER: Final = "kafka_server_sessionexpirelistener_"


def _on(name: str, more: str = "") -> str:
    """Return a selector on the chosen brokers."""
    return f'{name}{{job=~"$job",instance=~"$instance"{"," + more if more else ""}}}'


def _rate(name: str, more: str = "", by: str = "instance") -> str:
    return f"sum by ({by}) (rate({_on(name, more)}[$__rate_interval]))"


def _max(name: str, more: str = "", by: str = "instance") -> str:
    return f"max by ({by}) ({_on(name, more)})"


def _by_instance(name: str, more: str = "") -> str:
    return f"sum by (instance) ({_on(name, more)})"


_ALL_TOPICS: Final = 'topic=""'
_BROKER: Final = "{{instance}}"
_P99: Final = 'quantile="0.99"'

_HEALTH: Final = Row(
    "Health",
    (
        stat(
            "Brokers",
            f"count({_on('kafka_server_kafkaserver_brokerstate')})",
            "Pages that answer. One that is missing does not run, or its event loop is blocked.",
            bad_below=1,
        ),
        stat(
            "Controllers",
            f"sum({_on(_C + 'activecontrollercount')})",
            "1. With 0 there is no election and no new topic; 2 are two clusters.",
            bad_below=1,
            bad_from=2,
        ),
        stat(
            "Without leader",
            f"max({_on(_C + 'offlinepartitionscount')})",
            "Partitions that can be neither read nor written.",
            bad_from=1,
        ),
        stat(
            "Below min in-sync",
            f"sum({_on(_R + 'underminisrpartitioncount')})",
            "Partitions for which acks=all is refused.",
            bad_from=1,
        ),
        stat(
            "Under-replicated",
            f"sum({_on(_R + 'underreplicatedpartitions')})",
            "Partitions whose copies are missing or behind; usual during a restart.",
            bad_from=1,
        ),
        stat(
            "Unclean elections, 24 h",
            f"sum(increase({_on(_STATS + 'uncleanleaderelections_total')}[24h]))",
            "Leaders that were not in sync: acknowledged records may be lost.",
            bad_from=1,
        ),
        stat("Topics", f"max({_on(_C + 'globaltopiccount')})"),
        stat("Partitions", f"max({_on(_C + 'globalpartitioncount')})"),
        stat("Replicas offline", f"sum({_on(_R + 'offlinereplicacount')})", bad_from=1),
        stat(
            "Not preferred leaders",
            f"max({_on(_C + 'preferredreplicaimbalancecount')})",
            "Partitions that another than their first replica leads.",
        ),
        stat(
            "Hanging transactions",
            f"sum({_on(_R + 'partitionswithlatetransactionscount')})",
            "Partitions with a transaction that is open for longer than any may be.",
            bad_from=1,
        ),
        stat(
            "Registry",
            f"min({_on('kavka_registry_connected')})",
            "1 while the registry answers every broker.",
            bad_below=1,
        ),
    ),
)

_TRAFFIC: Final = Row(
    "Traffic",
    (
        chart(
            "Bytes from producers",
            (_rate(_TOPICS + "bytesin_total", _ALL_TOPICS), _BROKER),
            unit="Bps",
            help="Batches as they were sent, compressed.",
            is_stacked=True,
        ),
        chart(
            "Bytes to consumers",
            (_rate(_TOPICS + "bytesout_total", _ALL_TOPICS), _BROKER),
            unit="Bps",
            is_stacked=True,
        ),
        chart(
            "Records from producers",
            (_rate(_TOPICS + "messagesin_total", _ALL_TOPICS), _BROKER),
            help="Records in a second.",
            is_stacked=True,
        ),
        chart(
            "Bytes between brokers",
            (_rate(_TOPICS + "replicationbytesin_total"), "{{instance}} in"),
            (_rate(_TOPICS + "replicationbytesout_total"), "{{instance}} out"),
            unit="Bps",
        ),
    ),
)

_REQUESTS: Final = Row(
    "Requests",
    (
        chart(
            "Requests",
            (_rate(_TIMES + "requests_total", by="request"), "{{request}}"),
            unit="reqps",
            is_stacked=True,
        ),
        chart(
            "Errors in responses",
            (
                _rate(_TIMES + "errors_total", by="request, error"),
                "{{request}} {{error}}",
                "an error in a response",
            ),
            help="Of partitions: one response may hold several.",
        ),
        *(
            chart(
                f"{request}: time to the response, 99 of 100",
                (_max(_TIMES + "totaltimems", more), "{{instance}} whole"),
                (_max(_TIMES + "remotetimems", more), "{{instance}} waiting"),
                unit="ms",
                help="Waiting is for followers, records, the disk or a group; the rest is this broker's work.",
            )
            for request in ("Produce", "Fetch")
            for more in (f'request="{request}",quantile="0.99"',)
        ),
        chart(
            "Requests that wait",
            (
                f"sum by (delayedOperation) ({_on('kafka_server_delayedoperationpurgatory_purgatorysize')})",
                "{{delayedOperation}} in purgatory",
            ),
            (
                f"sum({_on('kafka_network_requestchannel_requestqueuesize')})",
                "received, not looked at",
            ),
        ),
        chart(
            "Refused and failed",
            (
                _rate("kavka_network_requests_refused_total", 'request=""'),
                "{{instance}} refused",
            ),
            (_rate("kavka_network_requests_failed_total", 'request=""'), "{{instance}} failed"),
            (
                _rate("kavka_network_connections_refused_total", 'setting=""'),
                "{{instance}} connections refused",
            ),
            help="The log of the broker names the client and the reason.",
        ),
        chart(
            "Throttled by quotas, 99 of 100",
            (_max(_TIMES + "throttletimems", _P99, by="request"), "{{request}}"),
            unit="ms",
        ),
        chart(
            "Converted records",
            (_rate(_TOPICS + "producemessageconversions_total"), "{{instance}} produced"),
            (_rate(_TOPICS + "fetchmessageconversions_total"), "{{instance}} fetched"),
            help="Of an Apache Kafka broker; kavka converts none.",
        ),
    ),
)

_LOOP: Final = Row(
    "Event loop and memory",
    (
        chart(
            "Idle share of the broker's thread",
            (
                f"min by (instance) ({_on('kafka_network_socketserver_networkprocessoravgidle_percent')})",
                _BROKER,
            ),
            unit="percentunit",
            help="Below 0.2 add brokers, or use larger batches at the producers.",
        ),
        chart(
            "Longest iteration of the event loop",
            (_max("kavka_event_loop_longest_iteration_ms"), _BROKER),
            unit="ms",
            help="All clients of the broker wait while one lasts.",
        ),
        chart(
            "Memory",
            (_by_instance("process_resident_memory_bytes"), _BROKER),
            unit="bytes",
        ),
        chart(
            "Memory of requests",
            (_by_instance("kafka_network_socketserver_memorypoolused"), "{{instance}} used"),
            (
                _by_instance("kafka_network_socketserver_memorypoolavailable"),
                "{{instance}} left",
            ),
            unit="bytes",
        ),
        chart("CPU", (_rate("process_cpu_seconds_total"), _BROKER), help="Processors in use."),
        chart(
            "Open files",
            (
                f"max by (instance) ({_on('process_open_fds')} / {_on('process_max_fds')})",
                _BROKER,
            ),
            unit="percentunit",
        ),
    ),
)

_REPLICATION: Final = Row(
    "Replication and controller",
    (
        chart(
            "In-sync sets that changed",
            (_rate(_R + "isrshrinks_total"), "{{instance}} smaller"),
            (_rate(_R + "isrexpands_total"), "{{instance}} larger"),
            help="Smaller without a restart: a follower lags, by a slow disk or network.",
        ),
        chart(
            "Largest lag of a follower",
            (_max("kafka_server_replicafetchermanager_maxlag"), _BROKER),
            help="Records behind the leader.",
        ),
        chart(
            "Requests of the slowest fetcher",
            (
                f"min by (instance) ({_on('kafka_server_replicafetchermanager_minfetchrate')})",
                _BROKER,
            ),
            unit="reqps",
        ),
        chart(
            "Leaders",
            (_by_instance(_R + "leadercount"), "{{instance}} leads"),
            (_by_instance(_R + "partitioncount"), "{{instance}} has"),
            help="Partitions; a broker that leads far fewer than it has was restarted, or is new.",
        ),
        chart(
            "Events of the controller, 99 of 100",
            (
                f"max({_on('kafka_controller_controllereventmanager_eventqueuetimems', _P99)})",
                "waiting",
            ),
            (f"max({_on(_STATS + 'isrchangerateandtimems', _P99)})", "in-sync change"),
            (f"max({_on(_STATS + 'leaderelectionrateandtimems', _P99)})", "election"),
            unit="ms",
        ),
        chart(
            "Elections",
            (_rate("kavka_controller_leader_elections_total"), _BROKER),
            help="Leaders of partitions that the controller elected, in a second.",
        ),
        chart(
            "Registry, 99 of 100",
            (_max("kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", _P99), _BROKER),
            unit="ms",
            help="From a request of a broker to the reply of the registry.",
        ),
        chart(
            "Sessions with the registry",
            (_rate(_LISTENER + "zookeeperdisconnects_total"), "{{instance}} connection lost"),
            (_rate(_LISTENER + "zookeeperexpires_total"), "{{instance}} expired"),
        ),
    ),
)

_DISKS: Final = Row(
    "Disks",
    (
        chart(
            "Used share of log directories",
            (
                f"max by (instance, logDirectory) (1 - {_on('kavka_log_directory_usable_bytes')}"
                f" / {_on('kavka_log_directory_total_bytes')})",
                "{{instance}} {{logDirectory}}",
            ),
            unit="percentunit",
        ),
        chart(
            "Free in three days at this pace",
            (
                "min by (instance, logDirectory)"
                f" (predict_linear({_on('kavka_log_directory_usable_bytes')}[6h], 3 * 86400))",
                "{{instance}} {{logDirectory}}",
            ),
            unit="bytes",
            help="Below 0 the disk is full in less than three days.",
        ),
        chart("Logs", (_by_instance("kafka_log_log_size"), _BROKER), unit="bytes", is_stacked=True),
        chart(
            "Flushes, 99 of 100",
            (_max("kafka_log_logflushstats_logflushrateandtimems", _P99), _BROKER),
            unit="ms",
        ),
        chart(
            "Reads and writes of the process",
            (_rate("kafka_server_kafkaserver_linux_disk_read_bytes"), "{{instance}} read"),
            (_rate("kafka_server_kafkaserver_linux_disk_write_bytes"), "{{instance}} written"),
            unit="Bps",
        ),
        chart(
            "Log cleaner: dirtiest log",
            (_max("kafka_log_logcleanermanager_max_dirty_percent"), _BROKER),
            unit="percent",
        ),
    ),
)

_CLIENTS: Final = Row(
    "Clients",
    (
        chart(
            "Connections",
            (_by_instance(_SOCKETS + "connection_count"), _BROKER),
            is_stacked=True,
        ),
        chart(
            "Connections by software",
            (
                f"sum by (clientSoftwareName, clientSoftwareVersion) ({_on(_SOCKETS + 'connections_software')})",
                "{{clientSoftwareName}} {{clientSoftwareVersion}}",
            ),
            is_stacked=True,
            help="As clients name themselves: look for old ones before an upgrade.",
        ),
        chart(
            "New connections",
            (
                _rate(_SOCKETS + "connection_creation_total", by="instance, listener"),
                "{{instance}} {{listener}}",
            ),
            help="In a second. Many, with few open, are clients that connect for each request.",
        ),
        chart(
            "Failed logins and handshakes",
            (
                _rate(_SOCKETS + "failed_authentication_total", by="instance, listener"),
                "{{instance}} {{listener}}",
            ),
        ),
        chart(
            "Denied by ACLs",
            (
                _rate("kavka_authorizer_decisions_total", 'result="denied"'),
                _BROKER,
                "a broker with an authorizer",
            ),
        ),
        chart(
            "Quotas: throttle time of clients",
            (
                _max("kafka_server_produce_throttle_time", by="user, client_id"),
                "produce {{user}} {{client_id}}",
                "a quota of producers",
            ),
            (
                _max("kafka_server_fetch_throttle_time", by="user, client_id"),
                "fetch {{user}} {{client_id}}",
                "a quota of consumers",
            ),
            unit="ms",
        ),
        chart(
            "Transactional ids",
            (f"sum by (state) ({_on('kavka_coordinator_transaction_ids')})", "{{state}}"),
            help="By the state of their last transaction, at their coordinators.",
        ),
        chart(
            "Oldest open transaction",
            (f"max({_on('kavka_coordinator_transaction_oldest_open_ms')})", "age"),
            unit="ms",
            help="Readers with read_committed wait for it.",
        ),
    ),
)


def _variables() -> tuple[Variable, ...]:
    metric = "kafka_server_kafkaserver_brokerstate"
    return (
        Variable("job", "job", metric, "Job"),
        Variable("instance", "instance", f'{metric}{{job=~"$job"}}', "Broker"),
    )


BROKERS: Final = Dashboard(
    "kavka-brokers",
    "kavka: brokers",
    "Health, traffic, requests, replication, event loop, disks and clients of the brokers of a cluster.",
    _variables(),
    (_HEALTH, _TRAFFIC, _REQUESTS, _LOOP, _REPLICATION, _DISKS, _CLIENTS),
)
