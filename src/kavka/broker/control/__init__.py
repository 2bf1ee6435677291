"""The controller: elections in the registry, its changes as events, decisions as multis, control requests.

watches --> WatchedRegistry --events--> ControllerTerm (one at a time) --records--> RegistryWriter --multi--> registry
requests --ask-->                  |  ControllerMachine
                                   +--dirty partitions--> BrokerChannel of each broker --> its ControlRequests
"""
