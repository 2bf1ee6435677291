"""Access control of a broker: its authorizer, ACLs and audit, as policies of its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kavka.broker.context import BrokerContext
from kavka.broker.requests.policies import Policies
from kavka.broker.security.acl_changes import AclChanges
from kavka.broker.security.acl_store import AclStore
from kavka.broker.security.audit import Audit
from kavka.broker.security.authorizer import AclAuthorizer, make_authorizer
from kavka.broker.security.denied_log import DeniedLog
from kavka.broker.security.refused_requests import refusal_of
from kavka.values import replace

if TYPE_CHECKING:
    from kavka.broker.security.audit_topic_writer import AuditTopicWriter
    from kavka.broker.security.delegation_tokens import DelegationTokens


class AccessControl:
    """The authorizer, the ACLs and the audit of one broker; each is None where settings do not ask for it."""

    def __init__(
        self,
        context: BrokerContext,
        audit_writer: AuditTopicWriter | None = None,
        tokens: DelegationTokens | None = None,
    ) -> None:
        """Make the authorizer. Raise InvalidSetting."""
        self._context = context
        self.authorizer = make_authorizer(context.config)
        has_audit = context.config.optional("kavka.audit.log")
        self.audit = Audit(context, audit_writer, tokens) if has_audit else None
        self.acls: AclStore | None = None
        """The ACLs, from the start on, if the authorizer keeps any."""
        self._changes: AclChanges | None = None

    async def start(self) -> None:
        """Load the ACLs, which must be before a request is served. Raise ConnectionError, UnreadableAcls, OSError."""
        if self.audit is not None:
            await self.audit.start()
        if self.authorizer is not None:
            await self.authorizer.start()
        if isinstance(self.authorizer, AclAuthorizer):
            self.acls = AclStore(self._context.registry, self.authorizer.rules)
            self._changes = AclChanges(self._context, self.acls)
            await self._changes.start()

    async def stop(self) -> None:
        """Stop following changes, and write what is to be written."""
        if self._changes is not None:
            await self._changes.stop()
        if self.authorizer is not None:
            await self.authorizer.close()
        if self.audit is not None:
            await self.audit.stop()

    def session_renewed(self) -> None:
        """Note that the registry's session is another one."""
        if self._changes is not None:
            self._changes.session_renewed()

    def policies(self, before: Policies) -> Policies:
        """Return the policies of before with those of access control."""
        policies = before
        if self.authorizer is not None:
            policies = replace(
                policies,
                refusal_of=refusal_of,
                allows=self.authorizer.allows,
                allows_any=self.authorizer.allows_any,
            )
        if self.audit is not None:
            policies = replace(policies, audited=self.audit.audited)
        if self.authorizer is not None:
            denied = DeniedLog().denied
            if self.audit is not None:
                denied = _each(self.audit.denied, denied)
            policies = replace(policies, denied=denied)
        return policies


def _each(*noted: Callable[..., None]) -> Callable[..., None]:
    """Return one callback that passes a denial to each: to the audit, and to the log, where an operator looks first."""

    def denied(*facts: Any) -> None:
        for note in noted:
            note(*facts)

    return denied
