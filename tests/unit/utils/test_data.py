"""Datasets, samplers, and the loader with and without processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import pullback as pb
from pullback.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

# Python 3.12 and later warn about a fork of a process with threads, such as that of the tests.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Numbers(Dataset):
    """The numbers below a bound; what some of them do is an option."""

    def __init__(self, count, error_at=None, kill_at=None, sleep_at=None):
        self.count, self.error_at = count, error_at
        self.kill_at, self.sleep_at = kill_at, sleep_at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.error_at:
            raise KeyError(f"no item {index}")
        if index == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.sleep_at:
            time.sleep(60)
        return index


class Parts(IterableDataset):
    """The numbers below a bound, divided between workers."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))


def listed(loader):
    return [batch.tolist() for batch in loader]


def no_workers_left():
    deadline = time.monotonic() + 5
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not multiprocessing.active_children()


def test_no_item_is_lost_or_doubled_among_many():
    loader = DataLoader(Numbers(100_000), batch_size=500, shuffle=True, num_workers=2, generator=0)
    found = np.concatenate([batch.numpy() for batch in loader])
    assert not np.array_equal(found, np.arange(100_000))
    np.testing.assert_array_equal(np.sort(found), np.arange(100_000))
    assert no_workers_left()


def test_order_depends_on_the_seed_only():
    def passes(workers, **options):
        loader = DataLoader(Numbers(50), 7, True, num_workers=workers, generator=3, **options)
        return [listed(loader), listed(loader)]

    expected = passes(0)
    assert expected[0] != expected[1]
    assert passes(1) == expected
    assert passes(3) == expected
    assert passes(2, persistent_workers=True, prefetch_factor=5) == expected
    assert passes(2, multiprocessing_context="spawn") == expected
    assert no_workers_left()


def test_order_comes_from_the_global_seed_without_a_generator():
    found = []
    for workers in (0, 2):
        np.random.seed(4)
        found.append(listed(DataLoader(Numbers(20), 3, shuffle=True, num_workers=workers)))
    assert found[0] == found[1]


def test_exception_in_a_worker_has_its_class_and_traceback():
    loader = DataLoader(Numbers(20, error_at=7), batch_size=2, num_workers=2)
    with pytest.raises(KeyError, match="no item 7") as caught:
        listed(loader)
    text = str(caught.value)
    assert "Caught KeyError in DataLoader worker process 1.\nOriginal Traceback" in text
    assert "in __getitem__" in text
    assert no_workers_left()


def test_exception_of_a_local_class_becomes_a_runtime_error():
    class LocalError(Exception):
        pass

    class Bad(Numbers):
        def __getitem__(self, index):
            raise LocalError("unusual")

    with pytest.raises(RuntimeError, match="LocalError: unusual"):
        listed(DataLoader(Bad(3), num_workers=1))


def test_result_that_cannot_be_pickled_is_an_error():
    loader = DataLoader(Numbers(3), num_workers=1, collate_fn=lambda items: lambda: items)
    with pytest.raises(Exception, match=r"(?s)worker process 0.*lambda"):
        list(loader)


def test_killed_worker_raises_within_bounded_time_and_leaves_no_process():
    loader = DataLoader(Numbers(1000, kill_at=500), batch_size=2, num_workers=3)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \d \(pid \d+\) exited unexpectedly"):
        listed(loader)
    assert time.monotonic() - start < 10
    assert no_workers_left()


def test_timeout_is_an_error():
    loader = DataLoader(Numbers(4, sleep_at=1), num_workers=1, timeout=0.3)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.3 seconds"):
        listed(loader)
    assert no_workers_left()


def test_loop_that_is_left_early_ends_its_workers():
    for _ in DataLoader(Numbers(1000), num_workers=2):
        break
    assert no_workers_left()
    unused = iter(DataLoader(Numbers(1000), num_workers=2))
    del unused
    assert no_workers_left()


def test_persistent_workers_stay_between_loops_and_end_with_the_loader():
    loader = DataLoader(Numbers(6), 1, num_workers=2, persistent_workers=True, collate_fn=_pids)
    first = {pid for pid, _ in loader}
    for _ in loader:
        break  # results of this loop must not appear in the next
    pairs = list(loader)
    assert {pid for pid, _ in pairs} == first
    assert [item for _, item in pairs] == list(range(6))
    assert len(multiprocessing.active_children()) == 2
    del loader
    assert no_workers_left()


def _pids(items):
    return os.getpid(), items[0]


def test_persistent_workers_serve_one_loop_at_a_time():
    loader = DataLoader(Numbers(6), num_workers=1, persistent_workers=True)
    first = iter(loader)
    next(first)
    assert len(listed(loader)) == 6
    with pytest.raises(RuntimeError, match="one loop at a time"):
        next(first)


def test_large_batches_and_large_indices_do_not_block():
    class Rows(Numbers):
        def __getitems__(self, indices):
            return [np.full(20, i) for i in indices]

    batches = BatchSampler(range(60_000), 20_000, drop_last=False)
    loader = DataLoader(Rows(60_000), batch_sampler=batches, num_workers=1, prefetch_factor=3)
    assert [int(batch[0, 0]) for batch in loader] == [0, 20_000, 40_000]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_workers_end_with_a_killed_process():
    program = textwrap.dedent(
        """
        import os, signal, time
        from pullback.utils.data import DataLoader

        class Slow:
            def __len__(self):
                return 100

            def __getitem__(self, index):
                time.sleep(0.05)
                return index

        if __name__ == "__main__":
            loader = DataLoader(Slow(), num_workers=3, persistent_workers=True)
            items = iter(loader)
            next(items)
            print(*[p.pid for p in loader._workers._processes], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    # Output goes to a pipe that workers hold too: it ends when the last of them has ended.
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=30, check=False
    )
    assert len(done.stdout.split()) == 3, done.stderr.decode()


def test_worker_init_and_info():
    def start(number):
        np.random.seed(number)

    class Drawn(Numbers):
        def __getitem__(self, index):
            info = get_worker_info()
            return info.id, info.num_workers, len(info.dataset), float(np.random.random())

    loader = DataLoader(Drawn(4), None, num_workers=2, worker_init_fn=start)
    expected = [np.random.RandomState(number).random(2) for number in (0, 1)]
    found = list(loader)
    assert [item[:3] for item in found] == [[0, 2, 4], [1, 2, 4], [0, 2, 4], [1, 2, 4]]
    assert [item[3] for item in found] == [expected[i % 2][i // 2] for i in range(4)]

    def fail(number):
        raise ValueError(f"worker {number} cannot start")

    with pytest.raises(ValueError, match="cannot start"):
        listed(DataLoader(Numbers(4), num_workers=1, worker_init_fn=fail))


def test_workers_have_seeds_of_their_own():
    class Drawn(Numbers):
        def __getitem__(self, index):
            return np.random.random()

    def run():
        loader = DataLoader(Drawn(8), 8, num_workers=2, generator=1, batch_sampler=None)
        return np.concatenate([batch.numpy() for batch in loader])

    found = run()
    assert len(set(found)) == 8
    np.testing.assert_array_equal(found, run())


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable_dataset(workers):
    batches = listed(DataLoader(Parts(20), batch_size=3, num_workers=workers))
    assert sorted(item for batch in batches for item in batch) == list(range(20))
    assert sorted(DataLoader(Parts(7), None, num_workers=workers)) == list(range(7))
    short = listed(DataLoader(Parts(20), 3, num_workers=workers, drop_last=True))
    assert all(len(batch) == 3 for batch in short)
    assert len(DataLoader(Numbers(20), 3, drop_last=True)) == 6


def test_out_of_order_yields_every_batch_once():
    loader = DataLoader(Numbers(40), 4, num_workers=2, in_order=False)
    assert sorted(listed(loader)) == [list(range(i, i + 4)) for i in range(0, 40, 4)]


WRONG = [
    ({"num_workers": -1}, "num_workers should be non-negative"),
    ({"timeout": 3}, "timeout needs num_workers > 0"),
    ({"persistent_workers": True}, "persistent_workers needs num_workers"),
    ({"prefetch_factor": 2}, "prefetch_factor needs num_workers"),
    ({"sampler": [0], "shuffle": True}, "mutually exclusive with shuffle"),
    ({"batch_sampler": [[0]], "batch_size": 3}, "mutually exclusive with batch_size"),
    ({"batch_size": None, "drop_last": True}, "drop_last has no meaning"),
    ({"batch_size": 0}, "batch_size should be a positive integer"),
    ({"dataset": Parts(3), "shuffle": True}, "IterableDataset has its own order"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_options_that_do_not_fit_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(**{"dataset": Numbers(3), **options})


def test_datasets():
    x, y = pb.arange(6.0).reshape(3, 2), np.array([0, 1, 2])
    data = TensorDataset(x, y)
    assert len(data) == 3
    assert data[1][0].tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match=r"got shapes \[\(3, 2\), \(2,\)\]"):
        TensorDataset(x, y[:2])
    both = data + Subset(data, [2])
    assert isinstance(both, ConcatDataset)
    assert both[-1][1] == 2
    with pytest.raises(IndexError, match="not within 4 items"):
        both[4]
    assert StackDataset(a=[1, 2], b=[3, 4])[1] == {"a": 2, "b": 4}
    with pytest.raises(ValueError, match="sizes differ"):
        StackDataset([1], [1, 2])


def test_random_split_divides_all_items():
    parts = random_split(range(11), [0.5, 0.3, 0.2], generator=0)
    assert [len(part) for part in parts] == [6, 3, 2]
    assert sorted(i for part in parts for i in part.indices) == list(range(11))
    again = random_split(range(11), [6, 3, 2], generator=0)
    assert [part.indices for part in again] == [part.indices for part in parts]
    with pytest.raises(ValueError, match="do not add up to the 11 items"):
        random_split(range(11), [6, 3])


def test_samplers():
    drawn = list(RandomSampler(range(4), num_samples=6, generator=0))
    assert len(drawn) == 6
    assert sorted(drawn[:4]) == [0, 1, 2, 3]
    again = list(RandomSampler(range(3), replacement=True, num_samples=50, generator=0))
    assert set(again) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([9, 7, 8], generator=0)) == [7, 8, 9]
    weighted = WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=0)
    counts = np.bincount(list(weighted), minlength=3)
    assert counts[1] == 0
    assert counts[2] / 4000 == pytest.approx(0.75, abs=0.03)
    with pytest.raises(ValueError, match="num_samples should be a positive"):
        WeightedRandomSampler([1.0], 0)


def equal(mine, theirs):
    """Whether two batches have the same structure, dtypes and values."""
    if isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(equal(mine[k], theirs[k]) for k in theirs)
    if isinstance(theirs, list | tuple):
        return type(mine) is type(theirs) and all(map(equal, mine, theirs))
    if hasattr(theirs, "numpy"):
        a, b = mine.numpy(), theirs.numpy()
        return a.dtype == b.dtype and np.array_equal(a, b)
    return mine == theirs


def test_collate_is_that_of_pytorch(torch):
    batches = [
        [1, 2],
        [1.5, 2.5],
        [True, False],
        [np.zeros(3, np.float32), np.ones(3, np.float32)],
        [np.float64(1.0), np.float64(2.0)],
        ["a", "b"],
        [(1, "a"), (2, "b")],
        [[1, 2.0], [3, 4.0]],
        [{"x": 1, "y": [2.0]}, {"x": 3, "y": [4.0]}],
    ]
    for batch in batches:
        assert equal(default_collate(batch), torch.utils.data.default_collate(batch)), batch
        assert equal(default_convert(batch), torch.utils.data.default_convert(batch)), batch
    tensors = default_collate([pb.tensor([1.0]), pb.tensor([2.0])])
    assert tensors.tolist() == [[1.0], [2.0]]
    with pytest.raises(RuntimeError, match=r"equal size, but lengths are \[1, 2\]"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="found object"):
        default_collate([object()])
