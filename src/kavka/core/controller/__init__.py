"""The controller's decisions: topics and their placement, leaders, in-sync sets, reassignments, deletions.

`machine.ControllerMachine` is the machine; `state` is its picture of the cluster, `step` one decision in the making,
`orders` what brokers have yet to be told. The other modules hold the rules, one subject each.
"""
