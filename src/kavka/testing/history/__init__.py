"""Is what clients saw of a Kafka possible? Histories, a checker for Jepsen's anomalies, and recorders.

A history is a list of events: requests of producers and consumers, and their results. `check` is pure: it
needs no broker, and works for histories of any Kafka, written down by any program (`lines` says in which form).
`python -m kavka.testing.history` runs a workload against a cluster, records it and prints the verdict.
`docs/reference/testing.md` describes it.
"""

from kavka.testing.history.anomalies import ANOMALIES, Anomaly
from kavka.testing.history.check import Finding, Verdict, check
from kavka.testing.history.lines import read_lines, write_event, write_header
from kavka.testing.history.operations import (
    Abort,
    Action,
    Assign,
    Begin,
    Commit,
    Event,
    MalformedHistory,
    Operation,
    Poll,
    Rebalance,
    Record,
    Scan,
    Seek,
    Send,
    Subscribe,
    Type,
)
from kavka.testing.history.promises import Promises
from kavka.testing.history.recorder import Recorder

__all__ = [
    "ANOMALIES",
    "Abort",
    "Action",
    "Anomaly",
    "Assign",
    "Begin",
    "Commit",
    "Event",
    "Finding",
    "MalformedHistory",
    "Operation",
    "Poll",
    "Promises",
    "Rebalance",
    "Record",
    "Recorder",
    "Scan",
    "Seek",
    "Send",
    "Subscribe",
    "Type",
    "Verdict",
    "check",
    "read_lines",
    "write_event",
    "write_header",
]
