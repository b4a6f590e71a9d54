"""Known mistakes in graph layers, as data: what each is, where it was seen, and what it computes.

Every entry predicts numbers: for a filter of the catalogue, or a network, it yields wrong models whose output and
gradients are computed exactly (:mod:`~evref.verify.mistakes.models`). :func:`evref.compare` names a mistake only if one
of its models gives every number that the layer in question gives.

`KNOWN_MISTAKES` is the catalogue. ``docs/check_my_layer.md`` has a paragraph on each.

Examples
--------
>>> import evref as ev
>>> from evref.verify.mistakes import KNOWN_MISTAKES, variants_of
>>> filt = ev.GCN(ev.Graph([[1.0, 2.0], [0.0, 1.0]]))
>>> [says for name, says, _ in variants_of(filt) if name == "shift-transposed"]
['S is transposed']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ...contract import Module, NotRepresentable
from ...filters.base import Filter
from ...graph import NotDiagonalizable
from . import (
    activations,
    attention,
    batches,
    features,
    generated,
    gradients,
    polynomials,
    rational,
    recursions,
    shifts,
    spectral,
)
from .models import Chain, Model
from .terms import put_together, terms_of, with_bias_of
from .variants import Variant

__all__ = ["KNOWN_MISTAKES", "Mistake", "variants_of"]

Finder = Callable[[Any], Iterator[Variant]]


@dataclass(frozen=True)
class Mistake:
    """One entry of the catalogue.

    Attributes
    ----------
    name : str
    says : str
        What is wrong, in a sentence.
    seen : str
        Where it was seen: threads of public repositories, or a reading of the paper.
    of_term : tuple of functions
        From a polynomial, a recursion, an attention filter, ... to its variants. They are asked of every summand that a
        filter has (:mod:`~evref.verify.mistakes.terms`).
    of_module : tuple of functions
        From a whole filter, bias included, or a network, to its variants.
    """

    name: str
    says: str
    seen: str
    of_term: tuple[Finder, ...] = ()
    of_module: tuple[Finder, ...] = ()


KNOWN_MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "shift-transposed",
        "S is transposed: edges run the other way",
        "PyG 126, 1040, 3302, 3351, 7960; the authors' scripts (R12)",
        (shifts.transposed, recursions.transposed, generated.transposed, attention.transposed),
    ),
    Mistake(
        "taps",
        "the order or the taps are off by one",
        "tkipf/gcn 25; K of PyG's ChebConv",
        (polynomials.taps, rational.iterations, rational.inputs, recursions.terms),
    ),
    Mistake(
        "zeroth-term",
        "the term k = 0 is missing, counts twice or is one too many",
        "readings R1 and R11 of the paper",
        (polynomials.zeroth, rational.zeroth, recursions.zeroth, generated.missing_root),
        (recursions.readings,),
    ),
    Mistake(
        "product-order",
        "a product is taken in the wrong order, or not at all",
        "reading R3 of the paper",
        (recursions.product_order, polynomials.product_order),
    ),
    Mistake(
        "self-loops",
        "self-loops are missing, count twice, or are in a normalisation that excludes them",
        "PyG 1104",
        (shifts.others("self-loops"), recursions.self_entries, generated.self_entries, attention.self_entries),
    ),
    Mistake(
        "degree",
        "another degree: rows for columns, no inverse, no square root, an inverted degree",
        "GraphNeuralNetworks.jl PR 693",
        (shifts.others("degree"),),
    ),
    Mistake(
        "spectrum-scale",
        "the spectrum is scaled by another number, or not at all",
        "PyG 530, 901",
        (shifts.others("spectrum-scale"),),
    ),
    Mistake(
        "chebyshev-recurrence",
        "the Chebyshev recurrence lacks something, or stands where there is none",
        "PyTorch Geometric Temporal's DCRNN; GraphNeuralNetworks.jl PR 693",
        (polynomials.recurrence,),
    ),
    Mistake(
        "softmax-direction",
        "the softmax runs over other edges than the incoming ones",
        "public copies of graph attention code",
        (attention.direction,),
    ),
    Mistake(
        "mean-for-sum",
        "a mean in the place of a sum, or the other way round",
        "PyG 248, DGL 4885",
        (
            shifts.others("mean-for-sum"),
            recursions.mean_over_neighbours,
            polynomials.mean_over_taps,
            generated.aggregation,
            attention.means,
        ),
        (features.mean_over_features,),
    ),
    Mistake(
        "exponent",
        "a sign, a square or a factor in an exponent",
        "GraphNeuralNetworks.jl 644",
        (generated.exponents, attention.exponents),
    ),
    Mistake(
        "weights-transposed",
        "a weight matrix is transposed",
        "GraphNeuralNetworks.jl PR 693",
        (generated.weights_transposed,),
        (features.weights_transposed,),
    ),
    Mistake(
        "shared-weights",
        "one slice of the weights is used twice, or one filter for all features",
        "GraphNeuralNetworks.jl PR 693",
        (attention.one_vector, generated.shared_kernels),
        (features.shared_slices, features.shared_filters),
    ),
    Mistake(
        "first-sample",
        "only the first sample of a batch is convolved",
        "PyTorch Geometric Temporal 298",
        (),
        (batches.first_sample,),
    ),
    Mistake(
        "bias",
        "the bias is missing, counts more than once, or is per node instead of per feature",
        "the authors' hybrid script (R11)",
        (),
        (features.bias, features.bias_inside),
    ),
    Mistake(
        "outside-support",
        "the mask of a dense Phi is in the wrong place",
        "dense forms of edge-variant filters",
        (recursions.outside_support,),
    ),
    Mistake(
        "activation",
        "an activation too many, too few, twice, or before the bias",
        "no thread: what a comparison of whole layers shows",
        (),
        (activations.activations, activations.within_iterations),
    ),
    Mistake(
        "train-mode",
        "a module is compared, or used, in train mode: dropout and batch normalisation are at work",
        "no thread: model.eval() is forgotten",
    ),  # no model: evref.compare runs the module in eval mode and looks whether it is right there
    Mistake(
        "shift-weights",
        "the weights of S multiply parameters that stand alone",
        "the authors' attention script (R12)",
        (recursions.weights_of_S, attention.weights_of_S),
    ),
    Mistake(
        "fourier-inverse",
        "another matrix stands for the inverse Fourier transform U^-1",
        "reading R6 of the paper",
        (spectral.fourier_inverse,),
    ),
    Mistake(
        "spline-end",
        "the kernel of a spectral filter has wrong rows",
        "the authors' spectral script",
        (spectral.spline_end,),
    ),
    Mistake(
        "sign",
        "a sign, or a factor 2, in a complex or Laplacian filter",
        "no thread: two conventions are in use",
        (rational.signs, shifts.others("sign")),
    ),
    Mistake(
        "attention-slope",
        "another slope of the leaky ReLU",
        "torch's default is 0.01, the publication's 0.2",
        (attention.slopes,),
    ),
    Mistake(
        "copied-nodes",
        "nodes or heads copy the wrong one",
        "the authors' scripts (R12)",
        (polynomials.copies, attention.heads),
        (features.flattened_by_nodes,),
    ),
    Mistake(
        "detached",
        "the output is right, but a gradient is cut",
        "PyG 7401, 7428; scikit-network",
        (
            attention.detached,
            recursions.detached_steps,
            polynomials.detached_states,
            rational.detached_iterations,
            generated.detached,
        ),
        (gradients.detached,),
    ),
    Mistake(
        "gradient-scaled",
        "the output is right, but a gradient is off by a constant factor",
        "PyG 7401, 7428; scikit-network",
        (),
        (gradients.gradient_scaled,),
    ),
)


def variants_of(module: Module) -> Iterator[tuple[str, str, Model]]:
    """Name of the mistake, sentence and model of every wrong version of `module` that is known."""
    for mistake in KNOWN_MISTAKES:
        for variant in _of(mistake, module):
            yield mistake.name, variant.says, variant.model


def _of(mistake: Mistake, module: Module) -> Iterator[Variant]:
    yield from chain.from_iterable(_tried(find, module) for find in mistake.of_module)
    layers = getattr(module, "layers", None)
    if layers is not None:
        for i, layer in enumerate(layers):
            if isinstance(layer, Filter):
                for variant in _of(mistake, layer):
                    replaced = [*layers[:i], variant.model, *layers[i + 1 :]]
                    yield Variant(f"layer {i}: {variant.says}", Chain(replaced))
    elif isinstance(module, Filter):
        for variant in _of_terms(mistake, module):
            yield Variant(variant.says, with_bias_of(module, variant.model))


def _of_terms(mistake: Mistake, filt: Filter) -> Iterator[Variant]:
    """In every summand of the filter at once, where it has the same words for several; then in one alone."""
    terms = terms_of(filt)
    found = [[variant for find in mistake.of_term for variant in _tried(find, term.core)] for term in terms]
    cores: list[Model] = [term.core for term in terms]
    if len(terms) > 1:
        alike = [{variant.alike or variant.says: variant.model for variant in variants} for variants in found]
        for says in dict.fromkeys(chain.from_iterable(alike)):
            if sum(says in models for models in alike) > 1:
                everywhere = [models.get(says, core) for models, core in zip(alike, cores, strict=True)]
                yield Variant(says, put_together(terms, everywhere))
    for i, variants in enumerate(found):
        where = f"in {terms[i].label}: " if len(terms) > 1 else ""
        for variant in variants:
            model = put_together(terms, [*cores[:i], variant.model, *cores[i + 1 :]])
            yield Variant(where + variant.says, model)


def _tried(find: Finder, subject: Any) -> Iterator[Variant]:
    """What `find` yields; a variant that cannot be built on this graph is left out."""
    variants = find(subject)
    while True:
        try:
            with np.errstate(all="ignore"):
                variant = next(variants)
        except StopIteration:
            return
        except (ValueError, NotRepresentable, NotDiagonalizable, MemoryError):  # no such filter on this graph
            return
        yield variant
