"""The peers, by name. Each is imported only in the process that measures it."""

from __future__ import annotations

from importlib import import_module

from benchmarks.peers.base import Peer, UnavailableError

REFERENCE = "pullback"
PEERS = {  # name -> module, class; in the order of the table's columns
    "pullback": ("pullback_peer", "PullbackPeer"),
    "pullback.compile": ("compiled_peer", "CompiledPeer"),
    "torch": ("torch_peer", "TorchPeer"),
    "torch.compile": ("torch_peer", "CompiledTorchPeer"),
    "jax.jit": ("jax_peer", "JaxPeer"),
    "jax.idiom": ("jax_peer", "IdiomaticJaxPeer"),
    "autograd": ("autograd_peer", "AutogradPeer"),
    "mygrad": ("mygrad_peer", "MygradPeer"),
    "numpy": ("numpy_peer", "NumpyPeer"),
    "numba": ("numba_peer", "NumbaPeer"),
}


def load(name: str) -> Peer:
    module, class_name = PEERS[name]
    try:
        found = import_module(f"benchmarks.peers.{module}")
    except ImportError as error:
        raise UnavailableError(f"not installed: {error}") from None
    return getattr(found, class_name)()
