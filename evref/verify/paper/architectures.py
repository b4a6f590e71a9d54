"""What the paper says of the field as a whole: R13, and the lattice of classes that evref finds."""

from __future__ import annotations

import numpy as np

from ...contract import NotRepresentable
from ...filters import Chebyshev, Filter, Polynomial, ShiftInvariantEdgeVariant, SpectralGCNN, catalogue
from ...graph import generators
from .. import inclusions
from ..claims import Outcome, claim

ELEVEN = {
    "spectral GCNN (Bruna et al. 2013)": "spectral",
    "ChebNet (Defferrard et al. 2016)": "chebyshev",
    "GCN (Kipf & Welling 2016)": "gcn",
    "TAGCN (Du et al. 2017)": "tagcn",
    "selection GCNN (Gama et al. 2018)": "selection_gcnn",
    "ECC (Simonovsky & Komodakis 2017)": "ecc",
    "MoNet (Monti et al. 2017)": "monet",
    "DCNN (Atwood & Towsley 2016)": "dcnn",
    "CayleyNet (Levie et al. 2017)": "cayley",
    "ARMA (Bianchi et al. 2019)": "arma",
    "node-variant GNN (Gama et al. 2018)": "node_variant",
}  # the architectures that section III-B and Remark 1 cite; the paper counts them but does not list them


@claim(
    "R13",
    "section III-B, conclusion",
    "all eleven architectures are edge-variant: one recursion or a sum of them, each under its own condition",
    "holds under a condition",
)
def eleven_architectures() -> Outcome:
    graph = generators.erdos_renyi(8, 0.4, rng=1)
    worst, single, sums, global_ones, refused = 0.0, 0, 0, [], []
    for title, name in ELEVEN.items():
        small = inclusions.example(name)(graph, np.random.default_rng(2))
        try:
            large = small[0].to_edge_variant(small[1])
        except NotRepresentable as error:
            refused.append(f"{title}: {error}")
            continue
        worst = max(worst, inclusions.matrix_error(small, large))
        terms = getattr(large[0], "terms", 1)
        single, sums = single + (terms == 1), sums + (terms > 1)
        if small[0].reach is None:
            global_ones.append(name)
    return Outcome(
        passed=not refused and worst < 1e-9 and global_ones == ["spectral"],
        figure=f"{single} as one recursion, {sums} as a sum of recursions, worst error {worst:.0e}; "
        f"{', '.join(global_ones)} needs order up to N - 1: equal, but not local",
        values={"worst": worst, "single": single, "sums": sums, "refused": refused},
        counterexample="; ".join(refused),
    )


@claim(
    "R14-others",
    "sections III-B and III-C",
    "(K+1) F G parameters for a polynomial, b F G for a spectral, K F G rank for a shift-invariant filter; "
    "at most the printed F^2 with F the larger side",
)
def counts_of_the_others() -> Outcome:
    graph, K, b = generators.erdos_renyi(12, 0.4, rng=3), 3, 4
    exact, at_most, values = True, True, {}
    for F, G in [(1, 1), (5, 1), (2, 3)]:
        invariant = ShiftInvariantEdgeVariant(graph, K, G, F)
        rows: dict[str, tuple[Filter, int]] = {
            "polynomial": (Polynomial(graph, K, G, F), K + 1),
            "chebyshev": (Chebyshev(graph, K, G, F), K + 1),
            "spectral": (SpectralGCNN(graph, b, G, F), b),
            "shift_invariant": (invariant, K * invariant.basis.dimension),
        }
        for name, (filt, per_pair) in rows.items():
            exact &= filt.n_parameters == F * G * per_pair
            at_most &= filt.n_parameters <= max(F, G) ** 2 * per_pair
            values[f"{name} F={F} G={G}"] = {"parameters": filt.n_parameters, "operations": filt.n_operations()}
    # every filter states its own cost; the paper's orders are linear in M + N for all but the spectral one
    small, large = generators.cycle(50), generators.cycle(100)
    local = ("polynomial", "chebyshev", "gcn", "edge_variant", "node_variant", "hybrid_edge_variant")
    growth = {
        name: next(catalogue[name].examples(large)).n_operations()
        / next(catalogue[name].examples(small)).n_operations()
        for name in (*local, "spectral")
    }
    linear = all(abs(growth[name] - 2) < 0.1 for name in local)
    return Outcome(
        passed=exact and at_most and linear and growth["spectral"] > 3,
        figure=f"{len(values)} filters exact; twice the nodes and edges cost {growth['polynomial']:.1f} times as much "
        f"for a polynomial, {growth['edge_variant']:.1f} for EV, {growth['spectral']:.1f} for the spectral filter",
        values={"counts": values, "growth": growth},
    )


@claim(
    "inclusions", "evref.verify.inclusions", "every arrow of the lattice: same H(S), and same gradient through the map"
)
def lattice_holds() -> Outcome:
    graphs = {
        "undirected": generators.erdos_renyi(6, 0.5, rng=1),
        "directed": generators.erdos_renyi(6, 0.5, rng=3, directed=True),
    }
    worst, worst_gradient, failed, outside = 0.0, 0.0, [], 0
    for inclusion in inclusions.lattice:
        for kind, graph in graphs.items():
            small = inclusion.instance(graph, np.random.default_rng(5))
            error = inclusions.matrix_error(small, inclusion.embed(*small))
            gradient = inclusions.gradient_error(inclusion, small)
            worst, worst_gradient = max(worst, error), max(worst_gradient, gradient)
            if error > 1e-9 or gradient > 1e-7:
                failed.append(f"{inclusion.small} in {inclusion.large} ({kind}): {error:.0e}, gradient {gradient:.0e}")
        if inclusion.outside is not None:
            outside += 1
            try:
                inclusion.embed(*inclusion.outside(graphs["undirected"], np.random.default_rng(5)))
                failed.append(f"{inclusion.small} in {inclusion.large}: holds outside its condition")
            except NotRepresentable:
                pass
    return Outcome(
        passed=not failed,
        figure=f"{len(inclusions.lattice)} inclusions, worst error {worst:.0e}, of gradients {worst_gradient:.0e}; "
        f"{outside} conditions seen to fail where they should",
        values={"inclusions": len(inclusions.lattice), "worst": worst, "worst_gradient": worst_gradient},
        counterexample="; ".join(failed),
    )
