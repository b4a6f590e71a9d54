"""The PyTorch bridge by PyTorch's own checks, for every configuration of every filter and layer.

    python validation/torch_bridge.py            # prints the table
    python validation/torch_bridge.py --write    # writes validation/torch_bridge.md

Each check returns "" where all is well and otherwise says what is not; the tests call the same functions.
"""

from __future__ import annotations

import argparse
import io
import platform
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import bridge_subjects
import numpy as np
import torch

import evref as ev
from evref.bridges.torch import EvrefModule, as_torch
from evref.bridges.torch_ops import key_of

PAGE = Path(__file__).with_suffix(".md")
N_NODES, BATCH, FEATURES = 4, 2, 2
INDUCTOR = "inductor" if shutil.which("g++") or shutil.which("c++") else "aot_eager"  # it writes C++ and compiles it
OPS = ("forward", "backward", "backward_of_backward")


# ---- what is checked -------------------------------------------------------------------------------------------------
subjects = partial(bridge_subjects.subjects, N_NODES)
first_of_each = partial(bridge_subjects.first_of_each, N_NODES)


def numbers(module: ev.Module, dtype: type = np.float64) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Parameters, x and grad_y."""
    rng = np.random.default_rng(1)
    params = module.init(rng, dtype=dtype)
    x = rng.standard_normal((BATCH, *(module.in_shape or (FEATURES, N_NODES)))).astype(dtype)
    y = module(params, x)
    return params, x, rng.standard_normal(y.shape).astype(dtype)


def leaves(module: ev.Module, dtype: type = np.float64) -> tuple[torch.Tensor, ...]:
    """(x, *parameters); all want a gradient but empty ones, which gradcheck refuses."""
    params, x, _ = numbers(module, dtype)
    return tuple(torch.tensor(a, requires_grad=a.size > 0) for a in (x, *params.values()))


def function_of_leaves(module: ev.Module) -> Callable[..., torch.Tensor]:
    f, names = as_torch(module), list(module.parameter_shapes())
    return lambda x, *params: f(dict(zip(names, params, strict=True)), x)


# ---- the checks ------------------------------------------------------------------------------------------------------
def gradcheck(module: ev.Module) -> str:
    """The gradients are those of the output, by central differences."""
    torch.autograd.gradcheck(function_of_leaves(module), leaves(module))
    return ""


def gradgradcheck(module: ev.Module, fast: bool = False) -> str:
    """The second derivatives are those of the gradients, by central differences; `fast`: along one random direction."""
    torch.autograd.gradgradcheck(
        function_of_leaves(module), leaves(module), fast_mode=fast, atol=1e-4 if fast else 1e-5
    )
    return ""


def op_arguments(op: str, module: ev.Module) -> tuple[object, ...]:
    x, *params = leaves(module)
    grad_y = torch.tensor(numbers(module)[2], requires_grad=True)
    if op == "forward":
        return key_of(module), params, x
    if op == "backward":
        return key_of(module), params, x, grad_y, True
    # Nothing differentiates the third op: a third derivative raises.
    params, x, grad_y = [p.detach() for p in params], x.detach(), grad_y.detach()
    return key_of(module), params, x, grad_y, [torch.ones_like(p) for p in params], torch.ones_like(x)


def opcheck(module: ev.Module, op: str) -> str:
    """Schema, fake kernel, registration of the derivatives, and behaviour under AOT autograd with changing shapes."""
    torch.library.opcheck(getattr(torch.ops.evref, op).default, op_arguments(op, module))
    return ""


def compiled(module: ev.Module, backend: str = INDUCTOR) -> str:
    """torch.compile(fullgraph=True): output and every gradient have the bits of eager mode, for two batch sizes."""
    torch.compiler.reset()
    f = function_of_leaves(module)
    fast = torch.compile(f, fullgraph=True, backend=backend)
    for repeat in (1, 2):
        x, *params = (t.detach() for t in leaves(module))
        inputs = [torch.cat([x] * repeat), *params]
        found = [outcome(call, inputs) for call in (f, fast)]
        for name, eager, ours in zip(result_names(module), *found, strict=True):
            if not torch.equal(eager, ours):
                return f"{name} differs from eager mode for a batch of {len(inputs[0])}"
    return ""


def outcome(call: Callable[..., torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """y and the gradients of sum(y^2 / 2)."""
    inputs = [t.clone().requires_grad_() for t in inputs]
    y = call(*inputs)
    return [y.detach(), *torch.autograd.grad(y, inputs, y.detach())]


def result_names(module: ev.Module) -> list[str]:
    return ["y", "grad_x", *(f"grad of {name}" for name in module.parameter_shapes())]


def bits(module: ev.Module, dtype: type = np.float64) -> str:
    """Output and every gradient have the bits that evref's own forward and backward give; also without grad_x."""
    params, x, grad_y = numbers(module, dtype)
    y, tape = module.forward(params, x)
    grads, grad_x = module.backward(params, tape, grad_y)
    here = [leaf.requires_grad_() for leaf in leaves(module, dtype)]
    output = function_of_leaves(module)(*here)
    found = [output.detach(), *torch.autograd.grad(output, here, torch.tensor(grad_y))]
    for name, expected, tensor in zip(result_names(module), [y, grad_x, *grads.values()], found, strict=True):
        if tensor.dtype != here[0].dtype or not np.array_equal(tensor.numpy(), expected):
            return f"{name} differs from evref's"
    if not params:
        return ""
    data, *learned = here[0].detach(), *here[1:]
    output = function_of_leaves(module)(data, *learned)
    own = module._parameter_gradients(params, tape.saved, grad_y)
    for name, tensor in zip(params, torch.autograd.grad(output, learned, torch.tensor(grad_y)), strict=True):
        if not np.array_equal(tensor.numpy(), own[name]):
            return f"grad of {name} differs from evref's where x wants none"
    return ""


def state_dict(module: ev.Module) -> str:
    """Names are evref's; a saved state_dict, read back with `weights_only=True`, gives the same output."""
    params, x, _ = numbers(module)
    wrapped, other = EvrefModule(module, params), EvrefModule(module, rng=5)
    state = wrapped.state_dict()
    if list(state) != list(module.parameter_shapes()):
        return f"names are {list(state)}; expected {list(module.parameter_shapes())}"
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    same = torch.equal(other(torch.tensor(x)), wrapped(torch.tensor(x)))
    return (
        "" if same and np.array_equal(other(torch.tensor(x)).numpy(force=True), module(params, x)) else "other output"
    )


CHECKS: dict[str, Callable[[ev.Module], str]] = {
    "gradcheck": gradcheck,
    "gradgradcheck": gradgradcheck,
    **{f"opcheck {op}": (lambda module, op=op: opcheck(module, op)) for op in OPS},
    "compile": compiled,
    "bits float64": bits,
    "bits float32": lambda module: bits(module, np.float32),
    "state_dict": state_dict,
}


# ---- the page --------------------------------------------------------------------------------------------------------
def checked(check: Callable[[ev.Module], str], module: ev.Module) -> str:
    """What is wrong, in one line."""
    try:
        return check(module)
    except Exception as error:  # the page says what it was
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def rows(names: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for name in names:
        yield name, {check: checked(run, subjects()[name]) for check, run in CHECKS.items()}


def page(table: dict[str, dict[str, str]]) -> str:
    failures = [f"- {name}, {check}: {why}" for name, row in table.items() for check, why in row.items() if why]
    good = len(table) * len(CHECKS) - len(failures)
    lines = [
        "# The PyTorch bridge, by PyTorch's own checks",
        "",
        f"Written by `python validation/torch_bridge.py --write` with PyTorch {torch.__version__.partition('+')[0]}, "
        f"Python {platform.python_version()}: {good} of {len(table) * len(CHECKS)} checks pass"
        f"{'.' if not failures else '; those that do not are below the table.'}",
        "Every configuration that the catalogues' `examples` yield, on a directed graph with "
        f"{N_NODES} nodes, with {BATCH} samples.",
        "",
        "- gradcheck, gradgradcheck: `torch.autograd`, all entries, its own tolerances; first and second derivatives.",
        "- opcheck: `torch.library.opcheck` of the three ops (schema, fake kernel, derivatives, AOT autograd with "
        "changing shapes).",
        f"- compile: `torch.compile(fullgraph=True, backend={INDUCTOR!r})`; output and gradients equal eager mode's to "
        "the bit, for two batch sizes.",
        "- bits: output and gradients equal those of evref's `forward` and `backward` to the bit, with and without the"
        " gradient of x.",
        "- state_dict: evref's names; saved, read back, the same output.",
        "",
        "| | " + " | ".join(CHECKS) + " |",
        "|---|" + "---|" * len(CHECKS),
    ]
    for name, row in table.items():
        lines.append(f"| {name} | " + " | ".join("fails" if row[check] else "✓" for check in CHECKS) + " |")
    return "\n".join([*lines, *(["", *failures] if failures else [])]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the PyTorch bridge by PyTorch's own checks.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    write = parser.parse_args().write
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    table = {}
    for name, row in rows(list(subjects())):
        table[name] = row
        print(name, "; ".join(f"{check}: {why}" for check, why in row.items() if why) or "ok", flush=True)
    if write:
        PAGE.write_text(page(table), encoding="utf-8")
    return 1 if any(why for row in table.values() for why in row.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
