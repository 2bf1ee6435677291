"""One file per API: decode was done, access is checked, core is asked, the answer is built. No decisions, no state.

Each module has `handle(broker, context, request)`, which runs when the request is read, in order on its connection. It
returns the response, or an awaitable for the part that may finish later, or None where the protocol has no answer.
"""
