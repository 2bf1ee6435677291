"""One file per API, each with `handle(services, context, request)`, which returns a result of `requests.deferred`.

It runs when the request is read, in order on its connection; the stages before it are the dispatcher's. A handler holds
no decisions and no state: it asks `core`, or a part of the broker, and builds the response.
"""
