"""Generalised EM by importance weights (Tang and Salakhutdinov 2013).

Derivation. With h from the posterior, d log p(x) = E[d log p(x, h)]. The posterior is out of reach;
the network's own samples, with weights w~_k that add up to 1, stand for it (multi_sample.py):

    d log p(x)  ~  sum_k w~_k d log p(x, h_k)

That is the M-step's gradient where the E-step is K weighted samples. Nodes that belong to the model
are part of log p(x, h), and a node's credit in sample k is w~_k score_k, as the paper has it. For a
proposal, which it does not have (there h comes from the model's own prior), the same credit brings
q closer to the posterior: the wake phase of reweighted wake-sleep (Bornschein and Bengio 2015).

Biased: a ratio of two means is not the mean of the ratio. The bias goes like 1/K. For the layers of
the objective it is the gradient of the K-sample bound, without bias; for the nodes it is not.
"""

from typing import ClassVar

import equinox as eqx
import jax

from .multi_sample import AbstractMultiSample, Logs


class ImportanceEM(AbstractMultiSample):
    """What the network did, weighed by how well it explains the data.

    >>> estimator = hnca.ImportanceEM()
    >>> estimate, _ = estimator(graph, sample, estimator.init(graph, key=key), key=key)
    >>> estimate.credit["h1"].shape
    (5, 3)
    """

    samples: int = eqx.field(default=5, static=True)
    unbiased: ClassVar[bool] = False
    needs_objective: ClassVar[bool] = True

    def gains(self, log_weights: Logs, proposal: bool) -> Logs:
        return jax.nn.softmax(log_weights, axis=1)
