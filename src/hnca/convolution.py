"""Convolutions, and all that is needed to make their tables of dense ones.

A convolution ties the places of two pictures: by offset d of the kernel, place p of the *coarse*
one meets place `stride p + d - before` of the *fine* one, along each axis. An ordinary convolution
leads from the fine picture to the coarse one, a transposed one back.

The *window* of a coarse place is all that it meets, side by side. With the windows of the fine
picture, a convolution is a dense layer that is the same at every coarse place: an ordinary one maps
windows to places, a transposed one places to windows, which are then added up where they overlap.
Its tables are those of that dense layer. So it is always the fine picture that is enlarged, which
usually has fewer channels.

Pictures are `[H, W, channels]`, and flat in this order where they are values of a layer. Letters,
beside those of `units.py` and `kernels`:

    H, W  places of a picture       M, N  of the coarse one       R  rows: the places of a batch
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from .kernels.settled import settled

NEVER = -1e30  # logit of an output beyond the border: it never fires, whatever is added


class Axis(NamedTuple):
    """How the two pictures lie on each other along one axis."""

    kernel: int
    stride: int
    before: int  # padding of the fine picture
    fine: int
    coarse: int

    @property
    def strides(self) -> int:
        """How many strides long a window is, the last one perhaps in part."""
        return -(-self.kernel // self.stride)

    @property
    def padding(self) -> tuple[int, int, int]:
        """What to add to the fine picture before and after it, so that all that is met is there,
        in whole strides (negative: what nobody meets); and in between."""
        whole = self.stride * (self.coarse - 1 + self.strides)
        return self.before, whole - self.before - self.fine, 0


def flat(pictures: Float[Array, "..."], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """The same numbers in another shape, settled in both: what made the pictures walks through
    them place by place, and what follows through long rows."""
    return settled(settled(pictures).reshape(shape))


def windows(
    axes: tuple[Axis, Axis], fine: Num[Array, "H W C"], fill: float = 0.0
) -> Num[Array, "M N window"]:
    """The windows of all coarse places, `[kernel, kernel, C]` each. Beyond the border they have
    `fill`."""
    y, x = axes
    paddings = [y.padding, x.padding, (0, 0, 0)]
    padded = jax.lax.pad(fine, jnp.asarray(fill, fine.dtype), paddings)
    # The places within a stride stay side by side, so that few and long pieces are copied.
    cut = padded.reshape(-1, y.stride, padded.shape[1] // x.stride, x.stride * fine.shape[2])
    width = x.kernel * fine.shape[2]
    return jnp.concatenate(
        [
            cut[down : down + y.coarse, row, right : right + x.coarse][..., : width - start]
            for down, row in (divmod(offset, y.stride) for offset in range(y.kernel))
            for right, start in enumerate(range(0, width, cut.shape[3]))
        ],
        axis=-1,
    )


def overlaid(axes: tuple[Axis, Axis], parts: Float[Array, "M N window"]) -> Float[Array, "H W C"]:
    """The fine picture that has at each place the sum of all that windows have there: the
    transpose of `windows`."""
    y, x = axes
    channels = parts.shape[2] // (y.kernel * x.kernel)
    fine = jax.ShapeDtypeStruct((y.fine, x.fine, channels), parts.dtype)
    (picture,) = jax.linear_transpose(lambda fine: windows(axes, fine), fine)(parts)
    return picture


class Convolution(eqx.Module):
    """A map of pictures, local and alike everywhere: `logits=` of a layer. Values stay flat, as
    those of any layer, in the order `[H, W, channels]`: see `image` and `shape`.

    It is one matrix product for all windows: inside a compiled loop on a CPU, the gradients of
    XLA's own convolutions are tens of times slower. Where Bernoulli units with this map have one
    parent, HNCA's tables are fast: their work grows like that of the map, edge by edge.

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

    def _matrix(self) -> Float[Array, "outputs inputs"]:
        """Of the dense layer at each coarse place: from its window, or to it if transposed."""
        if self.transposed:
            return self.weight.transpose(0, 1, 3, 2).reshape(-1, self.weight.shape[2])
        return self.weight.reshape(-1, self.weight.shape[3]).T

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return self.of_batch(x[None])[0]

    def of_batch(self, x: Float[Array, "B inputs"]) -> Float[Array, "B outputs"]:
        """The same for many at once: one matrix product whose rows are the coarse places of all.
        By `vmap` it would be one of arrays with more axes, which its gradient copies about."""
        pictures, places = x.reshape(-1, *self.image), [axis.coarse for axis in self.axes]
        rows = lambda array: array.reshape(len(x) * math.prod(places), array.shape[-1])
        # The matrix is settled with the window's axis last: that makes the gradient's product one
        # in which the narrow factor is transposed, not the wide one, which takes thrice as long.
        if self.transposed:
            parts = rows(pictures) @ settled(self._matrix().T)
            by_place = parts.reshape(len(x), *places, parts.shape[1])
            outputs = jax.vmap(lambda parts: overlaid(self.axes, parts))(by_place)
        else:
            seen = jax.vmap(lambda fine: windows(self.axes, fine))(pictures)
            outputs = rows(seen) @ settled(self._matrix()).T
        by_channel = outputs.reshape(len(x), *self.shape) + self.bias[None, None, None]
        return flat(by_channel, (len(x), self.outputs))

    def tables(
        self,
        dense: Callable[..., list[Num[Array, "*V R C"]]],
        logits: Float[Array, "B outputs"],
        fired: Float[Array, "B outputs"],
        units: Num[Array, "B U"],
    ) -> list[Num[Array, "*V B U"]]:
        """Tables of Bernoulli outputs for the units of the inputs, some to a place. `dense` makes
        them for a dense layer, from `logits` and `fired` [R, O], `weight` [O, I] and `units`
        [R, C]. Its rows are coarse places. Outputs are independent of one another, so the changes
        that a unit makes to those of several windows add up: nothing is approximated."""
        places, height, width = (len(units), *(axis.coarse for axis in self.axes))
        rows = lambda array: array.reshape(places * height * width, -1)

        def enlarged(array: Num[Array, "B _"], fill: float) -> Num[Array, "R window"]:
            pictures = array.reshape(len(array), *(axis.fine for axis in self.axes), -1)
            return rows(jax.vmap(lambda fine: windows(self.axes, fine, fill))(pictures))

        def overlaid_units(change: Num[Array, "*V R C"]) -> Num[Array, "*V B U"]:
            parts = change.reshape(-1, height, width, change.shape[-1])
            pictures = jax.vmap(lambda parts: overlaid(self.axes, parts))(parts)
            return flat(pictures, (*change.shape[:-2], *units.shape))

        weight = self._matrix()
        if self.transposed:
            found = dense(enlarged(logits, NEVER), enlarged(fired, 0.0), weight, rows(units))
            return [change.reshape(*change.shape[:-2], *units.shape) for change in found]
        # Beyond the border is a unit like any other, a sign of 1 or a category, and then cut off.
        found = dense(rows(logits), rows(fired), weight, enlarged(units, 1.0))
        return [overlaid_units(change) for change in found]


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
