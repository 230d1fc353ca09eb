"""The fast kernels against the textbook, in long double, with one array [B, O, I]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hnca.kernels import bernoulli_flip, bernoulli_switch, softmax_flip
from jaxprs import equations

# Few shapes, as each is compiled: one of everything, no multiple of a block, several blocks.
SHAPES = st.sampled_from([(1, 1, 1), (3, 7, 4), (2, 103, 9)])
HEADS = st.sampled_from([(1, 1, 2, 1), (3, 1, 10, 5), (2, 4, 3, 6)])
# Both sides of every border between forms: 4, about 20.2 and about 30.7 in float32; far beyond.
SCALES = st.sampled_from([0.0, 1e-3, 0.3, 3.99, 4.01, 20.1, 20.3, 30.6, 30.8, 100.0, 1e3])
LOGITS = st.sampled_from([0.1, 3.0, 30.0, 1e4])
SEEDS = st.integers(0, 2**31)
DTYPES = st.sampled_from([np.float32, np.float64])
THOROUGH = settings(
    max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate], database=None
)


def compiled(kernel, with_entropy):
    """The kernel from numpy to numpy."""
    run = jax.jit(lambda *arrays: kernel(*arrays, *with_entropy))
    return lambda *arrays: jax.tree.map(np.asarray, run(*map(jnp.asarray, arrays)))


flip_alone = compiled(bernoulli_flip, [False])
flip = compiled(bernoulli_flip, [True])
switch_alone = compiled(bernoulli_switch, [False])
switch = compiled(bernoulli_switch, [True])
softmax = compiled(softmax_flip, [])


def softplus(z):
    return np.logaddexp(0, z)


def entropy(z):
    small = np.exp(-abs(z))
    return np.log1p(small) + abs(z) * small / (1 + small)


def log_softmax(z, axis):
    top = z.max(axis, keepdims=True)
    return z - top - np.log(np.exp(z - top).sum(axis, keepdims=True))


def weights(random, shape, scale, dtype):
    """Uniform in [-scale, scale], and both ends are met."""
    w = random.uniform(-scale, scale, shape)
    w[random.uniform(size=shape) < 0.2] = -scale
    w.flat[0] = scale
    return w.astype(dtype)


def signs(random, shape, dtype):
    return random.choice([-1, 1], shape).astype(dtype)


def bernoulli_layer(random, batch, outputs, dtype, scale):
    logits = (random.standard_normal((batch, outputs)) * scale).astype(dtype)
    return logits, (random.uniform(size=(batch, outputs)) < 0.5).astype(dtype)


def check(got, want, terms, dtype, roundings=4.0):
    """The error is at most a few roundings of the sizes of the terms that are summed."""
    assert got.dtype == dtype
    assert got.shape == want.shape
    assert np.isfinite(got).all()
    allowed = roundings * np.finfo(dtype).eps * (terms + abs(want))
    assert np.all(abs(got - want) <= allowed), (abs(got - want) / allowed).max()


@THOROUGH
@given(SEEDS, SHAPES, DTYPES, SCALES, LOGITS)
def test_bernoulli_flip(seed, shape, dtype, scale, logit_scale):
    batch, outputs, units = shape
    random = np.random.default_rng(seed)
    logits, fired = bernoulli_layer(random, batch, outputs, dtype, logit_scale)
    weight, sign = (
        weights(random, (outputs, units), scale, dtype),
        signs(random, (batch, units), dtype),
    )
    (alone,) = flip_alone(logits, fired, weight, sign)
    log_prob, entropies = flip(logits, fired, weight, sign)

    old = logits.astype(np.longdouble)[:, :, None]
    move = (sign[:, None, :] * weight[None]).astype(np.longdouble)
    want = (fired[:, :, None] * move - softplus(old + move) + softplus(old)).sum(1)
    terms = outputs + 2 * abs(move).sum(1)
    roundings = 14 if scale <= 4 else 4  # the tanh form has fewer digits to spare
    check(alone, want, terms, dtype, roundings)
    check(log_prob, want, terms, dtype, roundings)
    check(entropies, (entropy(old + move) - entropy(old)).sum(1), terms, dtype, roundings)


@THOROUGH
@given(SEEDS, SHAPES, st.just(3), DTYPES, SCALES, LOGITS)
def test_bernoulli_switch(seed, shape, categories, dtype, scale, logit_scale):
    batch, outputs, units = shape
    random = np.random.default_rng(seed)
    logits, fired = bernoulli_layer(random, batch, outputs, dtype, logit_scale)
    weight = weights(random, (outputs, categories, units), scale, dtype)
    category = random.integers(0, categories, (batch, units))
    (alone,) = switch_alone(logits, fired, weight, category)
    log_prob, entropies = switch(logits, fired, weight, category)

    old = logits.astype(np.longdouble)[None, :, :, None]
    new = np.moveaxis(weight.astype(np.longdouble), 1, 0)[:, None]  # [K, 1, O, U]
    index = np.broadcast_to(category[None, :, None, :], (1, batch, outputs, units))
    was = np.take_along_axis(new, index, 0)
    move = new - was
    want = (fired[None, :, :, None] * move - softplus(old + move) + softplus(old)).sum(2)
    terms = outputs + 2 * (abs(move) + abs(new) + abs(was)).sum(2)
    check(alone, want, terms, dtype)
    check(log_prob, want, terms, dtype)
    check(entropies, (entropy(old + move) - entropy(old)).sum(2), terms, dtype)
    stays = np.arange(categories)[:, None, None] == category[None]
    assert np.all(log_prob[stays] == 0)
    assert np.all(entropies[stays] == 0)


@THOROUGH
@given(SEEDS, HEADS, DTYPES, SCALES, LOGITS)
def test_softmax_flip(seed, shape, dtype, scale, logit_scale):
    batch, children, categories, units = shape
    random = np.random.default_rng(seed)
    logits = (random.standard_normal((batch, children, categories)) * logit_scale).astype(dtype)
    chosen = random.integers(0, categories, (batch, children))
    weight = weights(random, (children, categories, units), scale, dtype)
    sign = signs(random, (batch, units), dtype)
    got = softmax(logits, chosen, weight, sign)

    old = logits.astype(np.longdouble)[..., None]
    move = (sign[:, None, None, :] * weight[None]).astype(np.longdouble)
    change = log_softmax(old + move, 2) - log_softmax(old, 2)
    want = np.take_along_axis(change, chosen[:, :, None, None], 2)[:, :, 0].sum(1)
    spread = (old.max(2) - old.min(2)).sum(1)  # log-probabilities are rounded at this size
    check(got, want, children * categories + 2 * abs(move).max(2).sum(1) + 2 * spread, dtype)


def test_vmap_over_examples():
    random = np.random.default_rng(0)
    logits, fired = bernoulli_layer(random, 6, 20, np.float64, 1.0)
    weight, sign = weights(random, (20, 4), 1.0, np.float64), signs(random, (6, 4), np.float64)
    logits, fired, weight, sign = map(jnp.asarray, (logits, fired, weight, sign))
    whole = bernoulli_flip(logits, fired, weight, sign, True)

    def one(logits, fired, sign):
        changes = bernoulli_flip(logits[None], fired[None], weight, sign[None], True)
        return [change[0] for change in changes]

    for got, want in zip(jax.vmap(one)(logits, fired, sign), whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_vmap_over_weights_makes_one_choice_for_all():
    """Models side by side, one of them with weights beyond the fast forms."""
    random = np.random.default_rng(0)
    layers = [bernoulli_layer(random, 6, 20, np.float32, 1.0) for _ in range(2)]
    scales = (1.0, 30.0)
    weight = jnp.stack([weights(random, (20, 4), scale, np.float32) for scale in scales])
    logits, fired = (jnp.stack(arrays) for arrays in zip(*layers, strict=True))
    sign = jnp.stack([signs(random, (6, 4), np.float32)] * 2)
    one = lambda *arrays: bernoulli_flip(*arrays, True)
    arrays = logits, fired, weight, sign

    side_by_side = jax.vmap(one)(*arrays)
    for model in range(2):
        for got, want in zip(side_by_side, one(*(a[model] for a in arrays)), strict=True):
            np.testing.assert_allclose(got[model], want, rtol=1e-4, atol=1e-5)
    choices = lambda function, *arrays: str(jax.make_jaxpr(function)(*arrays)).count("cond[")
    assert choices(jax.vmap(one), *arrays) == choices(one, *(a[0] for a in arrays)) > 1


FORMS = pytest.mark.parametrize("scale", [0.3, 10.0, 100.0])  # of the weights: one for each form


def flip_arguments(scale) -> dict:
    """More outputs than any kernel multiplies before it takes an exponent away."""
    random = np.random.default_rng(0)
    logits, fired = bernoulli_layer(random, 2, 103, np.float32, 3.0)
    weight, sign = weights(random, (103, 9), scale, np.float32), signs(random, (2, 9), np.float32)
    return {"logits": logits, "fired": fired, "weight": weight, "sign": sign}


def switch_arguments(scale) -> dict:
    random = np.random.default_rng(0)
    logits, fired = bernoulli_layer(random, 2, 103, np.float32, 3.0)
    weight = weights(random, (103, 3, 9), scale, np.float32)
    category = random.integers(0, 3, (2, 9))
    return {"logits": logits, "fired": fired, "weight": weight, "category": category}


def softmax_arguments(scale) -> dict:
    random = np.random.default_rng(0)
    logits = random.standard_normal((2, 4, 3)).astype(np.float32)
    chosen = random.integers(0, 3, (2, 4))
    weight, sign = weights(random, (4, 3, 6), scale, np.float32), signs(random, (2, 6), np.float32)
    return {"logits": logits, "chosen": chosen, "weight": weight, "sign": sign}


KERNELS = pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (flip_alone, flip_arguments),
        (flip, flip_arguments),
        (switch_alone, switch_arguments),
        (switch, switch_arguments),
        (softmax, softmax_arguments),
    ],
    ids=["flip alone", "flip", "switch alone", "switch", "softmax"],
)


def before_and_after(kernel, arguments, name, place, value) -> list[tuple[np.ndarray, np.ndarray]]:
    """The kernel's tables `[V, B, I]` without and with another value at one place of an argument;
    zeros, where a unit stays as it is, are left out."""
    changed = arguments | {name: arguments[name].copy()}
    changed[name][place] = value
    results = zip(
        *(jax.tree.leaves(kernel(*a.values())) for a in (arguments, changed)), strict=True
    )
    shown = lambda table, old: np.where(old == 0, np.nan, table).reshape(-1, *table.shape[-2:])
    return [(shown(old, old), shown(new, old)) for old, new in results]


@KERNELS
@FORMS
def test_a_nan_logit_makes_its_example_nan(kernel, arguments, scale):
    arguments = arguments(scale)
    place = (1,) * arguments["logits"].ndim
    for old, new in before_and_after(kernel, arguments, "logits", place, np.nan):
        assert np.isnan(new[:, 1]).all()
        assert np.isfinite(old[:, 0]).any()
        np.testing.assert_array_equal(new[:, 0], old[:, 0])


@KERNELS
@FORMS
def test_a_nan_weight_makes_its_unit_nan(kernel, arguments, scale):
    arguments = arguments(scale)
    place = (1,) * arguments["weight"].ndim
    for old, new in before_and_after(kernel, arguments, "weight", place, np.nan):
        assert np.isnan(new[:, :, 1]).all()
        others = np.arange(new.shape[2]) != 1
        np.testing.assert_allclose(new[:, :, others], old[:, :, others], rtol=1e-3, atol=1e-4)


@FORMS
def test_a_nan_value_is_not_lost_either(scale):
    """Of a child's unit, or of the parent's own."""
    log_probs, _ = before_and_after(flip, flip_arguments(scale), "fired", (1, 1), np.nan)
    assert np.isnan(log_probs[1][:, 1]).all()
    assert np.isfinite(log_probs[1][:, 0]).all()
    for _, new in before_and_after(flip, flip_arguments(scale), "sign", (1, 1), np.nan):
        assert np.isnan(new[:, 1, 1]).all()
        assert np.isfinite(new).sum() == new.size - 1
    log_probs, _ = before_and_after(switch, switch_arguments(scale), "fired", (1, 1), np.nan)
    assert np.isnan(log_probs[1][:, 1]).all()


@KERNELS
@FORMS
@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_an_infinite_logit_gives_the_limit_or_nan(kernel, arguments, scale, infinite):
    arguments = arguments(scale)
    place = (1,) * arguments["logits"].ndim
    large = before_and_after(kernel, arguments, "logits", place, np.copysign(1e9, infinite))
    limit = before_and_after(kernel, arguments, "logits", place, infinite)
    for (_, near), (old, new) in zip(large, limit, strict=True):
        np.testing.assert_array_equal(new[:, 0], old[:, 0])
        known = ~np.isnan(new)
        np.testing.assert_allclose(new[known], near[known], rtol=1e-5, atol=1e-4)


@KERNELS
def test_an_infinite_weight_gives_no_finite_change(kernel, arguments):
    """What it does to a logit depends on whether that was finite; nothing here knows."""
    arguments = arguments(1.0)
    place = (1,) * arguments["weight"].ndim
    for _, new in before_and_after(kernel, arguments, "weight", place, np.inf):
        assert not np.isfinite(new[:, :, 1]).any()


@pytest.mark.parametrize(
    ("kernel", "arguments", "products"),
    [
        (lambda *arrays: bernoulli_flip(*arrays, True), flip_arguments, 1),
        (lambda *arrays: bernoulli_switch(*arrays, True), switch_arguments, 1),
        (softmax_flip, softmax_arguments, 2),
    ],
    ids=["flip", "switch", "softmax"],
)
def test_products_ask_for_the_highest_precision(kernel, arguments, products):
    """Accelerators would round the factors to 8 or 11 bits."""
    arrays = map(jnp.asarray, arguments(1.0).values())
    found = [e for e in equations(kernel, *arrays) if e.primitive.name == "dot_general"]
    assert len(found) >= products  # the same one may stand in several branches
    for product in found:
        assert product.params["precision"] == (jax.lax.Precision.HIGHEST,) * 2
