"""Fit a logistic and a Poisson regression to rows in Parquet files, by L-BFGS on worker processes.

Workers read each file once and keep its rows; a task returns value and gradient of one file's rows.
The losses are compiled with their gradients. A worker that dies costs time only: dask reads its
files again.
Run it: python examples/glm_parquet.py [picture.png] [rows]. Needs dask, pyarrow, scikit-learn.
"""

import sys
import tempfile
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import pullback as pb
from pullback.distributed import value_and_grad_over

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLUMNS = 10
TRUTH = np.linspace(-1.0, 1.0, COLUMNS + 1)  # the last one is the intercept
PENALTY = 1.0


def write_files(folder, rows, files):
    """Rows of both problems, spread over files."""
    paths = []
    for number in range(files):
        rng = np.random.default_rng(number)
        count = rows // files
        x = rng.normal(size=(count, COLUMNS)) / np.sqrt(COLUMNS)
        linear = x @ TRUTH[:-1] + TRUTH[-1]
        chance = 1 / (1 + np.exp(-linear))
        columns = {f"x{n}": x[:, n] for n in range(COLUMNS)}
        columns["clicked"] = (rng.random(count) < chance).astype(float)
        columns["visits"] = rng.poisson(np.exp(linear)).astype(float)
        paths.append(str(folder / f"part{number:04}.parquet"))
        pq.write_table(pa.table(columns), paths[-1])
    return paths


def read(path):
    """The rows of a file, and both targets."""
    table = pq.read_table(path, use_threads=False)
    columns = [table[name].to_numpy() for name in table.column_names]
    return np.stack(columns[:COLUMNS], axis=1), *columns[COLUMNS:]


def logistic_loss(p, rows):
    x, clicked, _ = rows
    linear = x @ p[:-1] + p[-1]
    return np.sum(np.logaddexp(0.0, linear) - clicked * linear)


def poisson_loss(p, rows):
    x, _, visits = rows
    linear = x @ p[:-1] + p[-1]
    return np.sum(np.exp(linear) - visits * linear)


def fit(loss, partitions, client):
    """The minimum of the loss and a penalty of the slopes, and the steps that it took."""
    step = value_and_grad_over(pb.compile(loss), partitions, executor=client)

    def penalised(p):
        value, gradient = step(p)
        slopes = np.append(p[:-1], 0.0)
        return value + PENALTY / 2 * slopes @ slopes, gradient + PENALTY * slopes

    options = {"maxiter": 100, "ftol": 1e-14, "gtol": 1e-6}
    found = minimize(penalised, np.zeros(COLUMNS + 1), jac=True, method="L-BFGS-B", options=options)
    return found.x, step.timings


def fit_in_memory(paths):
    """The same minima by scikit-learn, which has all rows in memory."""
    x, clicked, visits = map(np.concatenate, zip(*map(read, paths), strict=True))
    logistic = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=1000).fit(x, clicked)
    poisson = PoissonRegressor(alpha=PENALTY / len(x), tol=1e-10, max_iter=1000).fit(x, visits)
    return (
        np.append(logistic.coef_, logistic.intercept_),
        np.append(poisson.coef_, poisson.intercept_),
    )


def main(picture=PICTURES / "glm_parquet.png", rows=1_000_000, workers=2):
    files = max(8, min(40, rows // 50_000))
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), rows, files)
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster) as client,
        ):
            begin = time.perf_counter()
            partitions = client.map(read, paths)
            logistic, steps = fit(logistic_loss, partitions, client)
            poisson, _ = fit(poisson_loss, partitions, client)
            ours = time.perf_counter() - begin
        begin = time.perf_counter()
        expected = fit_in_memory(paths)
        theirs = time.perf_counter() - begin
    draw(picture, (logistic, poisson), expected, steps, (ours, theirs))
    return (logistic, poisson), expected, (ours, theirs)


def draw(picture, found, expected, steps, seconds):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, ours, theirs in zip(("logistic", "Poisson"), found, expected, strict=True):
        left.plot(theirs, ours - theirs, "o", label=name)
    left.axhline(0.0, color="0.7", zorder=0)
    left.set(
        title="Difference from scikit-learn's optimum", xlabel="coefficient", ylabel="difference"
    )
    left.legend()
    right.plot([1e3 * step.seconds for step in steps], label="step")
    right.plot([1e3 * step.worker_seconds for step in steps], label="work of all workers")
    right.set(title="Logistic regression, L-BFGS", xlabel="evaluation", ylabel="milliseconds")
    right.set_ylim(bottom=0)
    right.legend(title=f"both fits: {seconds[0]:.1f} s, scikit-learn {seconds[1]:.1f} s")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    path = arguments[0] if arguments else PICTURES / "glm_parquet.png"
    result = main(path, rows=int(float(arguments[1])) if len(arguments) > 1 else 1_000_000)
    for ours, theirs in zip(*result[:2], strict=True):
        print("largest difference of a coefficient:", np.abs(ours - theirs).max())
    print("seconds, ours and scikit-learn's:", result[2])
