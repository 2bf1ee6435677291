"""The authorizer, the audit, logins by mechanism, delegation tokens; Apache Kafka 3.9 has no metrics of them.

So the names are kavka's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.security.audit import Audit
from kavka.metrics.families import Family, counter, gauge, labelled

_ALLOWED, _DENIED = labelled(result="allowed"), labelled(result="denied")
_FILE, _TOPIC = labelled(to="file"), labelled(to="topic")


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families; none of what the broker does not have."""
    security = sources.security
    if security.sasl_sessions is not None:
        logins = [
            (
                labelled(
                    listener=listener,
                    mechanism=mechanism or "unknown",
                    result="succeeded" if succeeded else "failed",
                ),
                count,
            )
            for (listener, mechanism, succeeded), count in security.sasl_sessions.counts.items()
        ]
        help = "Authentications by SASL; a mechanism that the listener does not offer is `unknown`."
        yield counter("kavka_sasl_authentications_total", help, logins)
    if security.tokens is not None:
        help = "Delegation tokens, with those that have expired and are not removed yet."
        yield gauge("kavka_delegation_tokens", help, security.tokens.count)
    access_control = security.access_control
    if access_control is None:
        return
    authorizer = access_control.authorizer
    if authorizer is not None:
        counts = [(_ALLOWED, authorizer.allowed), (_DENIED, authorizer.denied)]
        help = "Decisions about an operation on one resource; what a connection was allowed once is not counted again."
        yield counter("kavka_authorizer_decisions_total", help, counts)
    if access_control.acls is not None:
        help = "ACLs that are in force."
        yield gauge("kavka_authorizer_acls", help, access_control.acls.rules.count)
    if access_control.audit is not None:
        yield from _of_audit(access_control.audit)


def _of_audit(audit: Audit) -> Iterator[Family]:
    topic = audit.topic
    written = [(_FILE, audit.written)]
    dropped = [(_FILE, audit.dropped)]
    if topic is not None:
        written.append((_TOPIC, topic.written))
        dropped.append((_TOPIC, topic.dropped))
        help = "Lines of the audit that wait for a leader of its topic."
        yield gauge("kavka_audit_lines_waiting", help, topic.waiting)
    yield counter("kavka_audit_lines_written_total", "Lines of the audit.", written)
    help = "Lines of the audit that are missing: too many in a second, or not written."
    yield counter("kavka_audit_lines_dropped_total", help, dropped)
