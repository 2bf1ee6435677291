"""The options that login modules know: what else stands in a JAAS text is a slip that has no effect.

Java's modules ignore what they do not know, so that a misspelt option is found by its missing effect only.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from kavka.core.sasl.gssapi import GSSAPI
from kavka.core.sasl.oauthbearer import OAUTHBEARER
from kavka.core.sasl.plain import PLAIN
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS

_USER: Final = "user_"
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    PLAIN: ("username", "password"),
    **dict.fromkeys(SCRAM_MECHANISMS, ("username", "password", "tokenauth")),
    OAUTHBEARER: (
        "clientId",
        "clientSecret",
        "scope",
        "unsecuredLoginPrincipalClaimName",
        "unsecuredLoginScopeClaimName",
        "unsecuredLoginLifetimeSeconds",
        "unsecuredValidatorPrincipalClaimName",
        "unsecuredValidatorScopeClaimName",
        "unsecuredValidatorRequiredScope",
        "unsecuredValidatorAllowableClockSkewMs",
    ),
    GSSAPI: (
        "useKeyTab",
        "keyTab",
        "principal",
        "storeKey",
        "serviceName",
        "useTicketCache",
        "ticketCache",
        "refreshKrb5Config",
        "renewTGT",
        "doNotPrompt",
        "isInitiator",
        "useFirstPass",
        "tryFirstPass",
        "storePass",
        "clearPass",
        "debug",
    ),
}
_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    PLAIN: (_USER,),
    OAUTHBEARER: (
        "extension_",
        "ssl.",
        "unsecuredLoginStringClaim_",
        "unsecuredLoginNumberClaim_",
        "unsecuredLoginListClaim_",
        "unsecuredLoginExtension_",
    ),
}


def jaas_faults(mechanism: str, options: Mapping[str, str]) -> list[str]:
    """Return what has no effect among the options of a mechanism's login module, each in words; no value is shown."""
    known, prefixes = _KNOWN[mechanism], _PREFIXES.get(mechanism, ())
    found = []
    for name, value in options.items():
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
        if name in known:
            continue
        if prefix is None:
            found.append(_unknown(name, (*known, *prefixes)))
        elif name == prefix:
            found.append(f"the option {name} has no name behind {prefix}")
        elif prefix == _USER and not value:
            found.append(f"the option {name} has no password, so the user cannot authenticate")
    return found


def _unknown(name: str, known: tuple[str, ...]) -> str:
    lower = {each.lower(): each for each in known}
    stem = name.partition("_")[0].lower()
    near = get_close_matches(name.lower(), lower, 1, 0.75) or get_close_matches(
        stem, [each.rstrip("_") for each in lower], 1, 0.75
    )
    meant = next(
        (each for key, each in lower.items() if near and key.rstrip("_") == near[0].rstrip("_")),
        None,
    )
    return f"the option {name} is not known" + (f": is it {meant}?" if meant else "")
