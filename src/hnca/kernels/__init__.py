"""Counterfactual tables of linear layers at about the price of their matrix product.

Each kernel returns the *change* of a sum over a child's outputs when one unit of its parent moves
and all others stay, for every unit at once. Textbook code takes a transcendental function of every
example, output and input: B x O x I of them. But exp(l + w) = exp(l) exp(w), so one per logit and
one per weight will do, and the logarithm of a product stands for a sum of logarithms: what remains
for each edge is a few multiplications.

Letters of the shapes, beside those of `units.py`:

    O  outputs of the child       C, L  categorical units of a child, and their categories

Nothing here grows like B x O x I: the outputs are scanned in blocks. Each kernel chooses its form
by itself: by the platform, and by the size of the weights.
"""

from .bernoulli import bernoulli_flip as bernoulli_flip
from .softmax import softmax_flip as softmax_flip
from .switch import bernoulli_switch as bernoulli_switch
