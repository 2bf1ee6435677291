"""Schemas of keys and values: JSON, Avro and Protobuf, with a schema registry or without."""
