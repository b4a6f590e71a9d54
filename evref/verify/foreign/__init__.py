"""Layers of other people, run on NumPy arrays: what they give, and what keeps them from being compared.

    find.py         which framework a layer belongs to, how it is called
    parameters.py   our parameters under their names
    layouts.py      batch, features, nodes in their order
    torch_layer.py, torch_module.py, jax_layer.py, numpy_layer.py
    global_state.py what a layer may change outside of itself
    subject.py      all of it together: output and gradients, in our names and our order

Nothing here imports torch or JAX before a layer that belongs to them is there.
"""

from .problem import LayerProblem
from .subject import NotRepeatable, Observed, Subject, make_subject

__all__ = ["LayerProblem", "NotRepeatable", "Observed", "Subject", "make_subject"]
