"""A sample of an operator's record as a function of its arrays, for tests that give it others."""

from __future__ import annotations

import operator

import numpy as np

import pullback as pb


def is_array(value):
    return isinstance(value, np.ndarray)


class SampleCall:
    """Calls the operator with the arrays that it is given in the places of the sample's own."""

    def __init__(self, op, sample, is_wanted=is_array):
        public = operator.attrgetter(op.name)(pb)
        self.function = public if op.through is None else op.through(public)
        self.sample = sample
        self.places = []
        for where, value in [*enumerate(sample.args), *sample.kwargs.items()]:
            if is_wanted(value):
                self.places.append((where, None))
            elif isinstance(value, list | tuple):
                self.places += [(where, i) for i, v in enumerate(value) if is_wanted(v)]
        self.arrays = []
        for where, index in self.places:
            value = sample.args[where] if isinstance(where, int) else sample.kwargs[where]
            self.arrays.append(value if index is None else value[index])

    def __call__(self, *arrays):
        args, kwargs = list(self.sample.args), dict(self.sample.kwargs)
        for (where, index), array in zip(self.places, arrays, strict=True):
            holder = args if isinstance(where, int) else kwargs
            if index is None:
                holder[where] = array
            else:
                holder[where] = list(holder[where])
                holder[where][index] = array
        found = self.function(*args, **kwargs)
        return tuple(found) if isinstance(found, tuple | list) else (found,)
