"""A role for links to the lines that implement something: {lines}`hnca.HNCA`."""

from pkgutil import resolve_name

from docutils import nodes


def link(name: str) -> tuple[str, str]:
    """Of a public name, its last part and where the site shows its source. Pages that use this are
    at the top of the site."""
    found = resolve_name(name)
    place = found.__module__.replace(".", "/")
    return name.rpartition(".")[2], f"_modules/{place}.html#{found.__qualname__}"


def lines(role, rawtext, text, lineno, inliner, options=None, content=()):
    """The role, as docutils calls it."""
    words, address = link(text)
    return [nodes.reference(rawtext, "", nodes.literal(words, words), refuri=address)], []


def setup(app) -> None:
    """Tells Sphinx of it."""
    app.add_role("lines", lines)
