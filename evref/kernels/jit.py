"""How plain functions become compiled ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from numba import njit
from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template
from numba.extending import register_jitable

inlined = register_jitable(inline="always")  # for short functions inside the innermost loops


class InnerLibrary(JITCodeLibrary):
    """Code that only other compiled code calls.

    numba optimises every function with all that it calls and turns it into instructions, then does so again for whoever
    calls it, and so on: half of the time that kernels took to compile. Here that is left to the last of them.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Lowering without a function that Python could call."""

    _name = "evref_inner_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags = state.flags.copy()
        state.flags.no_compile = True
        super().run_pass(state)
        nobody: Any = [].append  # numba knows compiled functions by the C function that Python calls: some such object
        state.targetctx.insert_user_function(nobody, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=nobody)
        return True


class InnerCompiler(Compiler):
    def define_pipelines(self) -> list[Any]:
        (usual,) = super().define_pipelines()
        passes = PassManager("evref inner")
        for step, description in usual.passes:
            passes.add_pass(InnerLowering if step is NativeLowering else step, description)
        passes.finalize()
        return [passes]


inner = register_jitable(pipeline_class=InnerCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class ForgivingCache(FunctionCache):
    """numba's cache on disk. Where its files are damaged or the disk is full, a function is compiled as without it."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged file may hold anything
            with suppress(Exception):
                self.flush()  # else nothing could be kept in it any more
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def compiled(function: Any) -> Any:
    """njit, lazily, without the interpreter lock; with the on-disk cache where there is a place to write it."""
    dispatcher: Any = njit(nogil=True, error_model="numpy")(function)
    with suppress(RuntimeError):  # no writable folder
        dispatcher._cache = ForgivingCache(dispatcher.py_func)
    return dispatcher


def replaces(plain: Any, prefer_literal: bool = False) -> Any:
    """Python calls `plain`; numba, where compiled code names it, takes the definition below, written as an intrinsic's.

    `overload` would do the same by way of a stand-in function, whose typing and inlining at every call double the time
    that the kernels take to compile.
    """

    def register(definition: Any) -> Any:
        template = make_intrinsic_template(plain, definition, plain.__name__, prefer_literal=prefer_literal, kwargs={})
        infer(template)
        infer_global(plain, types.Function(template))
        return definition

    return register
