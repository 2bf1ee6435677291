"""The controller's decisions: topics and their placement, leaders, in-sync sets, reassignments, deletions.

`machine.ControllerMachine` is the machine; `state` is its state of the cluster, `step` a decision while it is made,
`broker_updates` the pending updates of brokers. The other modules hold the rules, one subject each.
"""
