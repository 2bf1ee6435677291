"""The controller's shell: elections in the registry, its changes as events, decisions as multis, orders to brokers.

watches --> Watching --events--> Reign (one event at a time) --records--> Writer --multi--> registry
requests --ask-->                  |  ControllerMachine
                                   +--what is dirty--> Channel of each broker --> its Orders
"""
