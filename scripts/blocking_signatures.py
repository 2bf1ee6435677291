"""Writes the signatures of the blocking clients, from the source of the asynchronous ones: `make reference`.

Methods are forwarded when the program runs (`blocking/client.py`); this stub is how type checkers and editors see them.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

from kavka.client import Admin, Consumer, Producer, blocking

STUB = Path(__file__).resolve().parents[1] / "src/kavka/client/blocking/signatures.pyi"
PAIRS = ((Admin, blocking.Admin), (Consumer, blocking.Consumer), (Producer, blocking.Producer))
HEAD = '"""Forwarded methods of the blocking clients. Written by `make reference` from the asynchronous ones."""\n'


def stub() -> str:
    """Return the text of the stub, formatted."""
    imports: dict[str, None] = {}
    classes = []
    for asynchronous, blocked in PAIRS:
        tree, common = (
            ast.parse(inspect.getsource(sys.modules[one]))
            for one in (asynchronous.__module__, "kavka.client.client")
        )
        methods = [
            *_methods(_class(tree, asynchronous.__name__), blocked),
            *_methods(_class(common, "Client"), blocked),
        ]
        body = "\n".join(ast.unparse(method) for method in methods)
        used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
        imports.update(dict.fromkeys((*_imports(tree, used), *_imports(common, used))))
        classes.append(
            f'class {asynchronous.__name__}Methods:\n    """See `kavka.client.{asynchronous.__name__}`."""\n\n'
            + "\n".join("    " + line if line else "" for line in body.splitlines())
        )
    text = "\n".join([HEAD, *imports, "", *classes]) + "\n"
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _class(tree: ast.Module, name: str) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _methods(source: ast.ClassDef, blocked: type) -> Iterator[ast.FunctionDef]:
    for node in source.body:
        member = blocked.__dict__.get(getattr(node, "name", ""))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_forwarded(
            member, blocked
        ):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            yield ast.FunctionDef(
                name=node.name,
                args=node.args,
                body=[ast.Expr(ast.Constant(summary))],
                decorator_list=[
                    one
                    for one in node.decorator_list
                    if isinstance(one, ast.Name) and one.id == "property"
                ],
                returns=_awaited(node.returns),
                lineno=0,
            )


def _awaited(returns: ast.expr | None) -> ast.expr | None:
    """Return what a method gives that returns a coroutine without being `async def`."""
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "Coroutine":
        assert isinstance(returns.slice, ast.Tuple)
        return returns.slice.elts[-1]
    return returns


def _is_forwarded(member: object, blocked: type) -> bool:
    function = member.fget if isinstance(member, property) else member
    return isinstance(function, FunctionType) and function.__module__ != blocked.__module__


def _imports(tree: ast.Module, used: set[str]) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                if (alias.asname or alias.name) in used:
                    yield f"from {node.module} import {ast.unparse(alias)}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name) in used:
                    yield f"import {ast.unparse(alias)}"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
