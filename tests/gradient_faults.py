"""Faults put into the gradients by hand, as small edits of the source, and what `evref gradcheck` says of each.

    python tests/gradient_faults.py              print the table
    python tests/gradient_faults.py --write      and write it to validation/gradient_faults.md

A fault lives in the functions of the real classes while :func:`planted` is open. :func:`outcome` then calls the command
as a user does, with the name of the target alone: both graphs, every configuration, every check.
`tests/verify/test_faults.py` asks that each is caught and named, and that the page says so.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest
from strategies import edited

import evref as ev
from evref import cli
from evref.verify.gradcheck import CHECKS

PAGE = Path(__file__).parent.parent / "validation" / "gradient_faults.md"
SHORT = {check.__name__: name for name, check in CHECKS.items()}


class Fault(NamedTuple):
    """What is wrong, in which target, in which file of evref, and the source as it is and as it must not be.

    `blocks`: what the leading check, the first one to see the fault, has to name: these rows, no other.
    """

    what: str
    target: str
    file: str
    blocks: str
    edits: tuple[str, ...]


class Outcome(NamedTuple):
    """What one run of the command said."""

    code: int
    checks: list[str]  # those that failed somewhere
    blocks: set[str]  # what the first of them named, over all cases
    failed: list[str]  # the cases that failed, such as "order=2, zeroth=none, directed"
    cases: list[str]

    @property
    def where(self) -> str:
        """In how many of the cases it was seen, and what these have in common."""
        if len(self.failed) == len(self.cases):
            return "everywhere"
        parts = {case: set(re.split(r", (?=\w+=|undirected|directed)", case)) for case in self.cases}
        common = set.intersection(*(parts[case] for case in self.failed)) if self.failed else set()
        apart = {part for part in common if sum(part in parts[case] for case in self.cases) == len(self.failed)}
        return ", ".join([f"{len(self.failed)} of {len(self.cases)}", *sorted(apart or common)])


def fault(what: str, target: str, file: str, blocks: str, *edits: str) -> Fault:
    return Fault(what, target, file, blocks, edits)


EV, HEV, CAYLEY = "filters.edge_variant", "filters.hybrid", "filters.cayley_systems"
EV_KERNEL, SHIFT_KERNEL, LEARNING_KERNEL = (
    f"kernels.{name}" for name in ("reference", "shift_reference", "learning_reference")
)
ACTIVATIONS = "learn.activations"
FAULTS = [
    # ---- the edge-variant filter, and sums of it
    fault("adjoint by Phi, not by its transpose", "edge_variant", EV_KERNEL, "phi, phi0, x",
          "graph.to_csr(phi[k - 1, f, g]).T @ lam", "graph.to_csr(phi[k - 1, f, g]) @ lam"),
    fault("k off by one: the state after the step", "edge_variant", EV_KERNEL, "phi",
          "lam[rows], w[k - 1][columns]", "lam[rows], w[k][columns]"),
    fault("tangent without dPhi", "edge_variant", EV_KERNEL, "phi",
          "+ graph.to_csr(dphi[k - 1, f, g]) @ w[k - 1]", ""),
    fault("grad_x of the last output feature only", "edge_variant", EV_KERNEL, "x",
          "grad_x[:, g] += lam.T", "grad_x[:, g] = lam.T"),
    fault("gradient of phi0 with input features swapped", "edge_variant", EV, "phi0",
          'grads["phi0"] = grad_phi0', 'grads["phi0"] = grad_phi0[:, ::-1]'),
    fault("k = 0 missing from grad_x where Phi^(0) is the identity", "edge_variant", EV, "x",
          "return self._gradients(params, saved, grad_y, True)",
          "grads, grad_x = self._gradients(params, saved, grad_y, True)\n"
          '        return grads, grad_x - (self.zeroth == "identity") * grad_y.sum(axis=1, keepdims=True)'),
    fault("tangent of an identity that nobody learns", "edge_variant", EV, "phi, x",
          "np.zeros_like(phi0)", "np.ones_like(phi0)"),
    fault("steps in reverse order without self-loops", "edge_variant", EV, "phi",
          'grads = {"phi": grad_phi}', 'grads = {"phi": grad_phi if self.self_loops else grad_phi[::-1]}'),
    fault("gradient for training: mean over the batch for sum", "edge_variant", EV, "phi, phi0",
          "return self._gradients(params, saved, grad_y, False)[0]",
          "grads = self._gradients(params, saved, grad_y, False)[0]\n"
          "        return {name: grad / len(grad_y) for name, grad in grads.items()}"),
    fault("bias: gradient twice too large", "edge_variant", "filters.base", "bias",
          "grad_y.sum(axis=(0, 2))", "2 * grad_y.sum(axis=(0, 2))"),
    fault("bias: gradient of the first sample only", "edge_variant", "filters.base", "bias",
          "grad_y.sum(axis=(0, 2))", "grad_y[0].sum(axis=1)"),
    fault("bias: added twice going forward", "edge_variant", "filters.base", "bias",
          'y += params["bias"][:, None]', 'y += 2 * params["bias"][:, None]'),
    fault("bias: left out of the tangent", "edge_variant", "filters.base", "bias",
          'dy += dparams["bias"][:, None]', "pass"),
    fault("copies of the input: mean for sum", "parallel_edge_variant", "filters.parallel", "x",
          "nodes).sum(axis=1)", "nodes).mean(axis=1)"),
    fault("copies and features in the wrong order", "parallel_edge_variant", "filters.parallel", "x",
          "self.terms, self.in_features, nodes).sum(axis=1)", "self.in_features, self.terms, nodes).sum(axis=2)"),
    # ---- between the polynomial and the edge-variant filter
    fault("mapping: rows of C_B in reverse order", "node_variant", "filters.node_variant", "phi",
          "grad_weights @ self._rows", "grad_weights @ self._rows[::-1]"),
    fault("sums over groups without sorting the nodes", "node_variant", SHIFT_KERNEL, "phi",
          "per_node[..., groups.order]", "per_node"),
    fault("tangent ignores dparams", "node_variant", "filters.node_variant", "phi",
          'pairs = (self._by_group(dparams["phi"]), x), (self._by_group(params["phi"]), dx)',
          'pairs = ((self._by_group(params["phi"]), dx),)'),
    fault("text: grad_x without the diagonal", "hybrid_edge_variant", HEV, "x",
          'grad_x += np.einsum("fgn,bfn->bgn", self._diagonal(params), grad_y)', "pass"),
    fault("text: tape is x itself", "hybrid_edge_variant", HEV, "x overwritten",
          "own_x = x.copy()", "own_x = x"),
    fault("equation, authors_code: phi0 by rising node", "hybrid_edge_variant", HEV, "phi0",
          'part_grads["phi0"][..., self._diagonal_nodes]', 'part_grads["phi0"][..., np.sort(self._diagonal_nodes)]'),
    fault("equation, authors_code: no gradient of phi0 without a step", "hybrid_edge_variant", HEV, "phi0",
          'if self._chained:\n                grads["phi0"]',
          'if self._chained and self.order:\n                grads["phi0"]'),
    fault("polynomial: coefficients in reverse order", "critical_edge", HEV, "poly",
          'grads = {"poly": poly_grads["phi"],', 'grads = {"poly": poly_grads["phi"][::-1],'),
    fault("grad_x of the polynomial overwritten", "critical_edge", HEV, "x",
          "grad_x += part_grad_x", "grad_x = part_grad_x"),
    # ---- polynomials
    fault("adjoint by S, not by its transpose", "polynomial", SHIFT_KERNEL, "x",
          "astype(grad_states.dtype, copy=False).T", "astype(grad_states.dtype, copy=False)"),
    fault("Clenshaw: 2 S at k = 0, too", "chebyshev", SHIFT_KERNEL, "x",
          "if chebyshev and k > 0:", "if chebyshev:"),
    fault("Clenshaw: -1 missing at k = 0", "chebyshev", SHIFT_KERNEL, "x",
          "if chebyshev and above is not None:", "if chebyshev and above is not None and k > 0:"),
    fault("gradient of theta transposed", "gcn", "filters.polynomial", "grads['theta']",
          '{"theta": grad_theta[0]}', '{"theta": grad_theta[0].T}'),
    fault("sign of the gradient of theta", "gcn", "filters.polynomial", "theta",
          '{"theta": grad_theta[0]}', '{"theta": -grad_theta[0]}'),
    fault("forward adds x^2 / 100, of which neither derivative knows", "tagcn", "filters.polynomial", "x",
          "return y, (shift, states)  # the adjoint",
          "return y + 0.01 * x[:, :1] ** 2, (shift, states)  # the adjoint"),
    fault("gradient divided by the size of the batch", "dcnn", "filters.diffusion", "weight",
          'np.einsum("hgib,hgib->hg", v, saved)', 'np.einsum("hgib,hgib->hg", v, saved) / saved.shape[-1]'),
    fault("grad_x: steps in reverse order", "dcnn", "filters.diffusion", "x",
          'params["weight"][..., None, None] * v)', '(params["weight"][..., None, None] * v)[::-1])'),
    fault("grad_x kept where outputs are", "selection_gcnn", "filters.selection", "x",
          "grad_x * self._mask(self.nodes_in, grad_x.dtype)", "grad_x * self._mask(self.nodes_out, grad_x.dtype)"),
    fault("cotangent kept where inputs are", "selection_gcnn", "filters.selection", "phi, x",
          "grad_y * self._mask(self.nodes_out, grad_y.dtype)", "grad_y * self._mask(self.nodes_in, grad_y.dtype)"),
    fault("tangent of an x that was not selected", "selection_gcnn", "filters.selection", "phi",
          "params, x * mask, dparams", "params, x, dparams"),
    # ---- rational filters
    fault("shared weights: the last iteration only", "arma", "filters.arma", "v",
          'grads["v"][0 if self.shared else t] +=', 'grads["v"][0 if self.shared else t] ='),
    fault("own weights: all into the first iteration", "arma", "filters.arma", "w",
          'grads["w"][0 if self.shared else t - 1]', 'grads["w"][0]'),
    fault("sum over stacks for mean", "arma", "filters.arma", "v, w, w0, x",
          "grad_y / self.stacks", "grad_y"),
    fault("tape is x itself", "arma", "filters.arma", "x overwritten",
          "(x.copy(), arriving)", "(x, arriving)"),
    fault("sign of the gradient of c_im", "cayley", "filters.cayley", "c_im",
          '= -2 * _outer(grad_y, z[k][1])', '= 2 * _outer(grad_y, z[k][1])'),
    fault("exact: h without the left-hand matrix", "cayley", CAYLEY, "h",
          "return grad_b, -inner_product(grad_b, shifted(self.S, z))", "return grad_b, 0"),
    fault("exact: solved with the matrix, not its transpose", "cayley", CAYLEY, "h, x",
          'self._by_factors(grad_z, "T")', 'self._by_factors(grad_z, "N")'),
    fault("Jacobi: one iteration short", "cayley", CAYLEY, "h, x",
          "for t in range(self.iterations, -1, -1):", "for t in range(self.iterations, 0, -1):"),
    fault("Jacobi: adjoint by O, not by its transpose", "cayley", CAYLEY, "h, x",
          "shifted(self.rest.T, q)", "shifted(self.rest, q)"),
    # ---- generated weights
    fault("slope of tanh, alike in both derivatives", "ecc", "filters.ecc", "b0, w0",
          "1 - h * h if", "1 - h if"),
    fault("ReLU open below zero, alike in both derivatives", "ecc", "filters.ecc", "b0, b1, w0, w1",
          "(h.real > 0).astype", "(h.real >= 0).astype"),
    fault("third layer's bias 1 % too small", "ecc", "filters.ecc", "b2",
          "delta.sum(axis=0)", "delta.sum(axis=0) * (1 if l < 2 else 0.99)"),
    fault("mean and missing self-entries forgotten", "ecc", "filters.generated", "b0, b1, w0, w1",
          "grad_phi * self._scale.astype(grad_phi.dtype)", "grad_phi"),
    fault("root: mean over the nodes for sum", "monet", "filters.generated", "root",
          "[..., self.graph.diagonal].sum(axis=-1)", "[..., self.graph.diagonal].mean(axis=-1)"),
    fault("full covariance: Xi not transposed", "monet", "filters.monet", "mu, sigma",
          "Xi.transpose(0, 2, 1)", "Xi"),
    fault("full covariance: triangle column by column", "monet", "filters.monet", "sigma",
          "q, nu)[:, rows, columns]", "q, nu)[(slice(None), *np.array(sorted(zip(columns, rows))).T[::-1])]"),
    fault("tangent without dsigma", "monet", "filters.monet", "sigma",
          "[:, :, None] - dXi @ nu)", "[:, :, None])"),
    fault("softmax: the sum over the row forgotten", "attention", "filters.attention", "source, target, weight, x",
          "(grad_alpha - mean[..., self._rows])", "grad_alpha"),
    fault("heads in reverse order", "attention", "filters.attention", "source, target, weight, x",
          "grad = grad_y.reshape(z.shape)", "grad = grad_y.reshape(z.shape)[:, ::-1]"),
    fault("source and target mixed up", "attention", "filters.attention", "target",
          '"target": np.einsum("bhn,bhfn->hf", to_target, z)', '"target": np.einsum("bhn,bhfn->hf", to_source, z)'),
    fault("slope of the scores forgotten", "attention", "filters.attention", "source, target, weight, x",
          "grad_e = slope * alpha", "grad_e = alpha"),
    fault("tape is x itself", "attention", "filters.attention", "x overwritten",
          "(x.copy(), z, alpha, slope)", "(x, z, alpha, slope)"),
    # ---- spectral filters
    fault("U^T for the inverse of U", "spectral", "filters.spectral", "x",
          "grad_z.transpose(1, 2, 0)) @ V", "grad_z.transpose(1, 2, 0)) @ U.T"),
    fault("tangent ignores dx", "spectral", "filters.spectral", "x",
          "dw = z @ dh.transpose(0, 2, 1) + dz @ h.transpose(0, 2, 1)", "dw = z @ dh.transpose(0, 2, 1)"),
    fault("one coefficient 1 % too large", "shift_invariant_edge_variant", "filters.shift_invariant", "mu",
          'self._Q.astype(grads["phi"].dtype)}',
          'self._Q.astype(grads["phi"].dtype) * (1 + 0.01 * (np.arange(self.basis.dimension) == 1))}'),
    fault("tangent with params for dparams", "shift_invariant_edge_variant", "filters.shift_invariant", "bias, mu, x",
          "for p in (params, dparams))", "for p in (params, params))"),
    # ---- layers
    fault("forward overwrites x", "relu", LEARNING_KERNEL, "x unchanged",
          "np.maximum(x, 0)", "np.maximum(x, 0, out=x)"),
    fault("gradient zero, alike in both derivatives", "identity", ACTIVATIONS, "x",
          "return x.copy(), np.ones_like(x)", "return x.copy(), np.zeros_like(x)"),
    fault("backward overwrites grad_y", "leaky_relu", ACTIVATIONS, "grad_y unchanged",
          "return {}, saved * grad_y", "return {}, np.multiply(saved, grad_y, out=grad_y)"),
    fault("sign of the slope below zero, alike in both derivatives", "leaky_relu", ACTIVATIONS, "x",
          "return derivative * x, derivative",
          "return derivative * x, np.where(x.real > 0, 1.0, -self.slope).astype(x.dtype)"),
    fault("1 - y for 1 - y^2, alike in both derivatives", "tanh", ACTIVATIONS, "x",
          "return y, 1 - y * y", "return y, 1 - y"),
    fault("tape is y itself", "tanh", ACTIVATIONS, "y overwritten",
          "return self._value_and_derivative(x)\n", "y, _ = self._value_and_derivative(x)\n        return y, y\n",
          "return {}, saved * grad_y", "return {}, (1 - saved * saved) * grad_y"),
    fault("a square forgotten, alike in both derivatives", "sigmoid", ACTIVATIONS, "x",
          "e / (1 + e) ** 2", "e / (1 + e)"),
    fault("a node picked twice counts once", "max_activation", ACTIVATIONS, "x",
          "np.add.at(flat, (signal + picked).reshape(-1), (grad / len(nodes)).reshape(-1))",
          "flat[(signal + picked).reshape(-1)] += (grad / len(nodes)).reshape(-1)"),
    fault("k off by one in grad_x", "max_activation", ACTIVATIONS, "x",
          '_scatter(grad_x, nodes, params["weight"][k] * grad_y)',
          '_scatter(grad_x, nodes, params["weight"][k - 1] * grad_y)'),
    fault("both middle values get all", "median_activation", ACTIVATIONS, "x",
          "(grad / len(nodes)).reshape(-1)", "grad.reshape(-1)"),
    fault("the object keeps the tape of the last pass", "median_activation", ACTIVATIONS, "forward again",
          "return y, (x.copy(), picks)", "return y, self.__dict__.update(kept=(x.copy(), picks))",
          "x, picks = saved", "x, picks = self.kept"),
    fault("the object keeps the tape of the first pass", "dense", "learn.dense", "weight × x, x × weight",
          "return y, flat", 'return y, self.__dict__.setdefault("kept", flat)'),
    fault("tape is the caller's weight", "dense", "learn.dense", "weight overwritten",
          "return y, flat", 'return y, (flat, params["weight"])',
          "grad_y.T.dot(saved)", "grad_y.T.dot(saved[0])",
          'grad_y.dot(params["weight"])', "grad_y.dot(saved[1])"),
    fault("grad_x: nodes and features in Fortran order", "dense", "learn.dense", "x",
          "reshape(len(grad_y), *self.in_shape)", 'reshape(len(grad_y), *self.in_shape, order="F")'),
    fault("sum in single precision", "dense", "learn.dense", "weight",
          "grad_y.T.dot(saved)", "grad_y.astype(np.float32).T.dot(saved.astype(np.float32))"),
    fault("tangent with params for dparams", "network", "learn.network",
          "0.0.phi, 0.1.weight, 0.bias, 0.phi, 2.bias, 2.phi, 2.weight, x",
          "self._part(dparams, i), dx)", "self._part(params, i), dx)"),
    fault("gradient for training: first layer from another cotangent", "network", "learn.network",
          "0.0.phi, 0.1.weight, 0.bias, 0.phi",
          "_parameter_gradients(self._part(params, i), saved[i], grad_y)",
          "_parameter_gradients(self._part(params, i), saved[i], 2 * grad_y)"),
    # ---- losses
    fault("gradient not divided by the size of the batch", "cross_entropy", LEARNING_KERNEL, "x",
          "slope /= len(z)", "pass"),
    fault("cotangent ignored", "cross_entropy", "learn.losses", "x",
          "return tape.slope * grad", "return tape.slope.copy()"),
    fault("mean over the batch for mean over all entries", "mean_squared_error", "learn.losses", "x",
          "2 * difference / difference.size", "2 * difference / len(difference)"),
]  # fmt: skip


# ---- putting them in, and looking ------------------------------------------------------------------------------------
@contextlib.contextmanager
def planted(one: Fault) -> Iterator[None]:
    """The code of every function that the edits change, in the place of the real one's; undone at the end."""
    module = import_module(f"evref.{one.file}")
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        broken = _functions(edited(module, *one.edits))
        for name, function in _functions(module).items():
            if function.__code__ != broken[name].__code__:
                patch.setattr(function, "__code__", broken[name].__code__)
        if one.file.startswith("kernels."):
            stack.enter_context(ev.use_backend("numpy"))
        yield


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    """Functions and methods that are written in the module, by their names."""
    found = {}
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    for place in (module, *(cls for cls in classes if cls.__module__ == module.__name__)):
        for value in vars(place).values():
            value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            function: Any = inspect.unwrap(value) if callable(value) else value
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                found[function.__qualname__] = function
    return found


def outcome(target: str) -> Outcome:
    """`evref gradcheck TARGET --json`, read."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = cli.main(["gradcheck", target, "--json"])
    rows = json.loads(out.getvalue())
    failed = [row for row in rows if row["ok"] is False]
    checks = {SHORT.get(row["check"], row["check"]): None for row in failed}
    order = [name for name in ("shapes", *CHECKS) if name in checks]
    blocks: set[str] = set()
    for row in failed:
        if order and SHORT.get(row["check"], row["check"]) == order[0]:
            named = [part["block"] for part in row.get("rows", ()) if not part["ok"] and part["block"] != "all"]
            blocks.update(named or row.get("reason", "").split()[:1])
    cases = dict.fromkeys(_title(row) for row in rows)
    return Outcome(code, order, blocks, [case for case in cases if case in set(map(_title, failed))], list(cases))


def _title(row: dict[str, Any]) -> str:
    return ", ".join(part for part in (row["configuration"], row["graph"]) if part)


# ---- the page --------------------------------------------------------------------------------------------------------
def row(one: Fault, found: Outcome) -> str:
    caught_by, named = ", ".join(found.checks), ", ".join(sorted(found.blocks))
    return f"| {' | '.join((one.what, one.target, f'`{one.file}`', found.where, caught_by, named))} |"


def page(rows: list[str]) -> str:
    """The whole page, from the rows of its table: the figures in the text are counted in them."""
    caught_by = [line.split(" | ")[4].split(", ") for line in rows]
    caught = sum(checks != [""] for checks in caught_by)
    summary = "\n".join(
        f"| {name} | {sum(name in checks for checks in caught_by)} | {caught_by.count([name])} |"
        for name in ("shapes", *CHECKS)
    )
    table = "\n".join(rows)
    return f"""# Faults put into the gradients by hand

Written by `python tests/gradient_faults.py --write`.

Each fault is a small edit of the source of evref, one at a time. `evref gradcheck TARGET`, without options, then checks
every configuration of the target on an undirected and on a directed graph of 6 nodes. Measured: {caught} of
{len(rows)} faults are caught, and the first check to see a fault names what is wrong. `tests/verify/test_faults.py`
repeats each row. A list of faults is no proof that every fault is caught.

| check | faults that it catches | faults that no other check catches |
| --- | --- | --- |
{summary}

"shapes": the gradient does not have the shape of its parameter; nothing else is compared then. Where tangent and
adjoint share a mistake the dot test sees nothing: the rows with "alike in both derivatives" are such faults. That is
the case of every object whose tangent and adjoint come from one automatic differentiation.

*where*: in how many of the cases, a case being a configuration on one kind of graph, the fault was seen; and what these
have in common, and no other case. *named*: the rows that failed in the first of the checks that caught it.

| fault | target | file | where | caught by | named |
| --- | --- | --- | --- | --- | --- |
{table}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="What evref gradcheck says of faults put into evref's gradients.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}, too")
    write = parser.parse_args().write
    rows = []
    for one in FAULTS:
        with planted(one):
            rows.append(row(one, outcome(one.target)))
        print(rows[-1], flush=True)
    if write:
        PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
