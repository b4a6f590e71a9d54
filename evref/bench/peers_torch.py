"""The same work in torch; gradients by its autograd. Parameters are torch tensors before the clock starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .cases import Contender, Problem, Results, Skipped
from .clock import fastest
from .peers_evref import named

SHIFTING = ("torch dense", "torch CSR", "torch gather")
CHECKED = True
NAMES = {
    "edge-variant": ("torch dense", "torch gather", "torch.sparse", "authors' dense form"),
    "training": ("torch dense", "torch gather"),
    "polynomial": SHIFTING,
    "node-variant": SHIFTING,
}

Forward = Callable[[Any, Any], Any]  # (phi, x) -> y


def prepare(threads: int) -> None:
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


def contender(name: str, p: Problem) -> Contender:
    dense = name in ("torch dense", "authors' dense form")
    if dense and not p.case.is_small:
        raise Skipped(f"dense {p.case.N}×{p.case.N} matrices")
    return autograd(p, FORMS[name](p), masked=name in MASKED)


# ---- edge-variant ----------------------------------------------------------------------------------------------------
def gather(p: Problem) -> Forward:
    """Messages along edges, nodes before the batch so that rows are contiguous; one filter at a time if large."""
    if p.case.kind in ("polynomial", "node-variant"):
        return shifting(p, gathering_shift(p))
    N, F, G = p.case.N, p.case.F, p.case.G
    target, source = torch.tensor(p.rows), torch.tensor(p.indices, dtype=torch.int64)
    together = F * G * p.nnz * p.case.B * p.dtype.itemsize < 2**25

    def filtered(phi: Any, w: Any) -> Any:
        """sum_k w^(k); phi (K, ..., nnz), w (..., N, B)"""
        total: Any = 0.0
        for phi_k in phi.unbind():
            messages = phi_k[..., None] * w.index_select(-2, source)
            w = torch.zeros(*messages.shape[:-2], N, messages.shape[-1], dtype=w.dtype).index_add(-2, target, messages)
            total = total + w
        return total

    def one_signal(phi: Any, x: Any) -> Any:
        """Without axes of length 1, along which index_add is ten times slower."""
        w = x[0, 0]
        total: Any = 0.0
        for phi_k in phi[:, 0, 0].unbind():
            w = torch.zeros_like(w).index_add(0, target, phi_k * w.index_select(0, source))
            total = total + w
        return total[None, None]

    if F * G * p.case.B == 1:
        return one_signal

    def forward(phi: Any, x: Any) -> Any:
        by_node = x.permute(1, 2, 0).contiguous()  # (G, N, B)
        if together:
            return filtered(phi, by_node.expand(F, G, N, -1)).sum(1).permute(2, 0, 1)
        rows = [sum(filtered(phi[:, f, g], by_node[g]) for g in range(G)) for f in range(F)]
        return torch.stack(rows).permute(2, 0, 1)

    return forward


def dense_masked(p: Problem) -> Forward:
    """Dense matrices, zero off the support by a mask, and batched products."""
    if p.case.kind in ("polynomial", "node-variant"):
        S = torch.tensor(p.S.toarray().astype(p.dtype))
        return shifting(p, lambda z: S @ z)
    N, F, G, mask = p.case.N, p.case.F, p.case.G, mask_of(p)

    def forward(phi: Any, x: Any) -> Any:
        w = x.permute(1, 2, 0).expand(F, G, N, -1)
        total: Any = 0.0
        for Phi_k in (phi * mask).unbind():
            w = Phi_k @ w
            total = total + w
        return total.sum(1).permute(2, 0, 1)

    return forward


def sparse_coo(p: Problem) -> Forward:
    """torch.sparse.mm, a matrix for every filter and step."""
    if p.case.N > 10_000:
        size = p.case.N**2 * p.dtype.itemsize / 1e9
        raise Skipped(f"the backward pass of torch.sparse.mm allocates N×N: {size:.0f} GB")
    N, F, G = p.case.N, p.case.F, p.case.G
    places = torch.tensor(np.stack([p.rows, p.indices.astype(np.int64)]))

    def forward(phi: Any, x: Any) -> Any:
        by_node = x.permute(1, 2, 0).contiguous()
        rows = []
        for f in range(F):
            total: Any = 0.0
            for g in range(G):
                w = by_node[g]
                for phi_k in phi[:, f, g].unbind():
                    matrix = torch.sparse_coo_tensor(places, phi_k, (N, N), is_coalesced=True, check_invariants=False)
                    w = torch.sparse.mm(matrix, w)
                    total = total + w
            rows.append(total)
        return torch.stack(rows).permute(2, 0, 1)

    return forward


def authors_dense(p: Problem) -> Forward:
    """A stand-in, from a description, for how the paper's authors compute the filter; their (GPL) code is not used.

    Every filter and step owns a full N×N parameter, multiplied by the mask of the support in every forward pass. The
    signal is repeated over outputs, inputs and steps to (B, F, K, G, N, 1) and the products are taken sample by sample.
    """
    N, F, G, K, mask = p.case.N, p.case.F, p.case.G, p.case.K, mask_of(p)

    def forward(phi: Any, x: Any) -> Any:
        B = len(x)
        Phi = (phi * mask).permute(1, 0, 2, 3, 4).reshape(1, F, K, G, N, N)
        states = x.reshape(B, 1, 1, G, N, 1).repeat(1, F, K, 1, 1, 1)
        w = states[:, :, 0]  # (B, F, G, N, 1)
        outputs = []
        for k in range(K):
            w = torch.matmul(Phi[:, :, k], w)
            outputs.append(w)
        return torch.stack(outputs, 2).sum((2, 3)).squeeze(-1)  # over steps and inputs: (B, F, N)

    return forward


def mask_of(p: Problem) -> Any:
    mask = torch.zeros(p.case.N, p.case.N, dtype=getattr(torch, p.dtype.name))
    mask[p.rows, p.indices] = 1
    return mask


# ---- polynomial and node-variant -------------------------------------------------------------------------------------
def csr(p: Problem) -> Forward:
    S = p.S.astype(p.dtype)

    def to_torch(matrix: Any) -> Any:
        starts, columns, data = (torch.tensor(a) for a in (matrix.indptr, matrix.indices, matrix.data))
        return torch.sparse_csr_tensor(starts.long(), columns.long(), data, matrix.shape, check_invariants=False)

    class Shift(torch.autograd.Function):
        """The transpose is made once: torch's own backward pass would convert it in every step."""

        forward = staticmethod(lambda ctx, z: forwards @ z)
        backward = staticmethod(lambda ctx, grad: backwards @ grad)

    forwards, backwards = to_torch(S), to_torch(S.T.tocsr())
    return shifting(p, Shift.apply)


def gathering_shift(p: Problem) -> Callable[[Any], Any]:
    S = p.S.astype(p.dtype).tocoo()
    target, source = (torch.tensor(a, dtype=torch.int64) for a in (S.row, S.col))
    weight = torch.tensor(S.data)[:, None]
    return lambda z: torch.zeros_like(z).index_add(0, target, weight * z.index_select(0, source))


def shifting(p: Problem, shift: Callable[[Any], Any]) -> Forward:
    """K shifts of all features at once; the faster of two ways to mix them."""
    forms = (mixed_by_sample(p, shift), mixed_at_the_end(p, shift))
    return min(forms, key=lambda forward: fastest(autograd(p, forward, masked=False).run))


def mixed_by_sample(p: Problem, shift: Callable[[Any], Any]) -> Forward:
    """States (N, B G); (N B, G) is the same memory, mixed by matrix products as they come."""
    N, B, F, G, K = p.case.N, p.case.B, p.case.F, p.case.G, p.case.K
    copied = torch.tensor(p["copied"]) if p.case.kind == "node-variant" else None
    shape = (N * B, G) if copied is None else (N, B, G)

    def forward(phi: Any, x: Any) -> Any:
        c = phi.transpose(1, 2) if copied is None else phi.index_select(3, copied).permute(0, 3, 2, 1)
        z = x.permute(2, 0, 1).reshape(N, B * G)
        y = z.reshape(shape) @ c[0]
        for k in range(1, K + 1):
            z = shift(z)
            y = y + z.reshape(shape) @ c[k]
        return y.reshape(N, B, F).permute(1, 2, 0)

    return forward


def mixed_at_the_end(p: Problem, shift: Callable[[Any], Any]) -> Forward:
    """States (N, G B), stacked and mixed by one einsum."""
    N, B, G, K = p.case.N, p.case.B, p.case.G, p.case.K
    copied = torch.tensor(p["copied"]) if p.case.kind == "node-variant" else None

    def forward(phi: Any, x: Any) -> Any:
        states = [x.permute(2, 1, 0).reshape(N, G * B)]
        for _ in range(K):
            states.append(shift(states[-1]))
        stacked = torch.stack(states).reshape(K + 1, N, G, B)
        if copied is None:
            return torch.einsum("kfg,kngb->bfn", phi, stacked)
        return torch.einsum("kfgn,kngb->bfn", phi.index_select(3, copied), stacked)

    return forward


FORMS: dict[str, Callable[[Problem], Forward]] = {
    "torch gather": gather,
    "torch dense": dense_masked,
    "torch.sparse": sparse_coo,
    "torch CSR": csr,
    "authors' dense form": authors_dense,
}
MASKED = ("torch dense", "authors' dense form")  # where edge-variant parameters are held as dense matrices


# ---- around the forward pass -----------------------------------------------------------------------------------------
def parameter(p: Problem, masked: bool) -> tuple[Any, Callable[[Any], Any]]:
    """phi as this form holds it, and the way from its gradient back to the entries on the support."""
    phi = torch.tensor(p["phi"])
    if not masked or p.case.kind not in ("edge-variant", "training"):
        return phi.requires_grad_(), lambda grad: grad.numpy(force=True)
    dense = torch.zeros(*phi.shape[:3], p.case.N, p.case.N, dtype=phi.dtype)
    dense[..., p.rows, p.indices] = phi
    return dense.requires_grad_(), lambda grad: grad[..., p.rows, p.indices].numpy(force=True)


def autograd(p: Problem, forward: Forward, masked: bool) -> Contender:
    phi, to_support = parameter(p, masked)
    if p.case.kind == "training":
        return training(p, forward, phi, to_support)
    x, grad_y = torch.tensor(p["x"]).requires_grad_(), torch.tensor(p["grad_y"])

    def run() -> tuple[Any, Any, Any]:
        y = forward(phi, x)
        return (y.detach(), *torch.autograd.grad(y, (phi, x), grad_y))

    def on_support() -> tuple[Any, Any, Any]:
        y, grad_phi, grad_x = run()
        return y.numpy(), to_support(grad_phi), grad_x.numpy()

    return Contender(run, named(on_support))


def training(p: Problem, forward: Forward, phi: Any, to_support: Callable[[Any], Any]) -> Contender:
    x, label = torch.tensor(p["x"]), torch.tensor(p["label"])
    weight, bias = (torch.tensor(p[name]).requires_grad_() for name in ("weight", "bias"))
    params = {"phi": phi, "weight": weight, "bias": bias}
    adam = torch.optim.Adam(params.values(), lr=1e-3, fused=True)

    def run() -> Any:
        hidden = torch.relu(forward(phi, x)).reshape(len(x), -1)
        value = torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, weight, bias), label)
        adam.zero_grad()
        value.backward()
        adam.step()
        return value

    def result() -> Results:
        before = {name: tensor.detach().clone() for name, tensor in params.items()}
        results: Results = {"loss": run().detach().numpy()}
        for name, tensor in params.items():
            convert = to_support if name == "phi" else (lambda t: t.numpy(force=True))
            results[f"grad_{name}"] = convert(tensor.grad)
            results[f"moved_{name}"] = convert(tensor.detach() - before[name])
        return results

    return Contender(run, result)
