"""Parsing of command lines and properties files, as Kafka's tools take them."""
