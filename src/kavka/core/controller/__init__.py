"""What the controller decides: topics and their placement, who leads, who is in sync, what moves, what is deleted.

`machine.ControllerMachine` is the machine; `state` is its picture of the cluster, `step` one decision in the making,
`orders` what brokers have yet to be told. The other modules hold the rules, one subject each.
"""
