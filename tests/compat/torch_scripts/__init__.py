"""Training programs as they are written for PyTorch; `test_torch_scripts.py` runs them.

Each module has ``train(weights, noise)``: `weights` is None, or the ``state_dict`` to begin with as
arrays; it returns the initial weights as arrays and the losses. The only line that depends on the
library is the import, which the test replaces by ``import torch``.
"""
