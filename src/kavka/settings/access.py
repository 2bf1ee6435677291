"""Broker settings of access control and of the audit."""

from __future__ import annotations

from kavka.settings.declaration import Setting, ValueType

_T = ValueType

ACCESS_SETTINGS: list[Setting] = [
    Setting(
        "authorizer.class.name",
        _T.STRING,
        "",
        "The authorizer: kafka.security.authorizer.AclAuthorizer, or module:Class of your own in Python. "
        "Without one every client may do everything.",
    ),
    Setting(
        "super.users",
        _T.STRING,
        "",
        "Users that AclAuthorizer allows everything, separated by semicolons: User:admin;User:broker.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        _T.BOOLEAN,
        False,
        "True has AclAuthorizer allow everyone what concerns a resource without any ACL.",
    ),
    Setting(
        "kavka.audit.log",
        _T.STRING,
        None,
        "File to which denied and administrative actions and authentications are appended, one JSON object a line. "
        "Without it there is no audit.",
    ),
    Setting(
        "kavka.audit.topic",
        _T.STRING,
        None,
        "Topic to which the lines of kavka.audit.log, which it needs, are appended as well. It is created on first "
        "use, and may lack lines that the file has.",
    ),
    Setting(
        "kavka.audit.topic.replication.factor",
        _T.SHORT,
        3,
        "Replication factor of kavka.audit.topic, which is not created while fewer brokers are alive.",
        minimum=1,
    ),
    Setting(
        "kavka.audit.max.per.second",
        _T.INT,
        1_000,
        "Lines of kavka.audit.log in one second, of each event. Of more only the number is written.",
        minimum=1,
    ),
]
