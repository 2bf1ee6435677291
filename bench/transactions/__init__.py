"""Cost of transactions, at Apache Kafka 4.1 and at kavka, in turns (`make bench-transactions`).

`cost` measures transactions of 100 ms against none, `small` transactions of one record, `many` a thousand open ones,
`through_spark` the exactly-once sink and the way of a record through a Spark job; `pair` starts both brokers, `run`
does all of it.
"""
