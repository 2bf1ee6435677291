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
        "Authorizer: kafka.security.authorizer.AclAuthorizer, or module:Class of a class of your own in Python. "
        "Empty: every client may do everything.",
    ),
    Setting(
        "super.users",
        _T.STRING,
        "",
        "Principals to which AclAuthorizer allows everything, separated by semicolons: User:admin;User:broker.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        _T.BOOLEAN,
        False,
        "True has AclAuthorizer allow every client access to resources that have no ACL; false allows it to "
        "super.users only.",
    ),
    Setting(
        "kavka.audit.log",
        _T.STRING,
        None,
        "File of the audit: one JSON object a line for each denied or administrative action and each "
        "authentication. Unset: no audit.",
    ),
    Setting(
        "kavka.audit.topic",
        _T.STRING,
        None,
        "Topic to which the lines of kavka.audit.log are appended as well; it needs that setting. It is created on "
        "first use, and may lack lines that the file has.",
    ),
    Setting(
        "kavka.audit.topic.replication.factor",
        _T.SHORT,
        3,
        "Replication factor of kavka.audit.topic. The topic is not created while fewer brokers are alive.",
        minimum=1,
    ),
    Setting(
        "kavka.audit.max.per.second",
        _T.INT,
        1_000,
        "Maximum lines per second of each kind of event in kavka.audit.log. Further events are counted, and one "
        "line has their number.",
        minimum=1,
    ),
]

PASSWORD_SETTINGS: list[Setting] = [
    Setting(
        "password.encoder.secret",
        _T.PASSWORD,
        None,
        "Secret with which passwords among dynamic settings are encrypted in the registry (needs `kavka[tls]`). "
        "Unset: such passwords cannot be set.",
    ),
    Setting(
        "password.encoder.old.secret",
        _T.PASSWORD,
        None,
        "Former password.encoder.secret, to be set for the restart that changes it: the broker decrypts with the "
        "old secret, and encrypts again with the new one.",
    ),
    Setting(
        "password.encoder.keyfactory.algorithm",
        _T.STRING,
        None,
        "Derivation of the encryption key from password.encoder.secret: PBKDF2WithHmacSHA512 (when unset), or the "
        "same with SHA1, SHA224, SHA256 or SHA384.",
    ),
    Setting(
        "password.encoder.cipher.algorithm",
        _T.STRING,
        "AES/CBC/PKCS5Padding",
        "Cipher of stored passwords: AES/CBC/PKCS5Padding, AES/GCM/NoPadding or AES/CTR/NoPadding.",
    ),
    Setting(
        "password.encoder.key.length",
        _T.INT,
        128,
        "Length in bits of the key that encrypts stored passwords: 128, 192 or 256.",
        minimum=8,
    ),
    Setting(
        "password.encoder.iterations",
        _T.INT,
        4_096,
        "Iterations of password.encoder.keyfactory.algorithm: more make it slower to guess the secret.",
        minimum=1024,
    ),
]
