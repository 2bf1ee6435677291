"""Parsers of log events: from the text of an event to named fields and its time. Pure.

combined   the access log of Apache and nginx, in the combined or the common format
json       an object in each event
logfmt     key=value pairs
syslog     RFC 5424, RFC 3164, and the lines that rsyslog writes into /var/log
regex      named groups of a regular expression
"""
