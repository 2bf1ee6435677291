"""The classic group coordinator: members, generations, assignments and committed offsets, as one machine per shard.

A shard is one partition of `__consumer_offsets`; it owns the groups that hash to it. `shard.GroupShard` is the machine,
`events` are its events, replies and effects, `records` its hard state. Sources: KIP-62, KIP-134, KIP-211, KIP-345,
KIP-394, KIP-496, KIP-559, KIP-814; Kafka's `GroupCoordinator`.
"""
