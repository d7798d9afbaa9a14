"""Names of PyTorch that this library does not have, each with the reason.

`absence` makes the error of a name; the table of coverage in ``docs/compat_torch.md`` reads
`reason`. `cuda`, `mps` and `backends` answer the questions that programs ask before they choose a
device.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

__all__ = ["absence", "backends", "cuda", "mps", "reason"]

# The reason for the absence of the names that fit a pattern; the first that fits counts.
_REASONS = {
    "no accelerators: arrays are NumPy's": (
        r"cuda cudnn_.* miopen_.* xpu mtia accelerator ipu "
        r"is_(cuda|xpu|ipu|maia|mtia|vulkan|xla|mkldnn).*"
    ),
    "a backend of PyTorch's own kernels": (
        r"mkldnn_.* to_mkldnn fbgemm_.* vulkan.* .*cxx11_abi has_.*"
    ),
    "TorchScript and its compiler; pb.compile compiles programs": (
        r"jit Script.* script.* .*JIT.* import_ir.* parse_.* merge_type.* unify_type.* fork "
        r"wait .*Type export package futures classes ops"
    ),
    "a part of PyTorch outside of tensors and gradients": (
        r"distributed is_distributed multiprocessing prepare_multiprocessing.* monitor hub "
        r"profiler.* quasirandom windows overrides signal serialization return_types types "
        r"version torch_version functional masked nested cpp distributions fx"
    ),
    "no quantized tensors": (
        r".*quant.* q_.* qint.* quint.* qscheme int_repr per_(channel|tensor)_.* ao "
        r"choose_qparams.*"
    ),
    "no sparse or nested layout; pb.sparse has sparse derivatives": (
        r".*sparse.* .*(ccol|crow|col|row)_indices.* indices.* values.* coalesce is_coalesced "
        r".*dense.* dsmm hsmm hspmm saddmm smm spmm sspaddmm to_padded_tensor jagged"
    ),
    "no mixed precision": (r".*autocast.* amp GradScaler"),
    "NumPy has no such dtype": (
        r"bfloat16 float8_.* float4_.* bits.* complex32 chalf u?int[1-7] bit BFloat16.*"
    ),
    "no storages, streams and memory formats: memory is NumPy's": (
        r".*[Ss]torage.* is_set_to from_file const_data_ptr module_load record_stream Stream "
        r"Event memory_format channels_last.* .*_format dim_order strided"
    ),
    "a part of PyTorch's compiler, or obsolete": (
        r"sym_.* Sym.* typename cond while_loop compiler hash_tensor .*_generator name names "
        r"volatile reinforce"
    ),
    "a setting of PyTorch's own runtime": (
        r"(get|set|is)_(deterministic|warn|float32|num_interop|anomaly|flush|device_module).* "
        r"set_default_tensor_type init_num_threads is_pinned"
    ),
    "an internal building block; nn has the public form where there is one": (
        r".*_copy .*_backward.* batch_norm_.* native_.* norm_except_dim slice_inverse "
        r"unsafe_.* as_strided_scatter .*_with_indices conv_tbc convolution constant_pad_nd "
        r"grid_sampler.* embedding_.* .*_cell lstm gru rnn_.* ctc_loss channel_shuffle "
        r"as_subclass"
    ),
    "in torch.linalg, or in pb.scipy.linalg": (
        r"geqrf orgqr ormqr lu.* triangular_solve lobpcg lstsq solve symeig eig "
        r"(nuclear|frobenius)_norm"
    ),
}


def reason(name: str) -> str:
    """Returns the reason for the absence of a name of PyTorch.

    >>> reason("cuda")
    "no accelerators: arrays are NumPy's"
    """
    for why, patterns in _REASONS.items():
        if any(re.fullmatch(pattern, name) for pattern in patterns.split()):
            return why
    return "not translated; compose it of what is here"


def absence(name: str) -> AttributeError:
    """The error for a name of ``torch`` that is absent."""
    return AttributeError(f"torch.{name} is not part of pullback.compat.torch: {reason(name)}")


class _Cuda:
    """``torch.cuda``: says that there is no device; everything else raises by name."""

    @staticmethod
    def is_available() -> bool:
        """False."""
        return False

    @staticmethod
    def device_count() -> int:
        """0."""
        return 0

    @staticmethod
    def manual_seed(seed: int) -> None:
        """Does nothing, as without a device in PyTorch."""

    manual_seed_all = manual_seed

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"torch.cuda.{name} is not part of pullback.compat.torch: {reason('cuda')}"
        )


cuda, mps = _Cuda(), _Cuda()
# Programs set options of backends that do not exist here, such as cudnn.deterministic.
backends = SimpleNamespace(
    cudnn=SimpleNamespace(enabled=False, deterministic=True, benchmark=False),
    mps=SimpleNamespace(is_available=lambda: False, is_built=lambda: False),
    cuda=SimpleNamespace(is_built=lambda: False, matmul=SimpleNamespace(allow_tf32=False)),
)
