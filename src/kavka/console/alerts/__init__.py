"""Alerts of the console: rules in a file of YAML, decided at each look at the cluster, sent to webhooks and by mail.

`rules` reads the file, `conditions` says what a rule can watch, `book` is the pure machine that decides, `messages`
writes what channels send, `delivery` sends it, `records` keeps states, events, deliveries and silences in the
history's file, `service` holds them together.
"""
