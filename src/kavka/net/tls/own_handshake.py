"""A handshake of settings with themselves: whether brokers that all have them can connect to each other."""

from __future__ import annotations

import ssl

from kavka.net.tls.contexts import client_context, server_context
from kavka.net.tls.failures import BROKER, client_failure, server_reason
from kavka.net.tls.settings import TlsSettings
from kavka.values import replace


def own_handshake_fault(settings: TlsSettings) -> str | None:
    """Return why one broker with these settings refuses another with the same; None where it does not.

    Host names are not checked: the stores are those of this broker only. Raise InvalidSetting for a store that cannot
    be used.
    """
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(replace(settings, checks_host=False)).wrap_bio(to_client, to_server)
    server = server_context(settings).wrap_bio(to_server, to_client, server_side=True)
    # With TLS 1.3 a server checks the certificate of a client after the client is done.
    waiting = [client, server]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
        except ssl.SSLError as error:
            if end is server:
                return server_reason(error)
            return str(client_failure(error, "this broker", BROKER))
    return None
