"""Broker settings of access control, of the audit, and of passwords that are stored (KIP-226)."""

from __future__ import annotations

from typing import Final

from kavka.settings.declaration import Setting, ValueType

_T = ValueType
SECRET: Final = "password.encoder.secret"

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

PASSWORD_SETTINGS: list[Setting] = [
    Setting(
        "password.encoder.secret",
        _T.PASSWORD,
        None,
        "The secret by which passwords among dynamic settings are encrypted in the registry; without it none can be "
        "set. It needs `kavka[tls]`.",
    ),
    Setting(
        "password.encoder.old.secret",
        _T.PASSWORD,
        None,
        "The secret before password.encoder.secret was changed: at its start the broker encrypts with the new one what "
        "was encrypted with this one.",
    ),
    Setting(
        "password.encoder.keyfactory.algorithm",
        _T.STRING,
        None,
        "How a key is made of the secret: PBKDF2WithHmacSHA512 by default, or with SHA1, SHA224, SHA256 or SHA384.",
    ),
    Setting(
        "password.encoder.cipher.algorithm",
        _T.STRING,
        "AES/CBC/PKCS5Padding",
        "How passwords are encrypted: AES/CBC/PKCS5Padding, AES/GCM/NoPadding or AES/CTR/NoPadding.",
    ),
    Setting(
        "password.encoder.key.length",
        _T.INT,
        128,
        "Bits of the key: 128, 192 or 256.",
        minimum=8,
    ),
    Setting(
        "password.encoder.iterations",
        _T.INT,
        4_096,
        "Iterations of the making of a key.",
        minimum=1024,
    ),
]
