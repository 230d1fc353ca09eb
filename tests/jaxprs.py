"""What a traced function consists of."""

from collections.abc import Iterator

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn


def equations(function, *arguments) -> Iterator[JaxprEqn]:
    """Every equation of the traced function, those inside of others too."""
    return _equations(jax.make_jaxpr(function)(*arguments).jaxpr)


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    is_jaxpr = lambda leaf: isinstance(leaf, Jaxpr | ClosedJaxpr)
    for equation in jaxpr.eqns:
        yield equation
        for leaf in jax.tree.leaves(equation.params, is_leaf=is_jaxpr):
            if is_jaxpr(leaf):
                yield from _equations(getattr(leaf, "jaxpr", leaf))
