"""One file per API, each with `handle(<parts>, context, request)`, which returns a result of `requests.deferred`.

The parts of the broker that it works with are its first parameters, found by their names (`broker.handler_parts`);
where several functions share them, they are methods of a class `Handler`.

A handler runs when the request is read, in order on its connection; the stages before it are the dispatcher's. It holds
no decisions and no state: it asks `core`, or a part of the broker, and builds the response.
"""
