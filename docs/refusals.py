"""Every refusal and warning in the source, as a template of its message."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RAISED = {"ValueError", "TypeError", "KeyError", "UserError", "UsageError", "ImportError"}
RAISED |= {"Busy", "Misplaced", "SourceError"}  # those of the lab
GAP = "…"  # stands for what is known only when it happens


class Refusal(NamedTuple):
    """A message, and the file that it comes from."""

    message: str
    file: str


def refusals(source: Path) -> list[Refusal]:
    """All of them, in the order of the files."""
    found = []
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for function in _functions(tree):
            texts = _texts(function)
            for call in _calls(function):
                message = _template(call.args[0], texts).strip()
                if len(message.replace(GAP, "").split()) > 1:
                    found.append(Refusal(message, path.relative_to(source).as_posix()))
    return list(dict.fromkeys(found))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions and methods; what is inside of one belongs to it."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.ClassDef():
                yield from _functions(node)
            case ast.FunctionDef():
                yield node


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    """What is raised, and what is warned of."""
    for node in ast.walk(function):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name), args=[_, *_]) as call):
                if name in RAISED:
                    yield call
            case ast.Return(value=ast.Call(func=ast.Name(id=name), args=[_, *_]) as call):
                if name in RAISED:  # by a function that makes the error for others to raise
                    yield call
            case ast.Call(func=ast.Attribute(attr="warn"), args=[_, *_]):
                yield node


def _texts(function: ast.AST) -> dict[str, ast.expr]:
    """The names that stand for one text in the function."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
    return {
        name: values[0]
        for name, values in found.items()
        if len(values) == 1 and isinstance(values[0], ast.JoinedStr | ast.Constant)
    }


def _template(node: ast.expr, texts: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text.replace("\n", " ")
        case ast.JoinedStr(values=parts):
            return "".join(_template(part, texts) for part in parts)
        case ast.FormattedValue(value=value):
            return _template(value, texts)
        case ast.BinOp(left=left, right=right):
            return _template(left, texts) + _template(right, texts)
        case ast.Name(id=name) if name in texts:
            return _template(texts[name], texts)
    return GAP
