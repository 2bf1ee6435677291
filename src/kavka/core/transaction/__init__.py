"""The transaction coordinator: transactional ids, their producers and what their transactions include, per shard.

A shard is one partition of `__transaction_state`; it owns the transactional ids that hash to it.
`shard.TransactionShard` is the machine, `events` are its events, replies and effects, `records` its hard
state. Sources: KIP-98, KIP-360, KIP-447, KIP-664, KIP-890, KIP-939; Kafka's `TransactionCoordinator` and
`TransactionStateManager`.
"""
