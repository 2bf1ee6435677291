"""A consumer as a member of its group, by the classic protocol: what it sends, revokes, assigns and gives up. Pure.

Its twin is `kavka.core.group`, the coordinator's side.
"""
