"""Gradients here point uphill; optax walks downhill."""

import equinox as eqx
import jax
import optax


def maximize(optimizer: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """The optimizer, turned uphill. `init` and `update` take the whole model: what is no
    parameter in it is passed over.

    >>> optimizer = hnca.maximize(optax.sgd(0.1))
    >>> updates, _ = optimizer.update({"w": jnp.ones(1)}, optimizer.init({"w": jnp.ones(1)}))
    >>> round(float(updates["w"][0]), 3)  # with the gradient, not against it
    0.1
    """
    inner = optax.with_extra_args_support(optimizer)

    def init(params):
        return inner.init(eqx.filter(params, eqx.is_inexact_array))

    def update(updates, state, params=None, **extra):
        downhill = jax.tree.map(lambda gradient: -gradient, updates)
        params = eqx.filter(params, eqx.is_inexact_array)
        return inner.update(downhill, state, params, **extra)

    return optax.GradientTransformationExtraArgs(init, update)
