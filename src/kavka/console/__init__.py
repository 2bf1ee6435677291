"""The console: pages and a JSON API that show a cluster and act on it, through the clients of this project.

`application` composes it, `server` runs it. A subject has a module in `pages`, which asks the cluster, and one in
`views`, which makes plain values of the answers; templates show those values, and the API returns them as JSON. The
extra `console` has what it needs: Starlette, uvicorn and Jinja2.
"""
