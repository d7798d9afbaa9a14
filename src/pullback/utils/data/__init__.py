"""Datasets, samplers and the loader that makes batches of them, under PyTorch's names.

>>> import pullback as pb
>>> from pullback.utils.data import DataLoader, TensorDataset
>>> data = TensorDataset(pb.arange(6.0).reshape(3, 2), pb.tensor([0, 1, 0]))
>>> for x, y in DataLoader(data, batch_size=2):
...     print(x.shape, y.tolist())
(2, 2) [0, 1]
(1, 2) [0]
"""

from __future__ import annotations

from pullback.utils.data.collate import default_collate, default_convert
from pullback.utils.data.dataloader import DataLoader
from pullback.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from pullback.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from pullback.utils.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
