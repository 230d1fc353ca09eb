"""Convolutions, and all that is needed to make their tables of dense ones.

A convolution ties the places of two pictures: by offset d of the kernel, place p of the *coarse*
one meets place `stride p + d - before` of the *fine* one, along each axis. An ordinary convolution
leads from the fine picture to the coarse one, a transposed one back.

Each place of one picture *sees* some places of the other. Outputs see the inputs that they are
computed from; inputs see the outputs that they influence, which is what a table is about. All
coarse places see by all offsets; fine places by those that fit: they are in stride x stride groups
that see alike. So the map and its tables are the same walk in two directions: matrix products, or
dense tables, of what the places of a group see.

Pictures are `[H, W, channels]`, and flat in this order where they are values of a layer. Letters,
beside those of `units.py` and `kernels`:

    H, W  places of a picture       M, N  places of a group       R  rows: the places of a batch
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

NEVER = -1e30  # logit of an output beyond the border: it never fires, whatever is added


class Axis(NamedTuple):
    """How the two pictures lie on each other along one axis."""

    kernel: int
    stride: int
    before: int  # padding of the fine picture
    fine: int
    coarse: int


class Sight(NamedTuple):
    """What the places of one picture see of the other along one axis: by an offset (first of each
    pair), place m of a group sees place `start + step m` (start is second)."""

    groups: tuple[tuple[tuple[int, int], ...], ...]
    step: int
    places: int  # in each group
    own: int  # places that see
    other: int  # places that are seen

    @property
    def padding(self) -> tuple[int, int, int]:
        """What to add to the other picture before and after it, so that all that is seen is there
        (negative: what nobody sees); and in between."""
        starts = [start for group in self.groups for _, start in group]
        last = max(starts) + self.step * (self.places - 1)
        return -min(starts), last + 1 - self.other, 0

    def steps(self, start: int) -> slice:
        """The places that are seen from `start` on, of the padded picture."""
        first = start + self.padding[0]
        return slice(first, first + self.step * (self.places - 1) + 1, self.step)


def coarse_sight(axis: Axis) -> Sight:
    """What coarse places see."""
    kernel, stride, before, fine, coarse = axis
    offsets = tuple((offset, offset - before) for offset in range(kernel))
    return Sight((offsets,), stride, coarse, coarse, fine)


def fine_sight(axis: Axis) -> Sight:
    """What fine places see: place `stride m + r` is number m of group r."""
    kernel, stride, before, fine, coarse = axis
    groups = tuple(
        tuple(
            (offset, (r + before - offset) // stride)
            for offset in range(kernel)
            if (r + before - offset) % stride == 0
        )
        for r in range(stride)
    )
    return Sight(groups, 1, -(-fine // stride), fine, coarse)


class Outlook(NamedTuple):
    """What the places of one picture see of the other. The groups are those of both axes."""

    y: Sight
    x: Sight

    def seen(self, other: Array, fill: float = 0.0) -> list[Array]:
        """For each group, what its places see of the other picture, offsets and channels side by
        side: `[M, N, offsets x channels]`. Beyond the border they see `fill`."""
        paddings = [self.y.padding, self.x.padding, (0, 0, 0)]
        padded = jax.lax.pad(other, jnp.asarray(fill, other.dtype), paddings)
        return [
            jnp.concatenate(
                [padded[self.y.steps(top), self.x.steps(left)] for _, top in ys for _, left in xs],
                axis=-1,
            )
            for ys in self.y.groups
            for xs in self.x.groups
        ]

    def kernels(self, weight: Float[Array, "k k I O"]) -> list[Float[Array, "_ _ I O"]]:
        """For each group, the part of the kernel by which its places see."""
        offsets = lambda sight: [[d for d, _ in group] for group in sight.groups]
        rows, columns = offsets(self.y), offsets(self.x)
        pick = lambda ds: slice(ds[0], ds[-1] + 1, len(rows))  # those of a group are a stride apart
        return [weight[pick(ys), pick(xs)] for ys in rows for xs in columns]

    def parts(self, own: Num[Array, "H W C"]) -> Num[Array, "groups M N C"]:
        """The places that see, by groups; beyond the border, as on it."""
        (rows, columns), (y, x) = (len(self.y.groups), len(self.x.groups)), self
        missing = (rows * y.places - y.own, columns * x.places - x.own)
        whole = jnp.pad(own, [*((0, each) for each in missing), (0, 0)], mode="edge")
        cut = whole.reshape(y.places, rows, x.places, columns, -1).transpose(1, 3, 0, 2, 4)
        return cut.reshape(rows * columns, y.places, x.places, -1)

    def whole(self, parts: Num[Array, "groups M N C"]) -> Num[Array, "H W C"]:
        """The picture of these parts."""
        (rows, columns), (y, x) = (len(self.y.groups), len(self.x.groups)), self
        cut = parts.reshape(rows, columns, y.places, x.places, -1).transpose(2, 0, 3, 1, 4)
        return cut.reshape(rows * y.places, columns * x.places, -1)[: y.own, : x.own]


class Convolution(eqx.Module):
    """A map of pictures, local and alike everywhere: `logits=` of a layer. Values stay flat, as
    those of any layer, in the order `[H, W, channels]`: see `image` and `shape`.

    It is computed as matrix products of windows: inside a compiled loop, XLA's own convolutions
    are several times slower on a CPU. Where Bernoulli units with this map have one parent, HNCA's
    tables are fast: their work grows like that of the map, edge by edge.

    >>> map = hnca.Convolution(1, 4, 3, stride=2, padding="same", image=(8, 8), key=key)
    >>> hnca.Bernoulli(64, 64, logits=map).shape
    (4, 4, 4)
    """

    weight: Float[Array, "kernel kernel channels_in channels_out"]
    bias: Float[Array, " channels_out"]
    axes: tuple[Axis, Axis] = eqx.field(static=True)
    transposed: bool = eqx.field(static=True)

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int | str = 0,
        transposed: bool = False,
        image: tuple[int, int],
        key: PRNGKeyArray,
    ):
        """`image` is height and width of the inputs. With `padding` so many zeros are put around
        them, or with "same" as many as give ceil(H / stride) outputs along each axis. If
        `transposed`, the map is that of the gradient of such a convolution: `padding` cuts the
        border of the outputs, and "same" gives H x stride of them."""
        check_sizes(channels_in, channels_out, kernel, stride, padding, image)
        limit = math.sqrt(6 / (kernel**2 * (channels_in + channels_out)))  # Glorot, uniform
        shape = (kernel, kernel, channels_in, channels_out)
        self.weight = jax.random.uniform(key, shape, minval=-limit, maxval=limit)
        self.bias = jnp.zeros(channels_out)
        along = transposed_axis if transposed else ordinary_axis
        height, width = (along(size, kernel, stride, padding) for size in image)
        self.axes, self.transposed = (height, width), transposed

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of the inputs."""
        y, x = ((a.coarse if self.transposed else a.fine) for a in self.axes)
        return y, x, self.weight.shape[2]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the outputs."""
        y, x = ((a.fine if self.transposed else a.coarse) for a in self.axes)
        return y, x, self.weight.shape[3]

    @property
    def inputs(self) -> int:
        return math.prod(self.image)

    @property
    def outputs(self) -> int:
        return math.prod(self.shape)

    def _outlook(self, of_fine: bool) -> Outlook:
        return Outlook(*map(fine_sight if of_fine else coarse_sight, self.axes))

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        outlook, channels = self._outlook(of_fine=self.transposed), self.shape[2]
        kernels = (kernel.reshape(-1, channels) for kernel in outlook.kernels(self.weight))
        seen = outlook.seen(x.reshape(self.image))
        products = [inputs @ kernel for inputs, kernel in zip(seen, kernels, strict=True)]
        return (outlook.whole(jnp.stack(products)) + self.bias[None, None]).ravel()

    def tables(
        self,
        dense: Callable[..., list[Num[Array, "*V R C"]]],
        logits: Float[Array, "B outputs"],
        fired: Float[Array, "B outputs"],
        units: Num[Array, "B U"],
    ) -> list[Num[Array, "*V B U"]]:
        """Tables of Bernoulli outputs for the units of the inputs, some to a place. `dense` makes
        them for a dense layer, from `logits` and `fired` [R, O], `weight` [O, I] and `units`
        [R, C]. Its rows are places, its outputs what an input place sees. These are independent
        of one another, so their changes add up: nothing is approximated."""
        outlook, (*places, inputs) = self._outlook(of_fine=not self.transposed), self.image
        picture = lambda array: array.reshape(self.shape)
        seen = jax.vmap(lambda array: outlook.seen(picture(array), NEVER))(logits)
        did = jax.vmap(lambda array: outlook.seen(picture(array)))(fired)
        parts = jax.vmap(outlook.parts, out_axes=1)(units.reshape(len(units), *places, -1))
        rows = lambda array: array.reshape(-1, array.shape[-1])
        found = [
            dense(rows(seen), rows(did), kernel.swapaxes(2, 3).reshape(-1, inputs), rows(part))
            for seen, did, kernel, part in zip(
                seen, did, outlook.kernels(self.weight), parts, strict=True
            )
        ]

        def whole(*changes: Num[Array, "*V R C"]) -> Num[Array, "*V B U"]:
            split = jnp.stack([each.reshape(-1, *parts.shape[1:]) for each in changes], axis=2)
            pictures = jax.vmap(jax.vmap(outlook.whole))(split)  # [V, B, groups, ...] there
            return pictures.reshape(*changes[0].shape[:-2], *units.shape)

        return [whole(*changes) for changes in zip(*found, strict=True)]


def ordinary_axis(size: int, kernel: int, stride: int, padding: int | str) -> Axis:
    """From the fine picture of this size to a coarse one."""
    if padding == "same":
        coarse = -(-size // stride)
        before = max(stride * (coarse - 1) + kernel - size, 0) // 2
        return Axis(kernel, stride, before, size, coarse)
    coarse = (size + 2 * int(padding) - kernel) // stride + 1
    if coarse < 1:
        raise ValueError(f"Convolution: a kernel of {kernel} does not fit into {size}: pad more")
    return Axis(kernel, stride, int(padding), size, coarse)


def transposed_axis(size: int, kernel: int, stride: int, padding: int | str) -> Axis:
    """From the coarse picture of this size to a fine one."""
    if padding == "same":
        return Axis(kernel, stride, (kernel - stride) // 2, size * stride, size)
    fine = stride * (size - 1) + kernel - 2 * int(padding)
    if fine < 1:
        raise ValueError(f"Convolution: with padding={padding} nothing is left of {size}: pad less")
    return Axis(kernel, stride, int(padding), fine, size)


def check_sizes(
    channels_in: int,
    channels_out: int,
    kernel: int,
    stride: int,
    padding: int | str,
    image: tuple[int, int],
) -> None:
    """Refuses what is no convolution."""
    if min(channels_in, channels_out, kernel, stride, *image) < 1:
        given = f"channels {channels_in} to {channels_out}, kernel={kernel}, stride={stride}"
        raise ValueError(f"Convolution: sizes do not make sense: {given}, image={image}")
    if stride > kernel:
        skipped = f"a stride of {stride} skips inputs of a kernel of {kernel}"
        raise ValueError(f"Convolution: {skipped}: the kernel must be as large as the stride")
    if padding != "same" and not (isinstance(padding, int) and padding >= 0):
        raise ValueError(f"Convolution: padding is a number from 0 on or 'same', not {padding!r}")
