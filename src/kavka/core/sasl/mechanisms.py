"""The mechanisms of brokers and clients, and the login module of each in `sasl.jaas.config`."""

from __future__ import annotations

from typing import Final

from kavka.core.sasl.gssapi import GSSAPI
from kavka.core.sasl.oauthbearer import OAUTHBEARER
from kavka.core.sasl.plain import PLAIN
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS

_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    PLAIN: f"{_PACKAGE}.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, f"{_PACKAGE}.scram.ScramLoginModule"),
    OAUTHBEARER: f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
MECHANISMS: Final = tuple(LOGIN_MODULES)
